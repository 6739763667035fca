"""The page of one session: its chain, its decisions and its log; buttons act on it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from interfaces.forms.policy_rules import may_be_retried
from interfaces.render.session_render import (
    attempt_json,
    decision_json,
    decision_of,
    session_json,
)
from interfaces.web.visitor import visitor
from sessions_app.authorization import Action, Actor, permitted
from sessions_app.core.chain_runs import Run, runs
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.core.progress_words import progress_shown
from sessions_app.core.retry_changes import changes_words
from sessions_app.core.states import GRANTED_RETRY, LIVE_STATUSES, RetryState, Status
from sessions_app.eventlog.event_json import event_json
from sessions_app.models import Session
from sessions_app.selectors.executors_known import executor_silence
from sessions_app.selectors.resource_changes import resources_granted
from sessions_app.selectors.sessions import chain_attempts, is_over, session_events, session_get
from sessions_app.services.chains.downstream import (
    downstream_allowed,
    downstream_words,
    session_retry_downstream,
)
from sessions_app.services.chains.parked import chain_give_up
from sessions_app.services.sessions.cancel import chain_cancel

EVENTS = 500


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show one session: chain, decision and events. The heavy parts come after it.

    A POST cancels it, gives it up or retries it.
    """
    actor = visitor(request)
    try:
        if request.method == "POST":
            return redirect("session", _act(request, actor, session_id))
        found = session_get(actor, session_id)
    except NotFound as error:
        raise Http404 from error
    unfolded = request.GET.get("attempts") == "all"
    return render(request, "session.html", _session_context(actor, found, unfolded=unfolded))


def _act(request: HttpRequest, actor: Actor, session_id: UUID) -> UUID:
    """Do what the pressed button says, and return the session to show. Refusals become messages."""
    act = _ACTS.get(request.POST.get("do", ""))
    if act is None:
        messages.error(request, "This page can only cancel or give up a chain, or retry a session.")
        return session_id
    try:
        shown, done = act(actor, session_id, request.POST)
    except NotFound:
        raise
    except DomainError as error:
        messages.error(request, f"{error.title}: {error.detail}.")
        return session_id
    messages.success(request, done)
    return shown


def _cancel(actor: Actor, session_id: UUID, _sent: QueryDict) -> tuple[UUID, str]:
    found = session_get(actor, session_id, Action.SESSION_CANCEL)
    chain_cancel(found.root_id, by=actor.name)
    return session_id, "The chain is cancelled; a run that has begun is being stopped."


def _retry(actor: Actor, session_id: UUID, sent: QueryDict) -> tuple[UUID, str]:
    found = session_get(actor, session_id, Action.SESSION_RETRY)
    down = downstream_allowed(actor, [found.root_id]) if "downstream" in sent else {}
    made = session_retry_downstream(session_id, found.root_id, down, by=actor.name)
    return made.child_id or session_id, made.words


def _give_up(actor: Actor, session_id: UUID, _sent: QueryDict) -> tuple[UUID, str]:
    found = session_get(actor, session_id, Action.SESSION_GIVE_UP)
    chain_give_up(session_id, found.root_id, by=actor.name)
    return session_id, "The chain has ended; it is no longer parked."


_ACTS: dict[str, Callable[[Actor, UUID, QueryDict], tuple[UUID, str]]] = {
    "cancel": _cancel,
    "retry": _retry,
    "give_up": _give_up,
}


def _session_context(actor: Actor, found: Session, *, unfolded: bool) -> dict[str, Any]:
    chain = chain_attempts(found)
    tip = chain[-1]
    decision, last = decision_of(found), decision_of(tip)
    events = list(session_events(found)[: EVENTS + 1])
    granted = resources_granted(chain)
    over = is_over(tip)
    allowed = _allowed(actor, found, tip, over=over)
    shown = session_json(found, actor)
    return {
        "session": shown,
        "progress": progress_shown(shown["progress"], live=found.finished_at is None),
        **_chain_context(chain, found, granted, unfolded=unfolded),
        "silence": executor_silence(found.pk) if found.status in LIVE_STATUSES else None,
        "granted": granted.get(found.pk),
        "due_at": last.due_at if last and tip.retry_state in GRANTED_RETRY else None,
        "decision": decision_json(found, decision) if decision else None,
        "events": [event_json(event) for event in events[:EVENTS]],
        "more_events": len(events) > EVENTS,
        "archived": found.archived_chain is not None,
        "live": not over,
        "failure_title": found.failure_title,
        "failure_address": _failure_address(found),
        **allowed,
        "downstream": downstream_words(found.root_id) if allowed["retryable"] else "",
        **_in_project(actor, found),
        "now": timezone.now(),
    }


def _failure_address(session: Session) -> str:
    """Return the address of the page of its failure; "" if it has none."""
    if not session.failure_signature:
        return ""
    at = (session.project.domain.name, session.project.name, session.failure_signature)
    return reverse("project-failure", args=at)


def _chain_context(
    chain: Sequence[Session], found: Session, granted: Mapping[UUID, str], *, unfolded: bool
) -> dict[str, Any]:
    attempts = [
        {
            **attempt_json(attempt),
            "granted": granted.get(attempt.pk),
            "preemption": attempt.preemption,
            "changed": changes_words(attempt.changes),
        }
        for attempt in chain
    ]
    for shown in attempts:
        told = progress_shown(shown["progress"], live=shown["finished_at"] is None)
        shown["done"] = told.done if told else ""
    folded = [Run([each]) for each in attempts] if unfolded else runs(attempts, found.pk)
    return {
        "attempts": attempts,
        "folded": folded,
        "folds": len(folded) < len(attempts),
        "unfolded": unfolded,
    }


def _in_project(actor: Actor, found: Session) -> dict[str, str]:
    """Return the addresses of its project, and of a new policy for failures like this one."""
    names = [found.project.domain.name, found.project.name]
    may = permitted(actor, Action.POLICY_WRITE, project=found.project)
    new = reverse("project-policy-new", args=names)
    return {
        "project_address": reverse("project", args=names),
        "new_policy": f"{new}?for={found.pk}" if may and may_be_retried(found.retry_cause) else "",
    }


def _allowed(actor: Actor, found: Session, tip: Session, *, over: bool) -> dict[str, bool]:
    whose: dict[str, Any] = {"project": found.project, "owner_id": found.owner_id}
    failed = found.pk == tip.pk and found.status in {Status.ERROR, Status.CANCELLED}
    return {
        "cancellable": not over
        and found.root.cancel_requested_at is None
        and permitted(actor, Action.SESSION_CANCEL, **whose),
        "prioritizable": found.status == Status.PENDING
        and permitted(actor, Action.SESSION_UPDATE, **whose),
        "parked": found.pk == tip.pk
        and found.retry_state == RetryState.PARKED
        and permitted(actor, Action.SESSION_GIVE_UP, **whose),
        "retryable": failed
        and found.archived_chain is None
        and permitted(actor, Action.SESSION_RETRY, **whose),
    }
