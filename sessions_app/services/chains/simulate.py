"""Simulation of a change of policies on a project's own past. Nothing is written."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

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
from retry.together.assumptions import counted, too_many, unseen
from retry.together.chains import Rules, TogetherTally, simulate_together
from sessions_app.authorization import Actor
from sessions_app.core.errors import TooLarge
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope, retry_scopes
from sessions_app.in_force.shared_budgets import postponing_budget, spent_budgets
from sessions_app.locks import database_now
from sessions_app.models import Project, Queue, Session
from sessions_app.selectors.past_chains import (
    Area,
    PastChain,
    Sampling,
    Window,
    chain_slices,
    chains_sampled,
    past_chains,
    past_from,
)
from sessions_app.selectors.shared_rules import shared_rules, wider_areas

MAX_TERMINATIONS = 100_000
"""Maximum number of ends in one simulation."""
SAMPLING = Sampling()
"""What the page of a policy tries it on."""


_NO_DRAFT = Draft()


class _Counted(NamedTuple):
    """What a simulation of a project counts: chains of a window, in slices, under these rules; and
    what it says of both."""

    window: Window
    slices: Sequence[UUID]
    rules: Rules
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistorySimulation:
    """The decisions that a draft would have made in a project; iterate once, it reads slice by
    slice.

    With breakers or shared budgets the chains are decided side by side, and come in the order of
    their ends. The sums are complete after the last chain; `summary` reads to the end.
    """

    draft: Draft
    past: _Counted
    tally: TogetherTally = field(default_factory=TogetherTally)

    @property
    def rules(self) -> Rules:
        """Return the breakers and shared budgets that count."""
        return self.past.rules

    @property
    def together(self) -> bool:
        """Return whether the chains are decided side by side."""
        return bool(self.rules) or self.past.window.area != Area(self.rules.project_id)

    def __iter__(self) -> Iterator[Attempt | Outcome]:
        if self.together:
            return simulate_together(self._cases(), self.rules, self.tally)
        return simulate(self._cases(), self.tally)

    def summary(self) -> dict[str, Any]:
        """Read to the end, and return only the sums, as JSON values."""
        for _ in self:
            pass
        return self.sums()

    def sums(self) -> dict[str, Any]:
        """Return the sums, with those of breakers and shared budgets if there are any."""
        tally = self.tally
        sums = tally.together_summary() if self.together else tally.history_summary()
        return {**sums, "assumptions": [*sums["assumptions"], *self.past.said]}

    def _cases(self) -> Iterator[tuple[Past, Rulebook]]:
        scopes: dict[int, RetryScope] = {}
        past, generic = self.past, bool(self.rules.breakers)
        for chains in past_chains(past.window, past.slices, generic=generic):
            new = {chain.past.place.project_id for chain in chains} - scopes.keys()
            scopes |= retry_scopes(new) if new else {}
            named = named_policies(self._names(chain) for chain in chains)
            for chain in chains:
                project_id, names = self._names(chain)
                rulebook = rulebook_of(chain, applied(named[project_id], names), scopes[project_id])
                yield chain.past, self._draft_of(project_id).over(rulebook)

    def _names(self, chain: PastChain) -> tuple[int, tuple[str, ...]]:
        """Return a chain's project, and the current policies that it names; none if the draft
        replaces them."""
        project_id = chain.past.place.project_id
        return project_id, chain.names if self._draft_of(project_id).named is None else ()

    def _draft_of(self, project_id: int) -> Draft:
        """Return the draft, or for another project the one that changes nothing."""
        return self.draft if project_id == self.rules.project_id else _NO_DRAFT


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
    actor: Actor, *, project: Project, since: datetime, until: datetime | None, draft: Draft
) -> HistorySimulation:
    """Try a draft on the chains of a project whose root was created in a window.

    `until` None is now. Where the draft changes nothing, each chain's own policy applies, and
    otherwise the project's present settings; but the kill switches are the draft's alone. Breakers
    and shared budgets are those of now: of the project and its queues, and those of the cluster and
    the domain whose chains the actor may see. Raises `TooLarge` if the window has more than 10^5
    terminations of the project.
    """
    past = _what_counts(actor, project, since, until or database_now())
    return HistorySimulation(draft, past._replace(rules=past.rules.proposed(draft.shared)))


def _what_counts(actor: Actor, project: Project, since: datetime, until: datetime) -> _Counted:
    """Return what counts in a simulation of a project: the widest area that has rules, that the
    actor may see, and that one simulation can read."""
    said = []
    for scope, area in wider_areas(project).items():
        if not actor.sees_all(area.domain_id):
            said.append(unseen(scope))
            continue
        window = Window(area, since, until, MAX_TERMINATIONS)
        slices = chain_slices(window)
        if slices is not None:
            rules = shared_rules(project.pk, area)
            return _Counted(window, slices, rules, (*said, counted(scope)))
        said.append(too_many(scope, MAX_TERMINATIONS))
    window = Window(Area(project.pk), since, until, MAX_TERMINATIONS)
    slices = chain_slices(window)
    if slices is None:
        raise TooLarge(
            f"the window holds more than {MAX_TERMINATIONS:,} terminations; "
            "narrow it by since and until, and add up the parts"
        )
    return _Counted(window, slices, shared_rules(project.pk, window.area), tuple(said))


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


class InQueue(NamedTuple):
    """What a queue's policies would have decided in an order, on a sample of its past chains."""

    chains: int
    """Number of chains of the queue in the sample."""
    changed: int
    """Number of chains that would have ended otherwise."""
    first: Counter[str]
    """How many failures each rule decides first, as `policy/rule`; "" for the inline policy."""


def simulate_in_queue(queue: Queue, names: Sequence[str], *, how: Sampling = SAMPLING) -> InQueue:
    """Try an order of policies on a sample of the queue's recent chains.

    Policies that the sessions added themselves come behind, as they do in new chains. Takes a fixed
    number of statements; the present settings apply, but for the kill switches.
    """
    sampled = chains_sampled(queue.project_id, database_now(), how)
    chains = [chain for chain in sampled if chain.past.place.queue_id == queue.pk]
    scope = retry_scopes([queue.project_id])[queue.project_id]
    orders = {chain.names: tuple(dict.fromkeys([*names, *chain.names])) for chain in chains}
    found = named_policies((queue.project_id, each) for each in orders.values())
    policies = found.get(queue.project_id, {})

    def cases() -> Iterator[tuple[Past, Rulebook]]:
        for chain in chains:
            own = applied(policies, orders[chain.names])
            yield chain.past, Draft(named=own).over(rulebook_of(chain, own, scope))

    tally, first = Tally(), Counter[str]()
    for each in simulate(cases(), tally):
        if isinstance(each, Attempt) and each.decision is not None:
            first[each.decision.rule or ""] += 1
    return InQueue(len(chains), len(tally.changed), first)


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
