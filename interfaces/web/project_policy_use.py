"""A queue names a policy: its place among the others, what it does there, and saving it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.simulate.run import Busy, take_slot
from interfaces.web.parts import Choice, Field
from interfaces.web.project_frame import Place, of_project, page
from interfaces.web.project_policies import policy_address, policy_found
from retry.policies.unreachable_rules import hidden_rules
from sessions_app.authorization import Action
from sessions_app.core.errors import InvalidInput, Outdated
from sessions_app.core.versions import Expected
from sessions_app.models import Queue, RetryPolicy
from sessions_app.selectors.policies import (
    policies_in_scope,
    queue_get,
    reading_of,
    revisions_current,
)
from sessions_app.services.chains.simulate import SAMPLING, simulate_in_queue
from sessions_app.services.resources.queues import queue_save, queue_version

FIRST = ":first"
"""The place before all others; no policy has such a name."""


@of_project(Action.QUEUE_WRITE)
def use(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Show what a policy would do at a place among those of a queue; a POST saves it there."""
    found = policy_found(request, place, name)
    sent = request.POST if request.method == "POST" else request.GET
    queue = queue_get(place.project, sent.get("queue", "").replace("\0", ""))
    others = [each for each in queue.retry_policies if each != found.name]
    after = sent.get("after") or (others[-1] if others else FIRST)
    if after != FIRST and after not in others:
        messages.error(request, f"Queue {queue.name} names no policy {after} now. Choose again.")
        after = others[-1] if others else FIRST
    elif request.method == "POST" and _save(request, place, queue, ordered(others, after, name)):
        return redirect(policy_address(place, found))
    return page(
        request,
        place,
        "policy_use",
        policy=found,
        queue=queue,
        after=_field(others, after),
        version=queue_version(queue),
        back=policy_address(place, found),
        **_trial(queue, found, ordered(others, after, name)),
    )


def ordered(others: Sequence[str], after: str, name: str) -> list[str]:
    """Return the policies of a queue with `name` behind `after`, or before all."""
    at = 0 if after == FIRST else others.index(after) + 1
    return [*others[:at], name, *others[at:]]


def _save(request: HttpRequest, place: Place, queue: Queue, names: list[str]) -> bool:
    seen = request.POST.get("version") or queue_version(queue)
    queue.retry_policies = names
    try:
        queue_save(
            queue,
            by=place.actor.name,
            fields=["retry_policies"],
            expected=Expected(frozenset([seen])),
        )
    except (InvalidInput, Outdated) as error:
        messages.error(request, f"Not done: {error}.")
        queue.refresh_from_db()
        return False
    text = f"Sessions that are submitted to {queue.name} from now on follow {', '.join(names)}."
    messages.success(request, text)
    return True


def _field(others: Sequence[str], after: str) -> Field:
    choices = [Choice(FIRST, "first"), *(Choice(each, f"behind {each}") for each in others)]
    return Field(
        "after",
        "Its place",
        after,
        kind="select",
        empty="",
        choices=choices,
        help="Of all rules of all policies of a queue, the first that matches decides.",
    )


def _trial(queue: Queue, policy: RetryPolicy, names: Sequence[str]) -> dict[str, Any]:
    """Return the order, the rules that another one hides, and who decided first in the past."""
    rows = policies_in_scope(queue.project).filter(name__in=names)
    current = revisions_current(list(rows))
    documents = {
        row.name: reading_of(current[row.pk]).document for row in rows if row.pk in current
    }
    before = [documents[each] for each in names[: names.index(policy.name)] if each in documents]
    shown: dict[str, Any] = {
        "order": names,
        "hidden": hidden_rules(documents[policy.name], before),
        "days": SAMPLING.days,
    }
    with ExitStack() as held:
        try:
            take_slot(held)
        except Busy:
            return shown | {"busy": True}
        tried = simulate_in_queue(queue, names)
    own = [f"{policy.name}/{rule.counter}" for rule in documents[policy.name].spec.rules or ()]
    counts = {label: tried.first.get(label, 0) for label in own} | tried.first
    return shown | {
        "tried": tried,
        "first": sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])),
        "own": own,
    }
