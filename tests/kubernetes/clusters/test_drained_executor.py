"""An executor with a hundred pods is drained."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.running import clean_environ
from tests.kubernetes.clusters.land import Land
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("clusters"), pytest.mark.slow]

PODS = 100
STOPS_WITHIN_ITS_GRACE = """
test "$REPRISE_ATTEMPT" = 0 || { beat; exit 0; }
trap 'sleep 1; beat; exit 3' TERM
beat
sleep 600 & wait
"""
REPRISE = str(Path(sys.executable).with_name("reprise"))


def test_a_drained_executor_is_empty_and_its_sessions_wait_for_another(
    land: Land,
) -> None:
    client, old = land.client, land.sites["east"]
    with land.open("east"):
        roots = land.submit(
            STOPS_WITHIN_ITS_GRACE,
            PODS,
            policy={"max_retries": 0, "max_preemption_retries": 1},
            termination_grace_period=60,
        )
        land.wait_for_status(roots, "RUNNING")
    output = _reprise(land, "executor", "drain", "east", "--reason", "new kernel", "--wait")
    assert f"{PODS} runs asked to stop, 0 leases taken back" in output
    assert client.executor("east").lease_count == 0
    until(lambda: not old.pods(), "its pods are gone")

    for root in roots:
        first = client.session(root)
        assert (first.status, first.exit_code) == ("ERROR", 3)
        assert first.status_message == "preempted by admin: executor east: new kernel"
        decision = client.decision(root)
        assert (decision.cause, decision.paid_by) == ("preempted", "inline/preemption")
    until(lambda: {land.tip(each).status for each in roots} == {"PENDING"}, "all wait")
    waiting = land.tip(roots[0]).id
    reason = until(lambda: client.session(waiting).why_pending, "it says why it waits").reason
    assert reason == "executor_cordoned"

    with land.open("west"):
        until(lambda: {land.tip(each).status for each in roots} == {"TERMINATED"}, "all are back")
    assert {land.tip(each).executor for each in roots} == {"west"}
    land.lived_one_by_one(roots, attempts=2)


def _reprise(land: Land, *arguments: str) -> str:
    credentials = land.server.credentials
    environ = clean_environ(REPRISE_URL=credentials["url"], REPRISE_TOKEN=credentials["token"])
    command = [REPRISE, *arguments]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, check=True, timeout=120
    ).stdout
