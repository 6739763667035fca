"""A long chain as a few runs of attempts: what happened to its work, apart from preemption churn.

Pure: takes attempts as REST gives them, oldest first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from retry.evidence.causes import RetryCause

LEAST_CHURN = 3
"""Fewest preempted attempts in a row that are folded."""
LEAST_ALIKE = 5
"""Fewest equal failures in a row that are folded in a long chain."""
LONG = 30
"""Number of rows above which failures are folded, too."""
KEPT_FIRST, KEPT_LAST = 5, 20
"""Rows at both ends of a chain that stays long that are never put into one fold."""

Attempt = Mapping[str, Any]
_CHURN = frozenset({RetryCause.PREEMPTED.value, RetryCause.EVICTED.value})


class Run(NamedTuple):
    """Attempts that are shown as one row; a run of one is the attempt itself."""

    attempts: Sequence[Attempt]

    @property
    def folded(self) -> bool:
        return len(self.attempts) > 1

    @property
    def churn(self) -> bool:
        """Return whether the platform ended all of them, and nothing failed."""
        return all(attempt["cause"] in _CHURN for attempt in self.attempts)

    @property
    def first(self) -> int:
        """Return the number of its first attempt, from 1."""
        return int(self.attempts[0]["attempt"]) + 1

    @property
    def last(self) -> int:
        """Return the number of its last attempt, from 1."""
        return int(self.attempts[-1]["attempt"]) + 1

    @property
    def text(self) -> str:
        """Return what happened to them: `12 preempted, 2 evicted on 3 nodes`."""
        causes = Counter(str(each["cause"] or each["status"]) for each in self.attempts)
        counts = ", ".join(f"{n} {cause.replace('_', ' ')}" for cause, n in causes.most_common())
        nodes = len({each["node"] for each in self.attempts} - {None, ""})
        return f"{counts} on {nodes} node{'s' * (nodes > 1)}" if nodes else counts


def runs(attempts: Sequence[Attempt], shown: UUID) -> list[Run]:
    """Return the chain in order, in runs; the attempt `shown` and the newest are never folded.

    Three or more preempted or evicted attempts in a row are one run. If the chain is still long,
    equal failures in a row are one, too, and then all in the middle.
    """
    kept = {shown, attempts[-1]["id"]}
    found = list(_alike(attempts, kept, _churn_key, LEAST_CHURN))
    if len(found) > LONG:
        found = [
            run
            for is_row, part in groupby(found, key=lambda run: not run.folded)
            for run in _more(list(part), kept, is_row)
        ]
    return _short(found, kept) if len(found) > LONG else found


def _more(part: Sequence[Run], kept: set[UUID], is_row: bool) -> Iterator[Run]:
    if not is_row:
        yield from part
        return
    attempts = [run.attempts[0] for run in part]
    yield from _alike(attempts, kept, _failure_key, LEAST_ALIKE)


def _alike(attempts: Sequence[Attempt], kept: set[UUID], key: Any, least: int) -> Iterator[Run]:
    """Fold neighbours with an equal key; None is equal to nothing."""
    marked = ((None if each["id"] in kept else key(each), each) for each in attempts)
    for value, pairs in groupby(marked, key=lambda pair: pair[0]):
        members = [each for _, each in pairs]
        if value is not None and len(members) >= least:
            yield Run(members)
        else:
            yield from (Run([each]) for each in members)


def _churn_key(attempt: Attempt) -> str | None:
    return "churn" if attempt["cause"] in _CHURN else None


def _failure_key(attempt: Attempt) -> tuple[Any, ...] | None:
    cause = attempt["cause"]
    names = ("exit_code", "failure_category", "failure_signature")
    return (cause, *(attempt[name] for name in names)) if cause else None


def _short(found: Sequence[Run], kept: set[UUID]) -> list[Run]:
    """Fold the middle, so that at most `KEPT_FIRST + KEPT_LAST` rows and a few folds are left."""
    middle = found[KEPT_FIRST:-KEPT_LAST]
    attempts = [attempt for run in middle for attempt in run.attempts]
    folds = _alike(attempts, kept, lambda _: "middle", 2)
    return [*found[:KEPT_FIRST], *folds, *found[-KEPT_LAST:]]
