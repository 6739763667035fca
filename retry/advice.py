"""Advice about retries, from a replay of past chains with another number of them. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from retry.engine.decision import Rulebook
from retry.policies.limits import most_of
from retry.simulate import Attempt, Past, outcome_after, replay
from retry.units.durations import in_words

LEAST_CHAINS = 10
"""Number of chains that a rule must have retried before it is said to recover nothing."""
MOST_RULES = 5
"""Maximum number of such rules that are named."""


@dataclass(slots=True)
class Advice:
    """The figures of a replay of chains. Times are seconds; `max_retries` is of inline policies.

    All is compared with a replay under the present rules, not with what happened.
    """

    chains: int = 0
    recovered: int = 0
    """Chains that succeed after at least one retry."""
    lost: int = 0
    """Those of them that would not, with one retry fewer."""
    saved: float = 0.0
    """The run time of the attempts that there would not be."""
    tried: int = 0
    """Chains that give up, and would have another attempt with one retry more. How that ends,
    nobody knows."""
    retried_by: Counter[str] = field(default_factory=Counter)
    """Number of chains that each rule retried."""
    recovered_by: Counter[str] = field(default_factory=Counter)
    """Those of them that recovered."""

    def facts(self) -> dict[str, Any]:
        """Return what `sentences` takes, as JSON values."""
        rules = [[rule, self.retried_by[rule]] for rule in self.idle_rules[:MOST_RULES]]
        return {
            "chains": self.chains,
            "recovered": self.recovered,
            "lost": self.lost,
            "saved": round(self.saved, 3),
            "tried": self.tried,
            "rules": rules,
        }

    @property
    def idle_rules(self) -> list[str]:
        """Return the rules that retried many chains, of which none recovered; most chains first."""
        return [
            rule
            for rule, chains in sorted(
                self.retried_by.items(), key=lambda each: (-each[1], each[0])
            )
            if chains >= LEAST_CHAINS and not self.recovered_by[rule]
        ]


def advise(cases: Iterable[tuple[Past, Rulebook]]) -> Advice:
    """Replay each chain under its rulebook, and with one retry fewer and more."""
    found = Advice()
    for past, rulebook in cases:
        _add(found, past, rulebook)
    return found


def _add(found: Advice, past: Past, rulebook: Rulebook) -> None:
    attempts = list(replay(past, rulebook))
    recovered = len(attempts) > 1 and _outcome(attempts) == "succeeded"
    found.chains += 1
    found.recovered += recovered
    rules = {
        each.decision.rule
        for each in attempts
        if each.decision is not None and each.decision.action == "retry" and each.decision.rule
    }
    found.retried_by.update(rules)
    if recovered:
        found.recovered_by.update(rules)
    if most_of(rulebook.policy.max_retries):
        fewer = list(replay(past, _with(rulebook, -1)))
        found.lost += recovered and _outcome(fewer) != "succeeded"
        found.saved += sum(each.ran for each in past.endings[len(fewer) : len(attempts)])
    if _outcome(attempts) in {"exhausted", "parked"}:
        more = list(replay(past, _with(rulebook, 1)))
        found.tried += _outcome(more) in {"retrying", "succeeded"}


def _with(rulebook: Rulebook, more: int) -> Rulebook:
    """Return the rulebook with that many more retries; without a limit, as it is."""
    most = most_of(rulebook.policy.max_retries)
    if most is None:
        return rulebook
    return replace(rulebook, policy=rulebook.policy.model_copy(update={"max_retries": most + more}))


def _outcome(attempts: Sequence[Attempt]) -> str:
    return outcome_after(attempts[-1] if attempts else None).name


def sentences(facts: Mapping[str, Any]) -> list[str]:
    """Return advice as sentences, at most two; `facts` are those of `Advice`."""
    found = []
    if facts["recovered"] or facts["tried"]:
        found.append(
            f"In a replay of {_chains(facts['chains'])} of the last 30 days: with one retry fewer "
            f"(max_retries), {facts['lost']} of {facts['recovered']} recovered chains would not "
            f"have recovered, and {in_words(facts['saved'])} of run time would have been saved; "
            f"with one more, {_chains(facts['tried'])} that gave up would have had another attempt."
        )
    if facts["rules"]:
        named = ", ".join(f"{rule} ({_chains(chains)})" for rule, chains in facts["rules"])
        found.append(f"Rules that retried chains, of which none recovered: {named}.")
    return found


def _chains(number: int) -> str:
    return f"{number} chain{'' if number == 1 else 's'}"
