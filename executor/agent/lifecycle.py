"""The state of one run in the agent's memory, and why the agent ends it."""

from dataclasses import dataclass
from enum import Enum, auto

from reprise_client.wire import Lease, LeaseAnswer, LeaseKey

from executor.runs import RunFiles


class Phase(Enum):
    """The phase of a run: OFFERED until its acceptance is answered, LIVE in the driver, then
    ENDED."""

    OFFERED = auto()
    LIVE = auto()
    ENDED = auto()


class Ending(Enum):
    """The reason for which the agent itself ends a run, with the text of its report."""

    CANCELLED = "the session was cancelled"
    PREEMPTED = "the session was preempted"
    START_FAILED = "its pods do not start"
    UNKNOWN = "the server has let go of this lease"
    LEASE_EXPIRED = "the lease could not be renewed"
    AGENT_STOPPED = "the agent was stopped"


FENCED = frozenset({Ending.LEASE_EXPIRED, Ending.AGENT_STOPPED})
FINISHING = FENCED | {Ending.UNKNOWN}
STOPS = {
    "preempted": Ending.PREEMPTED,
    "start_failed": Ending.START_FAILED,
    "unknown": Ending.UNKNOWN,
}


@dataclass
class Run:
    """A run. `output_closed` means that nothing more of its output will be sent."""

    files: RunFiles
    lease: Lease | None
    phase: Phase
    ending: Ending | None = None
    output_closed: bool = False

    @property
    def key(self) -> LeaseKey:
        return self.files.key

    @property
    def grace(self) -> float:
        spec = self.lease["spec"] if self.lease else None
        return float((spec and spec.get("termination_grace_period")) or 0)


@dataclass(frozen=True)
class Term:
    """The life of the leases: `ttl` seconds from `sent_at` (boot time), then `grace` to be gone."""

    sent_at: float
    ttl: float
    grace: float

    @classmethod
    def of(cls, answer: LeaseAnswer, sent_at: float) -> "Term":
        return cls(sent_at, answer["lease_ttl"], answer["lease_grace"])

    @property
    def life(self) -> tuple[float, float]:
        return self.ttl, self.grace
