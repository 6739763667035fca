"""Suspect nodes: which nodes fail more than the same work does elsewhere. Pure.

Attempts are compared within their job set, so that a broken job set that is packed on a few nodes
convicts none of them. `docs/scheduling.md` says what follows from a suspicion.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp, lgamma, log, log1p
from typing import NamedTuple

LEAST_FAILURES = 5
LEAST_CHAINS = 3
LEAST_RATIO = 3.0
"""The odds of a failure (failed by ended well) on a suspect node, by those to be expected. A ratio
of failures could convict no node where a third of all attempts fails."""
MOST_CHANCE = 0.001
"""Maximum chance, over all nodes together, that a healthy node looks so bad."""
SHARE = 5
"""At most one node in so many of an executor is out at once."""
SHORTEST, LONGEST = timedelta(minutes=30), timedelta(hours=24)
AGAIN_WITHIN = timedelta(hours=24)
"""A node that is suspected again within this time stays suspect twice as long."""
NOT_COUNTED = frozenset(
    {"user_cancelled", "validation_error", "quota_exceeded", "preempted", "deadline_exceeded"}
)
"""Causes that say nothing about a node."""


class Group(NamedTuple):
    """The attempts of one job set on a node, and those of the same job set on all other nodes."""

    attempts: int
    failures: int
    chains: int
    """Number of chains that failed here."""
    elsewhere: int
    """Number of attempts on other nodes."""
    elsewhere_failures: int

    @property
    def expected(self) -> float:
        """Return the failures to expect here, if the node were like the others."""
        return self.attempts * (self.elsewhere_failures + 1) / (self.elsewhere + 2)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a node is suspect. The numbers are those of job sets that also ran elsewhere."""

    attempts: int
    failures: int
    chains: int
    expected: float

    @property
    def ratio(self) -> float:
        """Return by what the odds of a failure exceed those to be expected."""
        return self._odds(self.failures) / self._odds(self.expected)

    def _odds(self, failures: float) -> float:
        # Half a one more of each: where everything fails, or nothing, there are odds, too.
        return (failures + 0.5) / (self.attempts - failures + 0.5)

    @property
    def reason(self) -> str:
        """Return the verdict in words."""
        return (
            f"{self.failures} of {self.attempts} attempts failed, of {self.chains} chains; "
            f"{self.expected:.1f} failures were to be expected, as the same job sets "
            "fare on other nodes"
        )


def binomial_tail(count: int, attempts: int, rate: float) -> float:
    """Return the chance of `count` failures or more in so many attempts that fail at this rate."""
    if count <= 0:
        return 1.0
    if rate <= 0:
        return 0.0
    if rate >= 1:
        return 1.0 if count <= attempts else 0.0
    ways = lgamma(attempts + 1)
    terms = (
        exp(
            ways
            - lgamma(n + 1)
            - lgamma(attempts - n + 1)
            + n * log(rate)
            + (attempts - n) * log1p(-rate)
        )
        for n in range(count, attempts + 1)
    )
    return min(sum(terms), 1.0)


def judge(groups: Iterable[Group], nodes: int) -> Verdict | None:
    """Return why a node is suspect, None if it is not.

    `groups` are its job sets; one that ran nowhere else counts for nothing. `nodes` is the number
    of nodes that are judged.
    """
    compared = [group for group in groups if group.elsewhere > 0]
    found = Verdict(
        sum(group.attempts for group in compared),
        sum(group.failures for group in compared),
        sum(group.chains for group in compared),
        sum(group.expected for group in compared),
    )
    if found.failures < LEAST_FAILURES or found.chains < LEAST_CHAINS:
        return None
    if found.ratio < LEAST_RATIO:
        return None
    rate = found.expected / found.attempts
    chance = binomial_tail(found.failures, found.attempts, rate)
    return found if chance < MOST_CHANCE / max(nodes, 1) else None


def most_out(nodes: int) -> int:
    """Return how many of an executor's nodes may be suspect or in quarantine at once."""
    return 0 if nodes < 2 else max(1, nodes // SHARE)


def worst(found: Sequence[tuple[str, Verdict]], room: int) -> list[tuple[str, Verdict]]:
    """Return at most `room` of the suspect nodes, those with the worst ratio first."""
    ranked = sorted(found, key=lambda each: (-each[1].ratio, each[0]))
    return ranked[: max(room, 0)]


def lasting(before: timedelta | None, cleared_at: datetime | None, now: datetime) -> timedelta:
    """Return how long a suspicion that begins `now` lasts.

    `before` is how long the last one lasted and `cleared_at` when it ended; None: there was none.
    """
    if before is None or cleared_at is None or now - cleared_at > AGAIN_WITHIN:
        return SHORTEST
    return min(max(before * 2, SHORTEST), LONGEST)
