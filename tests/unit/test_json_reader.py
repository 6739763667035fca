"""Reading JSON piece by piece: the same values as at once, whatever the pieces are."""

import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.http import json_reader
from interfaces.http.json_reader import InvalidJSONError, JSONReader, TooDeepError
from interfaces.http.parsing import DRAIN_BYTES, BodyTooLarge

LIMIT = 10_000_000


class Trickle:
    """A stream that gives a few bytes at a time."""

    def __init__(self, body: bytes, most: int = 10**9):
        self.rest = BytesIO(body)
        self.most = most

    def read(self, size: int = -1) -> bytes:
        return self.rest.read(min(size, self.most))


def reader(body: bytes, *, most: int = 10**9, limit: int = LIMIT) -> JSONReader:
    stream: Any = Trickle(body, most)
    return JSONReader(stream, limit)


def walked(found: JSONReader) -> Any:
    """The next value, by walking all objects and lists."""
    if found.next_is("{"):
        return {name: walked(found) for name in found.members()}
    if found.next_is("["):
        return [walked(found) for _ in found.items()]
    return found.value()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    value=values, most=st.integers(1, 9), indent=st.sampled_from([None, 0, 2]), plain=st.booleans()
)
def test_any_value_is_read_in_any_pieces(
    value: Any, most: int, indent: int | None, plain: bool
) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=plain).encode()
    for read in (walked, JSONReader.value):
        found = reader(body, most=most)
        assert read(found) == value
        found.end()


@given(body=st.binary(max_size=30) | st.text('{}[]",:1e+-.\\u0d8tn ', max_size=30).map(str.encode))
def test_malformed_json_is_refused_and_the_rest_is_read(body: bytes) -> None:
    try:
        expected = json.loads(body.decode("utf-8-sig"))
    except ValueError:
        with pytest.raises(InvalidJSONError):
            only_value(body)
        return
    assert repr(only_value(body)) == repr(expected)


def only_value(body: bytes) -> Any:
    found = reader(body, most=1)
    value = found.value()
    found.end()
    return value


@pytest.mark.parametrize(
    "body", ["", "{", '{"a"', '{"a":', '{"a": 1', '{"a": 1,', '{"a": 1,}', "{a: 1}", '{"a" 1}']
)
def test_half_an_object_is_none(body: str) -> None:
    with pytest.raises(InvalidJSONError, match="is not valid JSON"):
        walked(reader(body.encode()))


@pytest.mark.parametrize("body", ["[", "[1", "[1,", "[1,]", "[1 2]", "[,]"])
def test_half_a_list_is_none(body: str) -> None:
    with pytest.raises(InvalidJSONError, match="is not valid JSON"):
        walked(reader(body.encode()))


def test_nothing_may_follow() -> None:
    found = reader(b'{"a": 1} {')
    assert walked(found) == {"a": 1}
    with pytest.raises(InvalidJSONError, match=r"the end is expected, not '\{'"):
        found.end()


def test_a_long_value_is_not_gone_over_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_reader, "PIECE", 16)
    body = json.dumps({"a": "x" * 100_000}).encode()
    reads = []

    class Counted(Trickle):
        def read(self, size: int = -1) -> bytes:
            reads.append(size)
            return super().read(size)

    stream: Any = Counted(body)
    assert JSONReader(stream, LIMIT).value() == {"a": "x" * 100_000}
    assert len(reads) < 20


def test_a_repeated_key_is_refused_where_that_matters() -> None:
    body = b'{"a": {"b": 1, "b": 2}}'
    assert reader(body).value() == {"a": {"b": 2}}
    with pytest.raises(InvalidJSONError, match="the key 'b' is repeated"):
        reader(body).value(strict=True)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(TooDeepError):
        reader(b"[" * 100_000).value()


def test_a_number_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidJSONError, match="is not valid JSON"):
        reader(b"1" * 5000).value()


def test_the_limit_is_of_bytes() -> None:
    body = b'"123456"'
    assert reader(body, limit=len(body)).value() == "123456"
    with pytest.raises(BodyTooLarge, match="over the limit of 7 bytes"):
        reader(body, limit=7).value()


def test_the_rest_is_read_up_to_some_size() -> None:
    stream = BytesIO(b"[" * (DRAIN_BYTES + 1_000_000))
    JSONReader(stream, 64 * 1024 * 1024).drain()
    assert len(stream.read()) <= 1_000_000
