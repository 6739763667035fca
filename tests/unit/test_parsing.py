import json
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interfaces.http.parsing import MAX_DEPTH, BodyTooLarge, StrictJSONParser, parse_object
from sessions_app.core.errors import InvalidInput


def refused(body: bytes) -> dict[str, list[str]]:
    with pytest.raises(InvalidInput) as caught:
        parse_object(body)
    return caught.value.errors


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_an_object_is_read() -> None:
    assert parse_object(b'{"a": [1, "\\u20ac", null, true, 1.5]}') == {
        "a": [1, "\u20ac", None, True, 1.5]
    }


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_an_empty_body_is_an_empty_object(body: bytes) -> None:
    assert parse_object(body) == {}


@pytest.mark.parametrize("body", [b"[]", b"3", b'"text"', b"null", b"true"])
def test_only_objects_are_taken(body: bytes) -> None:
    assert refused(body) == {"body": ["must be a JSON object"]}


@pytest.mark.parametrize(
    "body", [b"{", b'{"a"}', b"\xff", b'{"a": "\xff"}', b"{'a': 1}", b"1" * 5000]
)
def test_malformed_json_is_refused(body: bytes) -> None:
    assert refused(body)["body"][0].startswith("is not valid JSON")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_are_finite(number: str) -> None:
    assert refused(f'{{"a": {{"b": [0, {number}]}}}}'.encode()) == {
        "a.b[1]": ["must be a finite number"]
    }


@pytest.mark.parametrize("text", ["\\u0000", "\\ud800", "\\udfff", "x\\ud83dx"])
def test_text_can_be_stored(text: str) -> None:
    assert list(refused(f'{{"a": ["{text}"]}}'.encode())) == ["a[0]"]
    (name,) = refused(f'{{"a": {{"{text}": 1}}}}'.encode())
    assert name.startswith("a.")
    # Whoever reads the answer gets text that is text.
    name.encode()


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert parse_object(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 500, 5_000, 20_000, 200_000])
def test_deep_nesting_names_its_field(levels: int) -> None:
    body = b'{"good": [1], "bad": ' + b"[" * levels + b"]" * levels + b', "more": "]"}'
    assert refused(body) == {"bad": [f"is nested deeper than {MAX_DEPTH} levels"]}


def test_nesting_up_to_the_limit_is_taken() -> None:
    value = {"a": nested(MAX_DEPTH - 1)}
    assert parse_object(json.dumps(value).encode()) == value


def test_brackets_in_text_do_not_nest() -> None:
    body = json.dumps({"a": "[" * 30_000, 'b"]': "{" * 30_000}).encode()
    assert set(parse_object(body)) == {"a", 'b"]'}


def test_a_body_over_the_limit_is_read_to_its_end(settings: Any) -> None:
    stream = BytesIO(b" " * (settings.BODY_LIMIT_BYTES + 1_000_000))
    with pytest.raises(BodyTooLarge, match=str(settings.BODY_LIMIT_BYTES)):
        StrictJSONParser().parse(stream)
    assert stream.read() == b""


def test_a_body_of_just_the_limit_is_taken(settings: Any) -> None:
    body = b'{"a": 1}'.ljust(settings.BODY_LIMIT_BYTES)
    assert StrictJSONParser().parse(BytesIO(body)) == {"a": 1}


def errors_of(body: bytes) -> dict[str, list[str]] | None:
    try:
        parse_object(body)
    except InvalidInput as error:
        return error.errors
    return None


@given(body=st.binary(max_size=60) | st.text('{}[]",:1\\u0d8', max_size=40).map(str.encode))
def test_anything_else_is_refused_in_words(body: bytes) -> None:
    errors = errors_of(body)
    assert errors is None or errors
    json.dumps(errors, ensure_ascii=False).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=3), json_values, max_size=3))
def test_accepted_values_are_the_sent_values(value: dict[str, Any]) -> None:
    body = json.dumps(value)
    if errors_of(body.encode()) is None:
        assert parse_object(body.encode()) == value
    else:
        assert any(mark in body for mark in ("\\u0000", "\\ud", "Infinity"))
