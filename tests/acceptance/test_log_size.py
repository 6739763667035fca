"""Tests of how much log an attempt costs, over all processes of a server at INFO."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.running import Standalone, submit
from tests.prepared import copy_database
from tests.waiting import until

pytestmark = pytest.mark.slow

CHAINS = 15
MOST_BYTES = 500


def _written(server: Standalone) -> list[str]:
    """All lines but those about what this test itself looks at."""
    lines = server.program.stderr.splitlines()
    lines += (server.data_dir / "executor.log").read_text().splitlines()
    return [each for each in lines if '"method": "GET"' not in each]


def test_an_attempt_costs_little_log(prepared: Path, tmp_path: Path) -> None:
    copy_database(prepared, tmp_path)
    with Standalone(tmp_path) as server:
        server.start(REPRISE_LOG_LEVEL="INFO", REPRISE_LOG_FORMAT="json")
        before = len(_written(server))
        for _ in range(CHAINS):
            submit(server.client, "exit $((1 - REPRISE_ATTEMPT))", policy={"max_retries": 1})
        until(
            lambda: sum(1 for _ in server.client.sessions(status="TERMINATED")) == CHAINS,
            "all chains succeeded",
        )
        lines = _written(server)[before:]
    parsed = Counter(json.loads(each).get("change") for each in lines)
    assert parsed["session.error"] == CHAINS, "each failure is told once"
    size = sum(len(each) + 1 for each in lines) / (2 * CHAINS)
    assert size <= MOST_BYTES, "\n".join(lines)
