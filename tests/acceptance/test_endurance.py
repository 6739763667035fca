"""The benchmark of endurance, for some seconds: whether it measures, not what."""

import json
import subprocess
import sys

import pytest

from tests.acceptance.running import ROOT, clean_environ

pytestmark = pytest.mark.slow


def test_it_says_what_it_found() -> None:
    command = [sys.executable, "-m", "benchmarks.endurance", "--minutes", "0.2", "--rate", "50"]
    command += ["--warm-up", "0.05"]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environ(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert 0 < found["rate_reached"] < 60
    assert found["p99_get_ms"] >= found["p50_get_ms"] > 0
    assert found["p99_list_ms"] >= found["p50_list_ms"] > 0
    assert {"server 0", "executor 0", "postgresql"} <= found["rss_growth"].keys()
    assert found["passed"] is (found["reasons"] == [])
    # Whatever the machine does meanwhile, all sessions ended as they should.
    assert not any("expected" in reason for reason in found["reasons"])
