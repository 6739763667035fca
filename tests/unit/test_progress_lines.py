"""The lines by which runs tell how far they are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.runlines.progress import LineReader, Progress, is_progress, read_line


def line(**values: Any) -> bytes:
    return b"::reprise:: " + json.dumps(values).encode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"step": 40}', Progress(40)),
        ('{"step": 40, "of": null}', Progress(40)),
        ('{"step": 40.0, "of": 1e2}', Progress(40, 100)),
        ('{"step": 0.5, "of": 1}', Progress(0.5, 1)),
        ('{"step": -0.0}', Progress(0)),
        ('{"step": 1e300}', Progress(1e300)),
        (
            '{"step": 4, "of": 9, "checkpoint": "s3://b/4", "note": "epoch ü"}',
            Progress(4, 9, "s3://b/4", "epoch ü"),
        ),
        ('{"note": "\\u00fc", "step": 1}', Progress(1, note="ü")),
    ],
)
def test_a_line_is_read(text: str, told: Progress) -> None:
    assert read_line(f"::reprise:: {text}".encode()) == told
    assert read_line(f"::reprise::{text}".encode()) == told


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "40",
        "null",
        '{"of": 3}',
        '{"step": "40"}',
        '{"step": true}',
        '{"step": null}',
        '{"step": -1}',
        '{"step": NaN}',
        '{"step": Infinity}',
        '{"step": 1e999}',
        '{"step": 1' + "0" * 400 + "}",
        '{"step": 1, "step": 2}',
        '{"step": 1, "of": "2"}',
        '{"step": 1, "of": -2}',
        '{"step": 1, "speed": 2}',
        '{"step": 1, "checkpoint": null}',
        '{"step": 1, "checkpoint": 5}',
        '{"step": 1, "note": ["a"]}',
        '{"step": 1, "note": "a\\u0000"}',
        '{"step": 1, "note": "a\\nb"}',
        '{"step": 1, "note": "a\tb"}',
        '{"step": 1, "checkpoint": "\\u007f"}',
        '{"step": 1, "checkpoint": "\\u0085"}',
        '{"step": 1, "checkpoint": "\\ud800"}',
        '{"step": 1} done',
        '{"step": 1',
        "[" * 9000,
    ],
)
def test_any_other_line_is_plain_text(text: str) -> None:
    raw = f"::reprise:: {text}".encode()
    assert read_line(raw) is None
    assert not is_progress(raw + b"\n")


def test_the_lengths_have_limits() -> None:
    assert read_line(line(step=1, checkpoint="ü" * 1024, note="ü" * 200)) is not None
    assert read_line(line(step=1, checkpoint="ü" * 1024 + "a")) is None
    assert read_line(line(step=1, note="a" * 201)) is None
    assert read_line(line(step=1) + b" " * 16 * 1024) is None


def test_bytes_that_are_no_text_are_plain() -> None:
    assert read_line(b'::reprise:: {"step": 1, "note": "\xff"}') is None


def test_only_the_start_of_a_line_counts() -> None:
    assert read_line(b" " + line(step=1)) is None
    assert LineReader().feed(b"x " + line(step=1) + b"\n" + line(step=2) + b"\r\n") == [Progress(2)]


def test_a_line_without_an_end_counts_when_no_more_comes() -> None:
    reader = LineReader()
    assert reader.feed(b"a\n" + line(step=3)) == []
    assert reader.end() == [Progress(3)]
    assert reader.end() == []


def test_a_piece_may_begin_inside_a_line() -> None:
    reader = LineReader(inside=True)
    assert reader.feed(line(step=1) + b"\n" + line(step=2) + b"\n") == [Progress(2)]


def test_a_line_that_is_too_long_is_not_kept() -> None:
    reader = LineReader()
    for _ in range(100):
        assert reader.feed(b"::reprise::" + b" " * 4096) == []
    assert reader.feed(b"\n" + line(step=2) + b"\n") == [Progress(2)]


def test_a_line_may_begin_behind_a_bar() -> None:
    bar = b"\r 10%|##  "
    output = bar + b"\r" + line(step=1) + b"\n" + bar + line(step=2) + b"\n"
    for cut in range(len(output)):
        reader = LineReader()
        assert reader.feed(output[:cut]) + reader.feed(output[cut:]) == [Progress(1)]
    assert is_progress(bar + b"\r" + line(step=1) + b"\r\n")
    assert not is_progress(bar + line(step=1) + b"\n")


LINES = st.one_of(
    st.builds(lambda step: line(step=step), st.integers(0, 9)),
    st.sampled_from(
        [b"x\r", b"", b"text", b"::repr", b"::reprise::", b"x::reprise:: {}", b"::reprise:: {"]
    ),
)


@given(st.lists(LINES), st.data())
def test_it_does_not_matter_how_the_output_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    output = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(output)), max_size=6)))
    reader, found = LineReader(), []
    for begin, end in zip([0, *cuts], [*cuts, len(output)], strict=True):
        found += reader.feed(output[begin:end])
    found += reader.end()
    assert found == [told for each in lines if (told := read_line(each)) is not None]
