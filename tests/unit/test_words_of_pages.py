"""The template filters that turn values into text."""

import pytest

from interfaces.templatetags.reprise import compact, words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (["a", "b"], "a, b"),
        (347.01396100074817, "347.014"),
        (3600.0, "3600"),
        (1_000_000.0, "1000000"),
        (0.0001, "0.0001"),
        (True, "true"),
        (None, "null"),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_a_value_is_short(value: object, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("code", "text"), [("max_retries", "max retries"), (None, ""), (2.243687488218388, "2.24369")]
)
def test_a_code_reads_as_words(code: object, text: str) -> None:
    assert words(code) == text
