"""The life of a session as a table: which status may follow which. Pure."""

from enum import StrEnum


class Status(StrEnum):
    """The status of one attempt."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    PREPARING = "PREPARING"
    PULLING = "PULLING"
    PREPARED = "PREPARED"
    CREATING = "CREATING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


class Phase(StrEnum):
    """The coarse form of a status, which indexes use."""

    BLOCKED = "blocked"
    """It waits for other chains, and stands in no line."""
    WAITING = "waiting"
    LIVE = "live"
    FINAL = "final"


class RetryState(StrEnum):
    """The retry state of a session."""

    NONE = "none"
    SCHEDULED = "scheduled"
    HELD = "held"
    PARKED = "parked"
    RETRIED = "retried"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    NOT_RETRIED = "not_retried"
    CANCELLED = "cancelled"


GRANTED_RETRY = frozenset({RetryState.SCHEDULED, RetryState.HELD})
# Also what waits for somebody to decide: no retry is granted, and the chain has not ended.
WAITING_RETRY = GRANTED_RETRY | {RetryState.PARKED}
# In these the newest attempt of a chain has ended, and nothing more happens by itself.
ENDED_STATES = (
    RetryState.SUCCEEDED,
    RetryState.EXHAUSTED,
    RetryState.NOT_RETRIED,
    RetryState.CANCELLED,
)
_LASTING = frozenset({RetryState.HELD, RetryState.PARKED, *ENDED_STATES})
FINAL_STATUSES = frozenset({Status.TERMINATED, Status.ERROR, Status.CANCELLED})
# Statuses on an executor, in their order; those in the middle may be skipped.
LIVE_STATUSES = (
    Status.SCHEDULED,
    Status.PREPARING,
    Status.PULLING,
    Status.PREPARED,
    Status.CREATING,
    Status.RUNNING,
    Status.TERMINATING,
)
PENDING_PHASES = (Phase.BLOCKED, Phase.WAITING)
UNFINISHED_PHASES = (*PENDING_PHASES, Phase.LIVE)


def _transitions() -> dict[Status, frozenset[Status]]:
    table = {status: frozenset[Status]() for status in FINAL_STATUSES}
    table[Status.PENDING] = frozenset({Status.SCHEDULED, Status.ERROR, Status.CANCELLED})
    for position, status in enumerate(LIVE_STATUSES):
        table[status] = frozenset(LIVE_STATUSES[position + 1 :]) | FINAL_STATUSES
    for status in (Status.SCHEDULED, Status.PREPARING):
        table[status] |= {Status.PENDING}
    return table


TRANSITIONS = _transitions()

EVENT_TYPES: dict[Status, str] = {
    status: f"session.{status.lower()}" for status in Status if status is not Status.PENDING
}

_PHASES = (
    {Status.PENDING: Phase.WAITING}
    | dict.fromkeys(LIVE_STATUSES, Phase.LIVE)
    | dict.fromkeys(FINAL_STATUSES, Phase.FINAL)
)


class TransitionNotAllowed(ValueError):
    """A status change that the table does not allow."""

    def __init__(self, current: Status, target: Status):
        super().__init__(f"{current} -> {target} is not allowed")


def resting(state: RetryState | str) -> str:
    """Return the state if a session stays in it until somebody acts, else ""."""
    return str(state) if state in _LASTING else ""


def phase_of(status: Status) -> Phase:
    """Return the phase of a session with this status; a new one may be blocked instead."""
    return _PHASES[status]


def is_allowed(current: Status, target: Status) -> bool:
    """Return whether a session may go from `current` to `target` in one step."""
    return target in TRANSITIONS[current]


def check(current: Status, target: Status) -> None:
    """Raise `TransitionNotAllowed` unless the table allows the step."""
    if not is_allowed(current, target):
        raise TransitionNotAllowed(current, target)
