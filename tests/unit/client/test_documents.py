from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from reprise_client.cli.documents import read_documents, write_documents

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
SCALARS = (
    TEXT
    | st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["1e3", "2001-01-01", "yes", "=", "<<", "010", "0o7", "~", "1_000", "1:30"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@given(st.lists(st.dictionaries(TEXT, VALUES, max_size=4), min_size=1, max_size=3))
def test_written_documents_read_the_same(documents: list[dict[str, Any]]) -> None:
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".yaml", newline="") as file:
        file.write(write_documents(documents))
        file.flush()
        found = read_documents([file.name])
    assert [each.data for each in found] == documents
    assert [each.number for each in found] == list(range(1, len(documents) + 1))


def test_a_fault_is_on_the_line_of_its_field(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "kind: A\n---\n# comment\nspec:\n  rules:\n  - a: 1\n  - b:\n      - x\n      - y\n"
    )
    _, second = read_documents([str(path)])
    lines = {
        "": 4,
        "spec": 4,
        "spec.rules[1].b[1]": 9,
        "spec.rules[1].b[5]": 7,
        "spec.rules[1].c": 7,
        "metadata.name": 4,
        "spec.rules.x": 5,
    }
    for field, line in lines.items():
        assert (
            second.fault(field, "is odd")
            == ", ".join(part for part in (str(path), "document 2", f"line {line}", field) if part)
            + ": is odd"
        )


def test_numbers_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: [012, 0o12, 0x1F, -7, 1e3, .5, 1:30, 1_000, 0b11, 1:30.5]")
    (read,) = read_documents([str(path)])
    assert read.data == {"a": [12, 10, 31, -7, 1000.0, 0.5, "1:30", "1_000", "0b11", "1:30.5"]}
