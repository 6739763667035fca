"""The breakers of a project and of its queues while past chains fail: open, probing, closed.

All times are seconds since the epoch, and never go back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile
from typing import Generic, TypeVar

from retry.breakers import (
    BreakerRule,
    OpenBreaker,
    ProbeEnd,
    holder,
    next_delay,
    opens,
    scope_key,
)

Retry = TypeVar("Retry")
Order = tuple[float, int]
"""When a retry was due, and a number that no other has."""


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
    """The breakers by these rules of queues; None is the project. `muted` signatures have none."""

    def __init__(
        self, project_id: int, rules: Mapping[int | None, BreakerRule], muted: frozenset[str]
    ):
        self._project_id, self._rules, self._muted = project_id, rules, muted
        # By queue and signature: when each chain failed so last, in the order of these times.
        self._failures: dict[tuple[int | None, str], dict[int, float]] = {}
        self._closed_at: dict[tuple[int | None, str], float] = {}
        self._open: dict[str, _Open[Retry]] = {}

    def failed(self, chain: int, queue_id: int, signature: str, now: float) -> dict[str, float]:
        """Count a failure. Return the keys of the breakers that it opens, with the times of their
        first probes."""
        opened = {}
        for scope in (None, queue_id):
            rule = self._rules.get(scope)
            if rule is None or signature in self._muted:
                continue
            breaker = self._breaker(scope, signature)
            found = self._open.get(breaker.key)
            if found is not None and not self._is_over(found, now):
                found.failed_at = now
            chains = self._count(chain, (scope, signature), now - rule.window, now)
            if breaker.key not in self._open and opens(
                rule, breaker.scope, {self._project_id: chains}
            ):
                probe_at = now + rule.probe_after
                self._open[breaker.key] = _Open(rule, breaker, rule.probe_after, probe_at, now)
                opened[breaker.key] = probe_at
        return opened

    def holder(
        self, queue_id: int, signature: str, now: float, session_id: str = ""
    ) -> OpenBreaker | None:
        """Return the open breaker that holds a retry after this failure; None for none."""
        if not self._open:
            return None
        keys = [self._breaker(scope, signature).key for scope in (None, queue_id)]
        found = [self._open[key] for key in keys if key in self._open]
        still = [each.breaker for each in found if not self._is_over(each, now)]
        return holder(still, queue_id, signature, session_id)

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

    def _breaker(self, scope: int | None, signature: str) -> OpenBreaker:
        return OpenBreaker(scope_key(self._project_id, scope), self._project_id, scope, signature)

    def _count(self, chain: int, of: tuple[int | None, str], since: float, now: float) -> int:
        """Return how many chains have failed so since then, this one included."""
        times = self._failures.setdefault(of, {})
        times.pop(chain, None)
        times[chain] = now
        since = max(since, self._closed_at.get(of, since))
        for old in list(takewhile(lambda each: times[each] <= since, times)):
            del times[old]
        return len(times)

    def _is_quiet(self, found: _Open[Retry], now: float) -> bool:
        return now - found.failed_at > found.rule.window

    def _is_over(self, found: _Open[Retry], now: float) -> bool:
        """Close a breaker that has nothing to do. Return whether it closed."""
        if found.breaker.probe or found.waiting or not self._is_quiet(found, now):
            return False
        self._close(found, found.failed_at + found.rule.window)
        return True

    def _close(self, found: _Open[Retry], now: float) -> None:
        self._closed_at[found.breaker.queue_id, found.breaker.signature] = now
        del self._open[found.breaker.key]
