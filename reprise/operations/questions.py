"""What is asked before an act: what it will do, with the numbers of now."""

from collections.abc import Callable
from dataclasses import dataclass

from django.urls import reverse

from reprise.operations.acts import (
    Wanted,
    breaker_of,
    executor_of,
    node_of,
    queue_of,
    scope_of,
)
from reprise.operations.problems import ActName
from retry.engine.decide import Mode
from sessions_app.admin.retry_config import consequences
from sessions_app.selectors.breakers import breakers_hold_counts
from sessions_app.selectors.counts import retries_waiting, waiting_by_queue
from sessions_app.web.parts import Confirm

Facts = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and whether it asks for a reason."""

    confirm: Confirm
    sentences: list[str]
    asks_reason: bool = False
    needs_reason: bool = False


def question(name: ActName, wanted: Wanted, address: str) -> Question:
    """Return what to ask before an act. Raises `NotFound`, `NotPermitted`."""
    title, sentences, facts = _SAID[name](wanted)
    tone = "primary" if name in _HELPFUL else "danger"
    confirm = Confirm(
        title=f"{title}?",
        warning=sentences[0],
        button=f"Yes, {title[:1].lower()}{title[1:]}",
        action=address,
        back=reverse("operations"),
        tone=tone,
        facts=facts,
    )
    return Question(
        confirm,
        sentences[1:],
        asks_reason=name in {*_REASONED, ActName.EXECUTOR_DRAIN, ActName.BREAKER_CLOSE},
        needs_reason=name in _REASONED,
    )


_HELPFUL = {
    ActName.RETRIES_ON,
    ActName.EXECUTOR_UNCORDON,
    ActName.QUEUE_UNCORDON,
    ActName.NODE_RELEASE,
    ActName.BREAKER_CLOSE,
    ActName.PARKED_SEND,
}
_REASONED = {ActName.EXECUTOR_CORDON, ActName.QUEUE_CORDON, ActName.NODE_QUARANTINE}
_Said = tuple[str, list[str], Facts]


def _switch(mode: Mode) -> Callable[[Wanted], _Said]:
    def said(wanted: Wanted) -> _Said:
        scope = scope_of(wanted.actor, wanted.of)
        projects = [scope.project.pk] if scope.project else None
        waiting = retries_waiting(projects=projects, domain=scope.domain)
        facts = [("scheduled", str(waiting.scheduled)), ("held", str(waiting.held))]
        verb = "Pause" if mode is Mode.PAUSED else "Switch on"
        whose = wanted.of or "the whole cluster"
        return f"{verb} the retries of {whose}", consequences(mode, waiting), facts

    return said


def _executor(verb: str, *sentences: str) -> Callable[[Wanted], _Said]:
    def said(wanted: Wanted) -> _Said:
        executor = executor_of(wanted)
        facts = [("leases", f"{executor.lease_count:,}")]  # type: ignore[attr-defined]  # annotated
        return f"{verb} executor {executor.name}", list(sentences), facts

    return said


def _queue(verb: str, *sentences: str) -> Callable[[Wanted], _Said]:
    def said(wanted: Wanted) -> _Said:
        queue = queue_of(wanted)
        waiting = waiting_by_queue([queue.pk]).get(queue.pk, 0)
        return f"{verb} queue {wanted.of}", list(sentences), [("waiting", str(waiting))]

    return said


def _node(verb: str, *sentences: str) -> Callable[[Wanted], _Said]:
    def said(wanted: Wanted) -> _Said:
        node = node_of(wanted)
        return f"{verb} node {node.address}", list(sentences), [("state", node.state.value)]

    return said


def _close(wanted: Wanted) -> _Said:
    breaker = breaker_of(wanted)
    told = [
        "The retries that it holds start, at the pace of the storm limits.",
        "It opens again if as many chains fail so after this.",
    ]
    held = breakers_hold_counts([breaker]).get(str(breaker), 0)
    facts = [("scope", breaker.address), ("held retries", f"{held:,}")]
    return f"Close the breaker of {breaker.signature}", told, facts


def _send(wanted: Wanted) -> _Said:
    told = "They killed the workers that took them. If the reason is still there, they do so again."
    return f"Send the parked tasks {wanted.of} again", [told], []


_SAID: dict[ActName, Callable[[Wanted], _Said]] = {
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
}
