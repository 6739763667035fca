"""Shared budgets: how many automatic retries a scope may make within a window. Pure.

A scope is the cluster, a domain, a project or a queue. Within the window of its budget it may make
`burst` retries, and `ratio` more for each first attempt. Counts are kept for whole minutes of the
clock, so the edges of a window are read in the strict way: a retry in a minute that the window only
touches counts, a first attempt in it does not. So no window of that length ever has too many.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

MINUTE = 60


class Limit(NamedTuple):
    """The limit of a budget: `burst` retries and `ratio` for each first attempt, in `window`
    seconds."""

    ratio: float
    burst: int
    window: int

    def allowed(self, first_attempts: int) -> int:
        """Return the number of retries that so many first attempts allow."""
        # A float such as 0.29 is a little less than what was written.
        share = Decimal(str(self.ratio)) * first_attempts
        return self.burst + int(share.to_integral_value(ROUND_FLOOR))


class Edges(NamedTuple):
    """The minutes (since the epoch) from which a window counts."""

    retries: int
    """The first minute that the window touches."""
    first_attempts: int
    """The first minute that is wholly within it."""


def edges(window: int, now: float) -> Edges:
    """Return where a window of `window` seconds begins that ends at `now` (seconds)."""
    begins = now - window
    touched = int(begins // MINUTE)
    return Edges(touched, touched if begins == touched * MINUTE else touched + 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a scope has made within its window, and its line.

    `head` is when the oldest chain was submitted whose retry waits for this budget; None: none
    waits.
    """

    limit: Limit
    first_attempts: int = 0
    retries: int = 0
    head: datetime | None = None

    @property
    def room(self) -> int:
        """Return how many more retries may go now."""
        return max(0, self.limit.allowed(self.first_attempts) - self.retries)


class Book:
    """Lets retries go until a budget of theirs is spent.

    A retry also waits while an older chain waits for the same budget. Each retry that goes is in
    `taken`, by scope.
    """

    def __init__(self, standings: Mapping[str, Standing]):
        self._heads = {scope: each.head for scope, each in standings.items()}
        self._room = {scope: each.room for scope, each in standings.items()}

    def take(self, scopes: Iterable[str], submitted: datetime) -> str | None:
        """Let a retry of a chain submitted at this time go. Return None, or the first of its scopes
        for which it has to wait."""
        asked = [scope for scope in scopes if scope in self._room]
        for scope in asked:
            head = self._heads[scope]
            if self._room[scope] <= 0 or (head is not None and head < submitted):
                self._heads[scope] = submitted if head is None else min(head, submitted)
                return scope
        for scope in asked:
            self._room[scope] -= 1
        return None
