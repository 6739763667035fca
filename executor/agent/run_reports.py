"""The reports of an agent about its runs, made from what the driver observed."""

import time

from reprise_client.wire import Report, RunProgress

from executor.agent.lifecycle import FENCED, Ending, Run
from executor.drivers.protocol import Observation, facts
from executor.failure_tail import failure_tail, text_of
from executor.reports import report

NUMBERS_BEGAN = 1_500_000_000


def middle_report(seen: Observation) -> Report:
    """Return the report of something that is no end."""
    return report(
        seen.key, seen.status, time.time(), node=seen.node, message=seen.message, pod=seen.pod
    )


def final_report(run: Run, seen: Observation, progress: RunProgress | None = None) -> Report:
    """Return the report of an end, with the progress that the run told.

    If the agent brought it about, it is an ERROR, whatever the exit code; but of a preempted pod
    the phase decides.
    """
    status, message, termination = seen.status, seen.message, seen.termination or facts(None)
    own_success = run.ending is Ending.PREEMPTED and status == "TERMINATED" and "pod" in termination
    if run.ending is not None and seen.stopped and not own_success:
        status, message = "ERROR", message or run.ending.value
        termination = {**termination, "lease_expired": run.ending in FENCED}
        if run.ending is Ending.PREEMPTED:
            termination["reason"] = termination["reason"] or "Preempted"
    # Of an end that the agent brought about, the output does not tell why. A run that its driver
    # ended at its time limit is a failure: the output tells where it hung.
    failed = status == "ERROR" and run.ending is None
    return report(
        run.key,
        status,
        time.time(),
        node=seen.node,
        message=message,
        termination=termination,
        log_tail=_log_tail(run, seen, termination.get("rank")) if failed else "",
        progress=progress,
    )


def _log_tail(run: Run, seen: Observation, rank: int | None) -> str:
    if seen.failed_output is not None:
        return text_of(seen.failed_output)
    return failure_tail(run.files, rank)


def first_number() -> int:
    """Return a number above those of all reports that an earlier agent can have sent, and below
    those of any later one: no run has a report each second."""
    return int(time.time()) - NUMBERS_BEGAN
