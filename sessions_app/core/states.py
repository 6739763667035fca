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

    WAITING = "waiting"
    LIVE = "live"
    FINAL = "final"


class RetryState(StrEnum):
    """The retry state of a session."""

    NONE = "none"
    SCHEDULED = "scheduled"
    HELD = "held"
    RETRIED = "retried"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    NOT_RETRIED = "not_retried"
    CANCELLED = "cancelled"


WAITING_RETRY = frozenset({RetryState.SCHEDULED, RetryState.HELD})
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


def phase_of(status: Status) -> Phase:
    """Return the phase of a session with this status."""
    return _PHASES[status]


def is_allowed(current: Status, target: Status) -> bool:
    """Return whether a session may go from `current` to `target` in one step."""
    return target in TRANSITIONS[current]


def check(current: Status, target: Status) -> None:
    """Raise `TransitionNotAllowed` unless the table allows the step."""
    if not is_allowed(current, target):
        raise TransitionNotAllowed(current, target)
