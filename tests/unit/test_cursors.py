from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.core.cursors import START, Cursor, parse_cursor

bigints = st.integers(0, 2**63 - 1)
cursors = st.builds(Cursor, bigints, st.integers(0, 2**64 - 1), bigints)


@given(cursors)
def test_a_cursor_is_read_as_it_was_written(cursor: Cursor) -> None:
    assert parse_cursor(str(cursor)) == cursor
    assert cursor >= START


@given(st.text(max_size=30))
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with suppress(ValueError):
        assert parse_cursor(text) >= START


@pytest.mark.parametrize(
    "text",
    ["", "7", "1-2", "1-2-3-4", "-1-2-3", "1-2-3 ", "1-2-3\n", "a-2-3", "1-2-²", "\u0661-2-3",
     f"{2**63}-0-0", f"0-{2**64}-0", f"0-0-{2**63}"],
)  # fmt: skip
def test_these_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        parse_cursor(text)
