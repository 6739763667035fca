"""Simulation of a change of policies on a project's own past. Nothing is written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from retry.engine.decide import Rulebook
from retry.policies.inline import parse_policy_json
from retry.policies.matching import NamedPolicy
from retry.simulate import Attempt, Draft, Outcome, Past, Tally, simulate
from sessions_app.core.errors import TooLarge
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope, retry_scopes
from sessions_app.locks import database_now
from sessions_app.models import Project
from sessions_app.selectors.past_chains import PastChain, Window, ended_attempts, past_chains

MAX_TERMINATIONS = 100_000
"""Maximum number of ends in one simulation."""


@dataclass(frozen=True, slots=True)
class HistorySimulation:
    """The decisions that a draft would have made; iterate once, it reads slice by slice.

    The sums are complete after the last chain; `summary` reads to the end.
    """

    window: Window
    draft: Draft
    tally: Tally = field(default_factory=Tally)

    def __iter__(self) -> Iterator[Attempt | Outcome]:
        return simulate(self._cases(), self.tally)

    def summary(self) -> dict[str, Any]:
        """Return only the sums, as JSON values: `Tally.history_summary`."""
        for _ in self:
            pass
        return self.tally.history_summary()

    def _cases(self) -> Iterator[tuple[Past, Rulebook]]:
        scope = retry_scopes([self.window.project_id])[self.window.project_id]
        for chains in past_chains(self.window):
            named = self._named(chains)
            for chain in chains:
                own = applied(named, chain.names)
                yield chain.past, self.draft.over(_rulebook(chain, own, scope))

    def _named(self, chains: Sequence[PastChain]) -> dict[str, NamedPolicy]:
        """Return the current policies that the chains name; none if the draft replaces them."""
        project_id = self.window.project_id
        names = {chain.names for chain in chains} if self.draft.named is None else set()
        return named_policies((project_id, each) for each in names).get(project_id, {})


def _rulebook(chain: PastChain, named: tuple[NamedPolicy, ...], scope: RetryScope) -> Rulebook:
    return Rulebook(
        policy=parse_policy_json(chain.retry_policy),
        named=named,
        categories=scope.categories,
        bounds=scope.bounds,
        settings=scope.settings,
    )


def simulate_history(
    *, project: Project, since: datetime, until: datetime | None, draft: Draft
) -> HistorySimulation:
    """Try a draft on the chains of a project whose root was created in a window.

    `until` None is now. Where the draft changes nothing, each chain's own policy applies, and
    otherwise the project's present settings; but the kill switches are the draft's alone. Raises
    `TooLarge` if the window has more than 10^5 terminations.
    """
    window = Window(project.pk, since, until or database_now())
    if ended_attempts(window, most=MAX_TERMINATIONS + 1) > MAX_TERMINATIONS:
        raise TooLarge(
            f"the window holds more than {MAX_TERMINATIONS:,} terminations; "
            "narrow it by since and until, and add up the parts"
        )
    return HistorySimulation(window, draft)
