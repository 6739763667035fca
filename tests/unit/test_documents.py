"""Documents as bodies: JSON and YAML read strictly, and nothing that explodes."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from interfaces.http.documents import (
    MAX_VALUES,
    JSONDocumentParser,
    YAMLDocumentParser,
    YAMLRenderer,
    parse_yaml,
)
from sessions_app.core.errors import InvalidInput


def refused(body: bytes) -> dict[str, list[str]]:
    with pytest.raises(InvalidInput) as caught:
        YAMLDocumentParser().read(body)
    return caught.value.errors


def bomb(levels: int) -> bytes:
    """Nine aliases a level: nine to the power of `levels` values."""
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        inside = b", ".join([b"*a%d" % (level - 1)] * 9)
        lines.append(b"a%d: &a%d [%b]" % (level, level, inside))
    return b"\n".join(lines)


def test_plain_values_are_read() -> None:
    text = b"""
    a: text
    b: [1, 2.5, true, null, "7"]
    c: {d: 10s, e: 2001-01-01, f: =, "g": 64Gi}
    """
    assert parse_yaml(text) == {
        "a": "text",
        "b": [1, 2.5, True, None, "7"],
        "c": {"d": "10s", "e": "2001-01-01", "f": "=", "g": "64Gi"},
    }


@pytest.mark.parametrize("body", [b"", b"  \n", b"# nothing\n", b"---\n", b"null"])
def test_nothing_is_an_empty_object(body: bytes) -> None:
    assert parse_yaml(body) == {}


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70))
def test_a_number_of_json_is_the_same_number_in_yaml(number: float) -> None:
    assert parse_yaml(json.dumps({"a": number}).encode()) == {"a": number}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_any_text_comes_back(text: str) -> None:
    assert parse_yaml(YAMLRenderer().render({"a": text})) == {"a": text}


def test_anchors_and_merges_are_written_out() -> None:
    body = b"a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}"
    assert parse_yaml(body) == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (bomb(9), f"more than {MAX_VALUES} values"),
        (b"a: [" + b"x," * (MAX_VALUES + 1) + b"]", f"more than {MAX_VALUES} values"),
        (b"".join(b"k%d: &k%d 1\n" % (n, n) for n in range(2000)), "anchors"),
        (b"a: &a [*a]", "an alias needs an anchor that ended before it"),
        (b"a: &a {b: {c: *a}}", "an alias needs an anchor that ended before it"),
        (b"a: *b", "an alias needs an anchor that ended before it"),
        (b"a: " + b"[" * 100_000, "nested deeper than 64"),
        (b"- " * 100_000, "nested deeper than 64"),
        (b"{a: " * 10_000, "nested deeper than 64"),
        (b"a: 1\nb: 2\na: 3", "the key 'a' is repeated (line 3, column 1)"),
        (b"a: {b: 1, 'b': 2}", "the key 'b' is repeated"),
        (b"a: !!python/object/apply:os.system [ls]", "tags are not allowed"),
        (b"a: !!int x", "tags are not allowed"),
        (b"a: !!binary aGk=", "tags are not allowed"),
        (b"1: a", "a key must be text"),
        (b"true: a", "a key must be text"),
        (b"? {a: 1}\n: b", "a key must be text"),
        (b"a: 0x" + b"f" * 500_000, "the number is too long"),
        (b"a: " + b"9" * 500_000, "the number is too long"),
        (b"a: 1\n---\nb: 2", "another document"),
        (b"- a", "must be a YAML mapping"),
        (b"a: [1", "line 2, column 1"),
        (b"a:\n\t- b", "line 2, column 1"),
        (b"\x00\xff\xfe", "not valid YAML"),
        (b"<<: 3", "not valid YAML"),
        (b'a: "\\ud800"', "not valid YAML"),
    ],
    ids=range(26),
)
def test_values_without_json_and_bombs_are_refused(body: bytes, why: str) -> None:
    ((text,),) = [refused(body)["body"]]
    assert why in text
    assert len(text) < 300


@pytest.mark.parametrize(
    ("body", "field"), [(b"a: .nan", "a"), (b"a: [.inf]", "a[0]"), (b'a: {b: "\\0"}', "a.b")]
)
def test_values_that_cannot_be_stored_name_their_field(body: bytes, field: str) -> None:
    assert list(refused(body)) == [field]


def test_a_repeated_key_in_json_is_refused() -> None:
    assert JSONDocumentParser().read(b'{"a": {"b": 1}}') == {"a": {"b": 1}}
    with pytest.raises(InvalidInput) as caught:
        JSONDocumentParser().read(b'{"a": {"b": 1, "c": 2, "b": 3}}')
    assert caught.value.errors == {"body": ["is not valid JSON: the key 'b' is repeated"]}


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1, "a": ["x", None, True, 2.5]},
        {"text": "yes", "more": "010", "lines": "a\nb", "date": "2001-01-01", "unicode": "é"},
        {"small": 1e-300, "large": 1e300, "number": "1e3", "dotted": "1.e+3", "hash": "12e45f"},
        {},
    ],
)
def test_rendered_documents_read_the_same(value: dict[str, Any]) -> None:
    text = YAMLRenderer().render(value)
    assert yaml.safe_load(text) == value
    assert parse_yaml(text) == value
    assert list(parse_yaml(text)) == list(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("012", 12),
        ("-07", -7),
        ("0o12", 10),
        ("0x1F", 31),
        ("+3", 3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        # Numbers of YAML 1.1 are text: in minutes, with separators, binary.
        *((text, text) for text in ("1:30", "1:30.5", "1_000", "1_0.5", "0b11", "0o8", "1.2.3")),
    ],
)
def test_numbers_are_those_of_yaml_1_2(text: str, value: object) -> None:
    read = parse_yaml(f"values: [{text}]".encode())["values"]
    assert read == [value]
    assert type(read[0]) is type(value)
    assert parse_yaml(YAMLRenderer().render({"values": [text, value]})) == {"values": [text, value]}
