"""Cells of reports as CSV: no spreadsheet computes them, and all of them is seen."""

import pytest

from interfaces.render.report_render import cell


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, ""),
        ("", ""),
        ("busybox:1", "busybox:1"),
        ("a=b", "a=b"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        (" =1", "' =1"),
        ("\u00a0=1", "'\u00a0=1"),
        ("\uff1d1\uff0b1", "'\uff1d1\uff0b1"),
        ("\uff0b1", "'\uff0b1"),
        ("\uff0d1", "'\uff0d1"),
        ("\uff20SUM(A1)", "'\uff20SUM(A1)"),
        ("\u3000\uff1d1", "'\u3000\uff1d1"),
        ("\u200b=1", "<U+200B>=1"),
        ("gnp\u202egpj", "gnp<U+202E>gpj"),
    ],
)
def test_a_cell(text: str | None, shown: str) -> None:
    assert cell(text) == shown
