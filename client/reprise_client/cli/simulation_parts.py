"""Splits a simulation that is too large for one call into halves, and adds up the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import reprise_client
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.models import Simulation

MAX_CHANGED = 1000
SHORTEST = timedelta(minutes=1)
TOO_LARGE = 413


class Part(Protocol):
    """A part of a simulation that can be halved."""

    def halves(self) -> tuple[Self, Self] | None:
        """Return both halves in order, or None if the part cannot be halved."""


@dataclass(frozen=True)
class Window:
    """The time from `since` until before `until`; None means until the moment of the call."""

    since: datetime
    until: datetime | None
    now: datetime

    def halves(self) -> tuple[Window, Window] | None:
        """Return two windows of equal length."""
        length = (self.until or self.now) - self.since
        if length < SHORTEST:
            return None
        middle = self.since + length / 2
        return Window(self.since, middle, self.now), Window(middle, self.until, self.now)


@dataclass(frozen=True)
class Chains:
    """Given chains in the form of the API."""

    items: Sequence[Any]

    def halves(self) -> tuple[Chains, Chains] | None:
        """Return two halves; the second may have one chain more."""
        middle = len(self.items) // 2
        return (Chains(self.items[:middle]), Chains(self.items[middle:])) if middle else None


Number = TypeVar("Number", int, float)
AnyPart = TypeVar("AnyPart", bound=Part)


def in_parts(ask: Callable[[AnyPart], Simulation], part: AnyPart) -> Simulation:
    """Return the answer for a part; if that is too large for one call, the sum for its halves.

    Raises what `ask` raises.
    """
    try:
        return ask(part)
    except ApiError as error:
        halves = part.halves() if error.status == TOO_LARGE else None
        if halves is None:
            raise
    return summed([in_parts(ask, half) for half in halves])


def summed(parts: Sequence[Simulation]) -> Simulation:
    """Return the sum of the parts as one answer."""
    sums = [part.summary for part in parts]
    fields: dict[str, Any] = {
        "chains": sum(each.chains for each in sums),
        "retries": sum(each.retries for each in sums),
        "by_cause": _added(each.by_cause for each in sums),
        "by_rule": _added(each.by_rule for each in sums),
        "by_reason": _added(each.by_reason for each in sums),
        "changed": list(islice(chain.from_iterable(each.changed for each in sums), MAX_CHANGED)),
    }
    if any("added_attempts" in each.model_fields_set for each in sums):
        fields["added_attempts"] = sum(each.added_attempts for each in sums)
        fields["added_run_seconds"] = sum(each.added_run_seconds for each in sums)
    if any(each.held is not None for each in sums):
        fields["held"] = _added(each.held or {} for each in sums)
    if any(each.held_seconds is not None for each in sums):
        fields["held_seconds"] = _added(each.held_seconds or {} for each in sums)
        fields["spared_retries"] = sum(each.spared_retries for each in sums)
        fields["breakers_opened"] = sum(each.breakers_opened for each in sums)
    if said := list(dict.fromkeys(chain.from_iterable(each.assumptions or () for each in sums))):
        fields["assumptions"] = said
    chains = [each for part in parts for each in part.chains]
    summary = reprise_client.SimulationSummary(**fields)
    return reprise_client.Simulation(chains=chains, summary=summary)


def _added(counts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total[name] + number if name in total else number
    return total
