"""Simulation of a change of policies on a project's own past. Nothing is written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from retry.breakers import holder
from retry.engine.decide import Rulebook
from retry.policies.inline import parse_policy_json
from retry.policies.matching import NamedPolicy
from retry.simulate import (
    Attempt,
    Draft,
    Outcome,
    Past,
    Tally,
    Verdict,
    outcome_after,
    replay,
    simulate,
)
from retry.together.chains import Rules, TogetherTally, simulate_together
from sessions_app.core.errors import TooLarge
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope, retry_scopes
from sessions_app.in_force.shared_budgets import postponing_budget, spent_budgets
from sessions_app.locks import database_now
from sessions_app.models import Project, Session
from sessions_app.selectors.past_chains import (
    PastChain,
    Sampling,
    Window,
    chains_sampled,
    ended_attempts,
    past_chains,
    past_from,
)
from sessions_app.selectors.shared_rules import shared_rules

MAX_TERMINATIONS = 100_000
"""Maximum number of ends in one simulation."""
SAMPLING = Sampling()
"""What the page of a policy tries it on."""


@dataclass(frozen=True, slots=True)
class HistorySimulation:
    """The decisions that a draft would have made; iterate once, it reads slice by slice.

    With breakers or shared budgets the chains are decided side by side, and come in the order of
    their ends. The sums are complete after the last chain; `summary` reads to the end.
    """

    window: Window
    draft: Draft
    rules: Rules
    tally: TogetherTally = field(default_factory=TogetherTally)

    def __iter__(self) -> Iterator[Attempt | Outcome]:
        if self.rules:
            return simulate_together(self._cases(), self.rules, self.tally)
        return simulate(self._cases(), self.tally)

    def summary(self) -> dict[str, Any]:
        """Read to the end, and return only the sums, as JSON values."""
        for _ in self:
            pass
        return self.sums()

    def sums(self) -> dict[str, Any]:
        """Return the sums, with those of breakers and shared budgets if there are any."""
        return self.tally.together_summary() if self.rules else self.tally.history_summary()

    def _cases(self) -> Iterator[tuple[Past, Rulebook]]:
        scope = retry_scopes([self.window.project_id])[self.window.project_id]
        for chains in past_chains(self.window, generic=bool(self.rules.breakers)):
            named = self._named(chains)
            for chain in chains:
                own = applied(named, chain.names)
                yield chain.past, self.draft.over(rulebook_of(chain, own, scope))

    def _named(self, chains: Sequence[PastChain]) -> dict[str, NamedPolicy]:
        """Return the current policies that the chains name; none if the draft replaces them."""
        project_id = self.window.project_id
        names = {chain.names for chain in chains} if self.draft.named is None else set()
        return named_policies((project_id, each) for each in names).get(project_id, {})


def rulebook_of(chain: PastChain, named: tuple[NamedPolicy, ...], scope: RetryScope) -> Rulebook:
    """Return what decides about a past chain: its own inline policy, and the present settings."""
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
    otherwise the project's present settings; but the kill switches are the draft's alone. Its
    breakers and shared budgets are those of now, of the project and its queues. Raises `TooLarge`
    if the window has more than 10^5 terminations.
    """
    window = Window(project.pk, since, until or database_now())
    if ended_attempts(window, most=MAX_TERMINATIONS + 1) > MAX_TERMINATIONS:
        raise TooLarge(
            f"the window holds more than {MAX_TERMINATIONS:,} terminations; "
            "narrow it by since and until, and add up the parts"
        )
    return HistorySimulation(window, draft, shared_rules(project.pk).proposed(draft.shared))


class OnSample(NamedTuple):
    """What a policy would have decided on a sample of past chains."""

    summary: dict[str, Any]
    """`Tally.history_summary`."""
    sampled: int
    """Number of chains of the sample."""
    naming: bool
    """True: only those were tried that name the policy, and their other policies stay. False: none
    names it, so it takes the place of the named policies of all."""


def simulate_on_sample(
    *, project: Project, policy: NamedPolicy, how: Sampling = SAMPLING
) -> OnSample:
    """Try a policy on a sample of the project's recent chains. Takes a fixed number of statements.

    The present settings apply, but for the kill switches.
    """
    chains = chains_sampled(project.pk, database_now(), how)
    naming = [chain for chain in chains if policy.name in chain.names]
    scope = retry_scopes([project.pk])[project.pk]
    names = {chain.names for chain in naming}
    found = named_policies((project.pk, each) for each in names).get(project.pk, {})
    found[policy.name] = policy

    def cases() -> Iterator[tuple[Past, Rulebook]]:
        for chain in naming or chains:
            own = applied(found, chain.names) if naming else (policy,)
            yield chain.past, Draft(named=own).over(rulebook_of(chain, own, scope))

    tally = Tally()
    for _ in simulate(cases(), tally):
        pass
    return OnSample(tally.history_summary(), len(chains), bool(naming))


class FromHere(NamedTuple):
    """The decisions about a chain from one attempt on, and its outcome: that under a draft, and
    the real one (`was`)."""

    attempts: list[Attempt]
    outcome: str
    was: str


def simulate_from(session: Session, draft: Draft) -> FromHere:
    """Try a draft on the chain of a session, from the end of this attempt on.

    What the chain had spent before stays spent. If no attempt has begun since, its newest end meets
    the open breakers and spent budgets of now. The session was read with its specification. Takes
    three statements at most.
    """
    chain = past_from(session)
    scope = retry_scopes([session.project_id])[session.project_id]
    past = _met_now(chain.past, scope, session.queue_id)
    names = chain.names if draft.named is None else ()
    found = named_policies([(session.project_id, names)])[session.project_id]
    rulebook = draft.over(rulebook_of(chain, applied(found, names), scope))
    attempts = list(replay(past, rulebook))
    outcome = outcome_after(attempts[-1] if attempts else None, chain.past.record)
    was = chain.past.record.outcome if chain.past.record else ""
    return FromHere(attempts, outcome.name, was)


def _met_now(past: Past, scope: RetryScope, queue_id: int) -> Past:
    """Return the chain with what other chains have brought about, now, at its newest end, unless
    another attempt has begun since."""
    if not past.endings or past.record is None or past.record.goes_on:
        return past
    *before, last = past.endings
    breaker = holder(scope.breakers, queue_id, last.signature) if last.signature else None
    verdict = Verdict(
        breaker=breaker.key if breaker else "",
        spent=spent_budgets(scope.budgets, queue_id),
        postponing=postponing_budget(scope.budgets, queue_id),
    )
    return replace(past, endings=[*before, replace(last, verdict=verdict)])
