"""Logs without the lines that tell the progress."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reprise_client.cli.log_lines import WithoutProgress, tells_progress, without_progress

from base.runlines.progress import is_progress
from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply

TOLD = '::reprise:: {"step": 1, "of": null, "note": "a"}'
LINES = [
    TOLD,
    f"10%|#\r{TOLD}",
    f"x{TOLD}",
    "",
    "text",
    "::reprise::",
    "::rep",
    '::reprise:: {"step": "1"}',
    '::reprise:: {"step": true}',
    '::reprise:: {"step": 1, "checkpoint": null}',
    '::reprise:: {"step": 1, "of": [], "x": 1}',
    '::reprise:: {"step": -1}',
    "::reprise:: [1]",
    "::reprise:: 1",
]


@pytest.mark.parametrize("line", LINES)
def test_it_hides_what_the_server_reads(line: str) -> None:
    assert tells_progress(line) == is_progress(line.encode())


@given(st.lists(st.sampled_from([each for each in LINES if "\r" not in each])), st.data())
def test_it_does_not_matter_how_the_log_is_cut(lines: list[str], data: st.DataObject) -> None:
    log = "\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=5)))
    shown, filtered = "", WithoutProgress()
    for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True):
        shown += filtered.feed(log[begin:end])
    shown += filtered.end()
    assert shown == without_progress(log.encode()).decode()


def test_what_stands_before_such_a_line_may_have_been_shown() -> None:
    filtered = WithoutProgress()
    assert [filtered.feed(each) for each in ("10%", f"|#\r{TOLD[:5]}", f"{TOLD[5:]}\na")] == [
        "10%",
        "",
        "a",
    ]


def test_the_command_leaves_them_out_unless_asked(command: Command, server: FakeServer) -> None:
    log = f"a\n{TOLD}\nb\n"
    server.on(f"GET /sessions/{IDS[0]}/logs/", Reply(log.encode(), kind="text/plain"))
    server.on(f"GET /sessions/{IDS[0]}/logs/", Reply(log.encode(), kind="text/plain"))
    assert command("session", "logs", IDS[0]).stdout == "a\nb\n"
    assert command("session", "logs", IDS[0], "--progress").stdout == log
