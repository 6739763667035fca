"""What is asked before an act: what it will do, with the numbers of now."""

from collections.abc import Callable
from dataclasses import dataclass

from django.urls import reverse

from interfaces.admin.retry_config import consequences
from interfaces.web.parts import Confirm
from reprise.operations.acts import (
    Wanted,
    breaker_of,
    budget_of,
    executor_of,
    node_of,
    queue_of,
    scope_of,
)
from reprise.operations.facts import parked_chains
from reprise.operations.problems import ActName
from retry.engine.decide import Mode
from retry.units.durations import in_words
from sessions_app.selectors.breakers import breakers_hold_counts
from sessions_app.selectors.counts import retries_waiting, waiting_by_queue
from sessions_app.services.sessions.prepared_actions import MOST

Facts = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and whether it asks for a reason."""

    confirm: Confirm
    sentences: list[str]
    asks_reason: bool = False
    needs_reason: bool = False
    burst: int | None = None
    """The burst that it suggests for a budget; None: it does not ask for one."""


@dataclass(frozen=True, slots=True)
class Said:
    """The words of a question: the title without its mark, sentences, and numbers of now."""

    title: str
    sentences: list[str]
    facts: Facts
    burst: int | None = None


def question(name: ActName, wanted: Wanted, address: str) -> Question:
    """Return what to ask before an act. Raises `NotFound`, `NotPermitted`."""
    said = _SAID[name](wanted)
    title = said.title
    tone = "primary" if name in _HELPFUL else "danger"
    confirm = Confirm(
        title=f"{title}?",
        warning=said.sentences[0],
        button=f"Yes, {title[:1].lower()}{title[1:]}",
        action=address,
        back=reverse("operations"),
        tone=tone,
        facts=said.facts,
    )
    return Question(
        confirm,
        said.sentences[1:],
        asks_reason=name in {*_REASONED, ActName.EXECUTOR_DRAIN, ActName.BREAKER_CLOSE},
        needs_reason=name in _REASONED,
        burst=said.burst,
    )


_HELPFUL = {
    ActName.RETRIES_ON,
    ActName.EXECUTOR_UNCORDON,
    ActName.QUEUE_UNCORDON,
    ActName.NODE_RELEASE,
    ActName.BREAKER_CLOSE,
    ActName.PARKED_SEND,
    ActName.CHAINS_RETRY,
    ActName.BUDGET_RAISE,
}
_REASONED = {ActName.EXECUTOR_CORDON, ActName.QUEUE_CORDON, ActName.NODE_QUARANTINE}


def _switch(mode: Mode) -> Callable[[Wanted], Said]:
    def said(wanted: Wanted) -> Said:
        scope = scope_of(wanted.actor, wanted.of)
        projects = [scope.project.pk] if scope.project else None
        waiting = retries_waiting(projects=projects, domain=scope.domain)
        facts = [("scheduled", str(waiting.scheduled)), ("held", str(waiting.held))]
        verb = "Pause" if mode is Mode.PAUSED else "Switch on"
        whose = wanted.of or "the whole cluster"
        return Said(f"{verb} the retries of {whose}", consequences(mode, waiting), facts)

    return said


def _executor(verb: str, *sentences: str) -> Callable[[Wanted], Said]:
    def said(wanted: Wanted) -> Said:
        executor = executor_of(wanted)
        facts = [("leases", f"{executor.lease_count:,}")]  # type: ignore[attr-defined]  # annotated
        return Said(f"{verb} executor {executor.name}", list(sentences), facts)

    return said


def _queue(verb: str, *sentences: str) -> Callable[[Wanted], Said]:
    def said(wanted: Wanted) -> Said:
        queue = queue_of(wanted)
        waiting = waiting_by_queue([queue.pk]).get(queue.pk, 0)
        return Said(f"{verb} queue {wanted.of}", list(sentences), [("waiting", str(waiting))])

    return said


def _node(verb: str, *sentences: str) -> Callable[[Wanted], Said]:
    def said(wanted: Wanted) -> Said:
        node = node_of(wanted)
        return Said(f"{verb} node {node.address}", list(sentences), [("state", node.state.value)])

    return said


def _close(wanted: Wanted) -> Said:
    breaker = breaker_of(wanted)
    told = [
        "The retries that it holds start, at the pace of the storm limits.",
        "It opens again if as many chains fail so after this.",
    ]
    held = breakers_hold_counts([breaker]).get(str(breaker), 0)
    facts = [("scope", breaker.address), ("held retries", f"{held:,}")]
    return Said(f"Close the breaker of {breaker.signature}", told, facts)


def _send(wanted: Wanted) -> Said:
    told = "They killed the workers that took them. If the reason is still there, they do so again."
    return Said(f"Send the parked tasks {wanted.of} again", [told], [])


def _raise(wanted: Wanted) -> Said:
    found = budget_of(wanted)
    budget, held = found.budget, found.held
    window, more = in_words(budget.window), f"{budget.ratio:g} more for each first attempt"
    told = [
        f"Its chains may then make so many retries within {window}, and {more}.",
        "What it holds starts as there is room, the oldest chain first, within the storm limits.",
        "It stays raised until somebody changes it.",
    ]
    facts = [("burst", f"{budget.burst:,}"), ("held retries", f"{held:,}")]
    title = f"Raise the shared retry budget of {found.whose}"
    return Said(title, told, facts, burst=found.suggested(held))


def _chains(verb: str, sentence: str) -> Callable[[Wanted], Said]:
    def said(_wanted: Wanted) -> Said:
        count, _ = parked_chains()
        told = [sentence, f"At most {MOST:,} at a time. One alone is chosen in their list."]
        return Said(f"{verb} all parked chains", told, [("parked chains", str(count))])

    return said


_SAID: dict[ActName, Callable[[Wanted], Said]] = {
    ActName.RETRIES_ON: _switch(Mode.ON),
    ActName.RETRIES_PAUSE: _switch(Mode.PAUSED),
    ActName.EXECUTOR_CORDON: _executor(
        "Cordon", "It gets no new leases. Its running sessions continue."
    ),
    ActName.EXECUTOR_UNCORDON: _executor("Uncordon", "It gets leases again. A drain ends."),
    ActName.EXECUTOR_DRAIN: _executor(
        "Drain",
        "It gets no new leases, and its running sessions are stopped. The retries are decided as "
        "after any preemption.",
        "Interactive and inference sessions continue, because they are never retried. The admin "
        "can end these, too.",
    ),
    ActName.QUEUE_CORDON: _queue(
        "Cordon", "It accepts sessions, but does not start them. Running ones continue."
    ),
    ActName.QUEUE_UNCORDON: _queue("Uncordon", "Its sessions start again, as there is room."),
    ActName.NODE_QUARANTINE: _node(
        "Quarantine", "It gets no leases until it is released. What runs there continues."
    ),
    ActName.NODE_RELEASE: _node(
        "Release", "It gets leases again, and what it did before counts no longer."
    ),
    ActName.BREAKER_CLOSE: _close,
    ActName.PARKED_SEND: _send,
    ActName.CHAINS_RETRY: _chains(
        "Retry",
        "Each gets another attempt, whoever's it is. If a limit of retries per minute is reached, "
        "the rest follow later.",
    ),
    ActName.CHAINS_GIVE_UP: _chains(
        "Give up", "They end as exhausted, whoever's they are, as they would have without parking."
    ),
    ActName.BUDGET_RAISE: _raise,
}
