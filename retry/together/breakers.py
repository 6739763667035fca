"""The breakers of the cluster, of projects and of queues while past chains fail: open, probing,
closed.

All times are seconds since the epoch, and never go back.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile
from typing import Generic, NamedTuple, TypeVar

from retry.breakers import (
    BreakerRule,
    OpenBreaker,
    ProbeEnd,
    holder,
    next_delay,
    opens,
    scope_key,
)
from retry.simulate import Place

Retry = TypeVar("Retry")
Order = tuple[float, int]
"""When a retry was due, and a number that no other has."""


class Opened(NamedTuple):
    """A breaker that opens: its key, when its first probe is due, and whose chains opened it."""

    key: str
    probe_at: float
    projects: Collection[int]


class _Failing:
    """The chains that failed alike in a scope within the window of its breaker."""

    def __init__(self) -> None:
        # When each chain failed so last, and in which project, in the order of these times.
        self._times: dict[int, tuple[float, int]] = {}
        self._projects: Counter[int] = Counter()

    def count(self, chain: int, project_id: int, since: float, now: float) -> Mapping[int, int]:
        """Count a failure. Return how many chains have failed so since then, by project."""
        if chain in self._times:
            self._drop(chain)
        self._times[chain] = now, project_id
        self._projects[project_id] += 1
        self.forget(since)
        return self._projects

    def forget(self, since: float) -> None:
        """Leave out what failed up to then."""
        for old in list(takewhile(lambda each: self._times[each][0] <= since, self._times)):
            self._drop(old)

    def _drop(self, chain: int) -> None:
        _, project_id = self._times.pop(chain)
        self._projects[project_id] -= 1
        if not self._projects[project_id]:
            del self._projects[project_id]


@dataclass(slots=True)
class _Open(Generic[Retry]):
    rule: BreakerRule
    breaker: OpenBreaker
    delay: float
    probe_at: float
    failed_at: float
    """When a chain failed so last."""
    waiting: list[tuple[Order, Retry]] = field(default_factory=list)


class Breakers(Generic[Retry]):
    """The breakers by these rules, by the keys of their scopes.

    `muted` are signatures of projects: such a failure opens none, and its retry is not held.
    """

    def __init__(self, rules: Mapping[str, BreakerRule], muted: frozenset[tuple[int, str]]):
        self._rules, self._muted = rules, muted
        self._failing: dict[str, _Failing] = defaultdict(_Failing)
        self._open: dict[str, _Open[Retry]] = {}

    def failed(self, chain: int, place: Place, signature: str, now: float) -> list[Opened]:
        """Count a failure. Return the breakers that it opens."""
        if (place.project_id, signature) in self._muted:
            return []
        opened = []
        for breaker in self._of(place, signature):
            rule = self._rules[breaker.scope]
            found = self._open.get(breaker.key)
            if found is not None and not self._is_over(found, now):
                found.failed_at = now
            failing = self._failing[breaker.key]
            chains = failing.count(chain, place.project_id, now - rule.window, now)
            if breaker.key not in self._open and opens(rule, breaker.scope, chains):
                probe_at = now + rule.probe_after
                self._open[breaker.key] = _Open(rule, breaker, rule.probe_after, probe_at, now)
                opened.append(Opened(breaker.key, probe_at, frozenset(chains)))
        return opened

    def holder(
        self, place: Place, signature: str, now: float, session_id: str = ""
    ) -> OpenBreaker | None:
        """Return the open breaker that holds a retry after this failure; None for none."""
        if not self._open or (place.project_id, signature) in self._muted:
            return None
        keys = [each.key for each in self._of(place, signature)]
        found = [self._open[key] for key in keys if key in self._open]
        still = [each.breaker for each in found if not self._is_over(each, now)]
        return holder(still, place.queue_id, signature, session_id)

    def wait(self, key: str, order: Order, retry: Retry) -> None:
        """Let a retry wait until the breaker closes, or chooses it as its probe."""
        heappush(self._open[key].waiting, (order, retry))

    def next_probe(self, key: str, now: float) -> Retry | None:
        """Return the oldest due retry, if it is time for a probe; it waits no more."""
        found = self._open.get(key)
        if found is None or found.breaker.probe or found.probe_at > now or not found.waiting:
            return None
        return heappop(found.waiting)[1]

    def probe(self, key: str, session_id: str) -> None:
        """Let the retry of this failed session through: it is the probe."""
        found = self._open[key]
        found.breaker = found.breaker._replace(probe=session_id)

    def is_probe(self, key: str, session_id: str) -> bool:
        """Return whether the breaker is open, and this the failed session of its probe."""
        return key in self._open and self._open[key].breaker.probe == session_id

    def fails_still(self, key: str, now: float) -> bool:
        """Return whether a chain failed so within the window of the breaker."""
        return key in self._open and not self._is_quiet(self._open[key], now)

    def probed(self, key: str, end: ProbeEnd, now: float) -> tuple[list[Retry], float | None]:
        """Apply the end of a probe. Return the retries that go on if the breaker closes, the
        longest due first, or the time of the next probe."""
        found = self._open[key]
        found.breaker = found.breaker._replace(probe="")
        if end is ProbeEnd.CLOSES:
            self._close(found, now)
            return [retry for _, retry in sorted(found.waiting, key=lambda each: each[0])], None
        if end is ProbeEnd.FAILED:
            found.delay = next_delay(found.delay)
            found.probe_at = now + found.delay
        else:
            found.probe_at = now
        return [], found.probe_at

    def _of(self, place: Place, signature: str) -> list[OpenBreaker]:
        """Return the breakers of a signature, by those scopes of a place that have a rule."""
        project_id, queue_id = place.project_id, place.queue_id
        ids = [(None, None), (project_id, None), (project_id, queue_id)]
        return [
            OpenBreaker(scope, *of, signature)
            for of in ids
            if (scope := scope_key(*of)) in self._rules
        ]

    def _is_quiet(self, found: _Open[Retry], now: float) -> bool:
        return now - found.failed_at > found.rule.window

    def _is_over(self, found: _Open[Retry], now: float) -> bool:
        """Close a breaker that has nothing to do. Return whether it closed."""
        if found.breaker.probe or found.waiting or not self._is_quiet(found, now):
            return False
        self._close(found, found.failed_at + found.rule.window)
        return True

    def _close(self, found: _Open[Retry], now: float) -> None:
        # What failed before does not open it again.
        self._failing[found.breaker.key].forget(now)
        del self._open[found.breaker.key]
