"""How far a session is, in words."""

from datetime import UTC, datetime
from typing import Any

import pytest
from reprise_client import SessionProgress
from reprise_client.cli.progress_words import progress_words, rate_words

from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def told(**values: Any) -> SessionProgress:
    values.setdefault("best_step", values["step"])
    return SessionProgress(updated_at=NOW, **values)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"step": 3}, "step 3"),
        ({"step": 3, "of": 0}, "step 3"),
        ({"step": 25, "of": 100}, "[######------------------] 25 of 100 (25 %)"),
        ({"step": 120, "of": 100}, "[########################] 120 of 100 (100 %)"),
        (
            {"step": 12000, "of": 24000, "rate": 100.0, "note": "epoch 2"},
            "[############------------] 12,000 of 24,000 (50 %), 100/s, 2 min left, epoch 2",
        ),
        (
            {"step": 0.25, "of": 1, "best_step": 0.5, "rate": 0.0},
            "[######------------------] 0.25 of 1 (25 %), best 0.5",
        ),
    ],
)
def test_a_live_run_shows_bar_rate_and_rest(values: dict[str, Any], words: str) -> None:
    assert progress_words(told(**values), live=True) == words


def test_an_ended_run_has_nothing_left() -> None:
    assert "left" not in progress_words(told(step=1, of=9, rate=1.0), live=False)


@pytest.mark.parametrize(
    ("rate", "words"),
    [(1234.5, "1,234/s"), (2.5, "2.5/s"), (0.05, "3/min"), (0.002, "7.2/h"), (1e-6, "0.0864/day")],
)
def test_the_rate_is_told_in_a_fitting_period(rate: float, words: str) -> None:
    assert rate_words(rate) == words


def test_the_command_shows_it(command: Command, server: FakeServer) -> None:
    progress = {
        "step": 25, "of": 100, "note": "", "best_step": 25, "rate": 2.5, "checkpoint": "s3://b/20",
        "checkpoint_step": 20, "updated_at": NOW.isoformat(), "made_progress": None,
    }  # fmt: skip
    session = {**answers.session("RUNNING"), "progress": progress}
    server.on(f"GET /sessions/{IDS[0]}/", Reply(session))
    shown = command("session", "info", IDS[0]).stdout
    assert "[######------------------] 25 of 100 (25 %), 2.5/s, 30 s left" in shown
    assert "s3://b/20 (step 20)" in shown
