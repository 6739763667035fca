"""Breakers across chains: when one opens, what it holds, and what its probe shows. Pure."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

CLUSTER = "cluster"
LEAST_PROJECTS = 3
"""Number of projects whose chains must fail before the cluster's breaker opens."""
LONGEST_DELAY = 3_600.0
"""Maximum seconds between a probe that failed and the next one."""
PROBE_SECONDS = 1_800.0
"""Seconds after which a probe without an end is handed on to another chain."""


class BreakerRule(BaseModel):
    """When a signature opens a breaker: so many chains fail with it within a window. Times are in
    seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chains: Annotated[int, Field(ge=2, le=100_000, strict=True)] = 20
    """The number of chains that fail so within the window."""
    window: Annotated[int, Field(ge=60, le=86_400, strict=True)] = 600
    probe_after: Annotated[int, Field(ge=1, le=3_600, strict=True)] = 60
    """The time from the opening to the first probe. It doubles with each probe that fails, up to an
    hour."""


class OpenBreaker(NamedTuple):
    """An open breaker of the cluster (no project), of a project (no queue) or of a queue.

    `probe` is the id of the failed session whose retry it lets through, "" for none.
    """

    scope: str
    project_id: int | None
    queue_id: int | None
    signature: str
    probe: str = ""

    @property
    def key(self) -> str:
        """Return the `held_key` of what it holds."""
        return f"{self.scope}/{self.signature}"


class ProbeEnd(StrEnum):
    """The verdict of an ended probe about its breaker."""

    CLOSES = "closes"
    FAILED = "failed"
    HANDED_ON = "handed on"
    """The end says nothing: another chain probes next, without a longer delay."""


def scope_key(project_id: int | None, queue_id: int | None) -> str:
    """Return the name of the cluster, of a project or of a queue in keys."""
    if queue_id is not None:
        return f"queue:{queue_id}"
    return CLUSTER if project_id is None else f"project:{project_id}"


def opens(rule: BreakerRule, scope: str, chains: Mapping[int, int]) -> bool:
    """Return whether so many chains, by project, open a breaker of this scope.

    The cluster's needs chains of three projects, none of which has more than half of them.
    """
    total = sum(chains.values())
    if total < rule.chains:
        return False
    if scope != CLUSTER:
        return True
    return len(chains) >= LEAST_PROJECTS and 2 * max(chains.values()) <= total


def holder(
    breakers: Iterable[OpenBreaker], queue_id: int, signature: str, session_id: str = ""
) -> OpenBreaker | None:
    """Return the closest open breaker that holds a retry after this failure; None for none.

    `breakers` are those of the session's project. The probe of one of them passes all of its
    signature: otherwise two that are open at the same time would hold each other's.
    """
    found = [
        each
        for each in breakers
        if each.signature == signature and each.queue_id in {None, queue_id}
    ]
    if session_id and any(each.probe == session_id for each in found):
        return None
    return max(found, key=_closeness, default=None)


def _closeness(breaker: OpenBreaker) -> tuple[bool, bool]:
    return breaker.queue_id is not None, breaker.project_id is not None


def probe_end(breaker_signature: str, *, status: str, signature: str, platform: bool) -> ProbeEnd:
    """Return what the end of the probe's run says: its status, signature and class of cause."""
    if status == "TERMINATED":
        return ProbeEnd.CLOSES
    if status != "ERROR" or platform:
        return ProbeEnd.HANDED_ON
    return ProbeEnd.FAILED if signature == breaker_signature else ProbeEnd.CLOSES


def next_delay(delay: float) -> float:
    """Return the seconds to the next probe, after one that failed."""
    return min(2 * delay, LONGEST_DELAY)
