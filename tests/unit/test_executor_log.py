"""The log of standalone's own executor, which may hold what sessions and tokens are about."""

import stat
import time
from pathlib import Path

import pytest

from reprise.standalone.agent import Agent


@pytest.mark.parametrize("there", [False, True], ids=["new", "of an earlier version"])
def test_only_its_owner_may_read_it(tmp_path: Path, there: bool) -> None:
    log = tmp_path / "executor.log"
    if there:
        log.write_text("before\n")
        log.chmod(0o644)
    agent = Agent(
        url="http://127.0.0.1:1",
        name="local",
        token_file=tmp_path / "missing",
        state_dir=tmp_path / "state",
        slots=1,
        log=log,
    )
    agent.start()
    try:
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        until = time.monotonic() + 60
        # It cannot read its token, and says so.
        while "missing" not in log.read_text():
            assert time.monotonic() < until
            time.sleep(0.1)
        assert log.read_text().startswith("before") is there
    finally:
        agent.stop()
