"""Tests of what an attempt costs the database, stage by stage, in calls of 200 sessions each.

A change that makes an attempt dearer or cheaper says so in `COSTS`. The counts are those of
PostgreSQL's own log, on an embedded server without autovacuum; `benchmarks/budget.py` has the same,
and the CPU time.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from tests.prepared import ROOT, copy_database

pytestmark = pytest.mark.xdist_group("costs")  # one measurement for all


class Cost(NamedTuple):
    """Statements and writing transactions of a call, and what a session in it writes."""

    statements: int
    commits: int
    wal_bytes: int
    inserted: float
    updated: float
    hot: float
    deleted: float
    entries: float


COSTS = {
    # statements, commits; bytes of the log; rows inserted, updated, of these HOT, deleted; entries
    # One statement reads the executors: whether any could run them, or whether there is none.
    "submit": Cost(8, 1, 1970, 3, 0, 0, 0, 12),
    "lease": Cost(22, 2, 1824, 2, 1, 0, 0, 12),
    "accept": Cost(6, 1, 1013, 1, 2, 1.94, 0, 3.51),
    # One statement reads image and command, because these failures say nothing about themselves.
    # One entry is that of the signature.
    "fail": Cost(7, 1, 5148, 4, 1, 0, 1, 21),
    "dispatch": Cost(5, 1, 4080, 4, 2, 1, 0, 21),
    "succeed": Cost(6, 1, 2398, 2, 1, 0, 1, 14),
}
WAL_TOLERANCE = 0.05
TOLERANCE = 0.02
"""Of rows and entries: pages are not filled alike each time."""


@pytest.fixture(scope="module")
def found(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The costs as they are."""
    server = EmbeddedPostgres(copy_database(prepared, tmp_path_factory.mktemp("costs")))
    with patch.dict(SETTINGS, fsync="off"):
        url = server.start()
    try:
        command = [sys.executable, "-m", "benchmarks.stages", "--database", url]
        environ = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr
    stages: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])["stages"]
    return stages


@pytest.mark.parametrize("stage", COSTS)
def test_a_stage_costs_what_the_table_says(found: dict[str, Any], stage: str) -> None:
    costs = found[stage]
    is_ = Cost(
        costs["statements_a_call"],
        costs["commits_a_call"],
        round(costs["wal_bytes"]),
        *(round(costs[name], 2) for name in Cost._fields[3:]),
    )
    expected = COSTS[stage]
    advice = f'write "{stage}": {is_}, and say why'
    assert is_[:2] == expected[:2], advice
    assert is_.wal_bytes == pytest.approx(expected.wal_bytes, rel=WAL_TOLERANCE), advice
    assert is_[3:] == pytest.approx(expected[3:], rel=TOLERANCE, abs=TOLERANCE), advice


def test_the_table_has_every_stage(found: dict[str, Any]) -> None:
    assert COSTS.keys() == found.keys() - {"attempt"}
