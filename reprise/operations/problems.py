"""The form of problems and of switches, and their order."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sessions_app.selectors.counts import Count

SHOWN = 20
"""Most problems of one kind, and most switches of one kind."""


class Severity(StrEnum):
    """The severities of problems, the worst first."""

    CRITICAL = "critical"
    """Work stands still, or will."""
    WARNING = "warning"
    """Some work is late, or fails, until somebody acts."""
    NOTICE = "notice"
    """Somebody wanted it so, or it passes by itself."""

    @property
    def tone(self) -> str:
        """Return the family of colours, as those of a status."""
        return _TONES[self]


_TONES = {Severity.CRITICAL: "bad", Severity.WARNING: "waiting", Severity.NOTICE: "off"}


class ActName(StrEnum):
    """The acts that help an operator; each is a call of REST, too."""

    RETRIES_ON = "retries_on"
    RETRIES_PAUSE = "retries_pause"
    EXECUTOR_CORDON = "executor_cordon"
    EXECUTOR_UNCORDON = "executor_uncordon"
    EXECUTOR_DRAIN = "executor_drain"
    QUEUE_CORDON = "queue_cordon"
    QUEUE_UNCORDON = "queue_uncordon"
    NODE_QUARANTINE = "node_quarantine"
    NODE_RELEASE = "node_release"
    BREAKER_CLOSE = "breaker_close"
    PARKED_SEND = "parked_send"
    CHAINS_RETRY = "chains_retry"
    CHAINS_GIVE_UP = "chains_give_up"
    BUDGET_RAISE = "budget_raise"


LABELS = {
    ActName.RETRIES_ON: "Switch on",
    ActName.RETRIES_PAUSE: "Pause",
    ActName.EXECUTOR_CORDON: "Cordon",
    ActName.EXECUTOR_UNCORDON: "Uncordon",
    ActName.EXECUTOR_DRAIN: "Drain",
    ActName.QUEUE_CORDON: "Cordon",
    ActName.QUEUE_UNCORDON: "Uncordon",
    ActName.NODE_QUARANTINE: "Quarantine",
    ActName.NODE_RELEASE: "Release",
    ActName.BREAKER_CLOSE: "Close",
    ActName.PARKED_SEND: "Send again",
    ActName.CHAINS_RETRY: "Retry all",
    ActName.CHAINS_GIVE_UP: "Give up all",
    ActName.BUDGET_RAISE: "Raise",
}


@dataclass(frozen=True, slots=True)
class Act:
    """Something that an operator can do about a problem or with a switch."""

    name: ActName
    of: str
    """An executor, a node as `executor/name`, a queue as `domain/project/name`, the id of a
    breaker, the name of a task; for retries `domain/project`, a domain, or "" for the cluster, for
    a budget also a queue; "" for all parked chains."""

    @property
    def label(self) -> str:
        """Return the word of its button."""
        return LABELS[self.name]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong, or that somebody switched off."""

    kind: str
    severity: Severity
    sentence: str
    subject: str = ""
    """The object concerned, such as the name of an executor or the id of a session; "" for all."""
    since: datetime | None = None
    affected: Count | None = None
    """The number of `unit` that it holds up; None if that is not known."""
    unit: str = ""
    acts: tuple[Act, ...] = ()
    form: tuple[str, int] | None = None
    """The form that helps: a kind of record and the id of one."""


class SwitchKind(StrEnum):
    """The kinds of switches, by the object that they hold."""

    RETRIES = "retries"
    EXECUTOR = "executor"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Switch:
    """Something that can be held: the retries of a scope, an executor, a queue."""

    kind: SwitchKind
    name: str
    """As the `of` of its acts."""
    state: str
    """`on`, `paused`, `off`; `open`, `cordoned`, `draining`."""
    holds: Count | None
    """The number of `unit` that it holds now; None if that is not known."""
    would_hold: Count
    """The number that it would hold if it were moved now, or would go on to hold."""
    unit: str
    acts: tuple[Act, ...]


_SEVERITIES = list(Severity)


def worst_first(problems: Iterable[Problem]) -> list[Problem]:
    """Sort by severity, then by how much is affected; kinds and subjects in a fixed order."""
    return sorted(problems, key=_place)


def _place(problem: Problem) -> tuple[int, int, str, str]:
    affected = problem.affected.value if problem.affected else 0
    return (_SEVERITIES.index(problem.severity), -affected, problem.kind, problem.subject)
