"""What a program asks about its attempt, and tells of its progress."""

import json
import subprocess
import sys
from typing import Any

import pytest
from reprise_client.this_attempt import ThisAttempt, progress_line

from base.runlines.progress import Progress, read_line
from tests.unit.client.conftest import Command

INSIDE = {
    "REPRISE_SESSION_ID": "s",
    "REPRISE_ATTEMPT": "2",
    "REPRISE_PREVIOUS_CAUSE": "preempted",
    "REPRISE_CHECKPOINT": "s3://b/40",
    "REPRISE_STEP": "40",
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def printed(capsys: pytest.CaptureFixture[str]) -> list[Progress | None]:
    return [read_line(line.encode()) for line in capsys.readouterr().out.splitlines()]


def test_it_says_which_attempt_this_is() -> None:
    here = ThisAttempt(INSIDE)
    assert (here.number, here.previous_cause) == (2, "preempted")
    assert (here.checkpoint, here.step) == ("s3://b/40", 40)
    assert ThisAttempt({**INSIDE, "REPRISE_STEP": "0.5"}).step == 0.5


def test_outside_it_has_defaults_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    here = ThisAttempt({})
    assert (here.number, here.previous_cause, here.checkpoint, here.step) == (0, "", "", 0)
    here.progress(step=1, checkpoint="c")
    here.flush()
    assert printed(capsys) == []


def test_it_prints_a_line_a_second_and_the_last_one(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    here = ThisAttempt(INSIDE)
    for step in range(27):
        here.progress(step=step, of=27, note="epoch 1")
        clock[0] += 0.125
    here.flush()
    here.flush()
    told = printed(capsys)
    assert told[0] == Progress(0, 27, note="epoch 1")
    assert [each.step for each in told if each] == [0, 8, 16, 24, 26]


def test_a_new_checkpoint_is_told_at_once(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    here = ThisAttempt(INSIDE)
    for step in (1, 2, 3, 4):
        here.progress(step=step, checkpoint=f"s3://b/{step // 2}")
    told = printed(capsys)
    assert [each.step for each in told if each] == [1, 2, 4]


def test_a_checkpoint_that_keeps_its_name_is_told_with_its_own_step(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    here = ThisAttempt(INSIDE)
    for step in range(1, 8):
        here.progress(step=step, checkpoint="last.pt" if step % 3 == 0 else None)
        clock[0] += 0.1
    saved = [each for each in printed(capsys) if each and each.checkpoint]
    assert [(each.step, each.checkpoint) for each in saved] == [(3, "last.pt"), (6, "last.pt")]


def test_a_checkpoint_in_every_call_is_told_once_a_second(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    here = ThisAttempt(INSIDE)
    for step in range(18):
        here.progress(step=step, checkpoint="last.pt")
        clock[0] += 0.125
    here.flush()
    assert [each.step for each in printed(capsys) if each] == [0, 8, 16, 17]


class Tensor:
    """A number that is none of Python's."""

    def __float__(self) -> float:
        return 7.0


@pytest.mark.parametrize(
    ("step", "told"), [(Tensor(), 7), (True, 1), (0.5, 0.5), (3.0, 3), (1e300, 1e300)]
)
def test_any_kind_of_number_will_do(
    capsys: pytest.CaptureFixture[str], step: Any, told: float
) -> None:
    ThisAttempt(INSIDE).progress(step=step)
    assert printed(capsys) == [Progress(told)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "seven"},
        {"step": None},
        {"step": -1},
        {"step": float("nan")},
        {"step": 10**400},
        {"step": 1, "of": "x"},
        {"step": 1, "checkpoint": 5},
        {"step": 1, "checkpoint": "a\nb"},
        {"step": 1, "checkpoint": "ü" * 1025},
        {"step": 1, "note": "x" * 201},
        {"step": 1, "note": "\ud800"},
    ],
)
def test_nothing_is_raised(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, wrong: dict[str, Any]
) -> None:
    here = ThisAttempt(INSIDE)
    here.progress(**wrong)
    here.progress(**wrong)
    assert printed(capsys) == []
    assert len(caplog.messages) == 1


def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    ThisAttempt(INSIDE).progress(step=1)


def test_the_last_line_is_printed_at_the_end_of_the_program() -> None:
    program = (
        "from reprise_client import attempt\n"
        "for step in range(3): attempt.progress(step=step, of=3)\n"
        "import sys; print('httpx' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=INSIDE, capture_output=True, text=True, check=True
    )
    first, light, last = done.stdout.splitlines()
    assert read_line(first.encode()) == Progress(0, 3)
    assert read_line(last.encode()) == Progress(2, 3)
    assert light == "False"


SIGNALLED = """
import signal, sys
from reprise_client import attempt

def save(*_):
    attempt.progress(step=2, checkpoint="s3://b/2")
    sys.exit(0)

class Output:
    told, busy = False, sys.argv[1] == "busy"

    def write(self, text):
        if not self.told:
            self.told = True
            signal.raise_signal(signal.SIGTERM)
        if self.busy:
            self.busy = False
            raise RuntimeError("reentrant call inside a writer")
        return sys.__stdout__.write(text)

    def flush(self):
        sys.__stdout__.flush()

signal.signal(signal.SIGTERM, save)
sys.stdout = Output()
attempt.progress(step=1)
"""


@pytest.mark.parametrize("output", ["free", "busy"])
def test_a_handler_of_a_signal_tells_its_checkpoint(output: str) -> None:
    """At once, or at the end of the program if the line before is only half printed."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, output],
        env=INSIDE,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    told = [read_line(line.encode()) for line in done.stdout.splitlines()]
    assert Progress(2, checkpoint="s3://b/2") in told


def test_every_line_can_be_read() -> None:
    line = progress_line(1.5, 3, "ü" * 1024, "€" * 200)
    assert read_line(line.encode()) == Progress(1.5, 3, "ü" * 1024, "€" * 200)


def test_the_command_prints_the_line(command: Command) -> None:
    result = command("progress", "--step", "40", "--of", "100", "--checkpoint", "s3://b/40")
    assert result.exit_code == 0
    assert result.stdout == '::reprise:: {"step": 40, "of": 100, "checkpoint": "s3://b/40"}\n'
    assert json.loads(result.stdout.removeprefix("::reprise:: "))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--step", "-1"], "step: must be a finite number of at least 0"),
        (["--step", "nan"], "step: must be a finite number of at least 0"),
        (["--step", "1", "--note", "x" * 201], "note: must have at most 200 characters"),
    ],
)
def test_the_command_says_what_is_wrong(command: Command, options: list[str], text: str) -> None:
    result = command("progress", *options)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())
    assert result.stdout == ""
