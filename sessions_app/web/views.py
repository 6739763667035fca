"""The web pages for people: the newest chains, and one session with its chain and reasons."""

from collections.abc import Callable
from typing import Annotated, Any, Literal
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sessions_app.api.render.session_render import (
    attempt_json,
    decision_json,
    decision_of,
    session_json,
    sessions_json,
)
from sessions_app.api.requests.queries import uppered
from sessions_app.authorization import Action, Actor, permitted
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.core.states import FINAL_STATUSES, WAITING_RETRY, Status
from sessions_app.eventlog.event_json import event_json
from sessions_app.models import Session
from sessions_app.selectors.resource_changes import resources_granted
from sessions_app.selectors.session_pages import Place, SessionsWanted, sessions_page
from sessions_app.selectors.sessions import chain_attempts, session_events, session_get
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.logs import log_tail

PAGE = 50
PROJECTS = 200
"""Most projects that the filter offers. Others can be named in the address."""
EVENTS = 500
LOG_LINES = 200


# PostgreSQL refuses text with NUL.
_Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]+$")]


class HomeFilter(BaseModel):
    """The query string of the first page. `after` is the last id of the previous page."""

    model_config = ConfigDict(frozen=True)

    status: Annotated[Status, BeforeValidator(uppered)] | None = None
    project: _Text | None = None
    search: _Text | None = None
    order: Literal["newest", "oldest"] = "newest"
    after: UUID | None = None


def home_filter(query: QueryDict) -> tuple[HomeFilter, list[str]]:
    """Return the valid filters, and the names of the invalid ones."""
    sent = {name: query[name] for name in HomeFilter.model_fields if query.get(name)}
    try:
        return HomeFilter.model_validate(sent), []
    except ValidationError as error:
        wrong = sorted({str(item["loc"][0]) for item in error.errors()})
    kept = {name: text for name, text in sent.items() if name not in wrong}
    return HomeFilter.model_validate(kept), wrong


@require_safe
@login_required
@never_cache
def home(request: HttpRequest) -> HttpResponse:
    """Show the newest attempt of each of the newest chains."""
    actor = _actor(request)
    wanted, misunderstood = home_filter(request.GET)
    found = _page(actor, wanted)
    projects = actor.projects().order_by("domain__name", "name").select_related("domain")
    context = {
        "sessions": sessions_json(found[:PAGE]),
        "next_after": found[PAGE - 1].pk if len(found) > PAGE else None,
        "wanted": wanted,
        "filtered": bool(wanted.status or wanted.project or wanted.search),
        "misunderstood": misunderstood,
        "statuses": list(Status),
        "projects": [project.address for project in projects[:PROJECTS]],
        "live": any(not _is_over(session) for session in found[:PAGE]),
        "now": timezone.now(),
    }
    return render(request, "home.html", context)


def _page(actor: Actor, wanted: HomeFilter) -> list[Session]:
    """Return one page of newest attempts, and one more if more exist."""
    shared = wanted.model_dump(include={"status", "project", "search"})
    place = Place(PAGE + 1, newest_first=wanted.order == "newest", beyond=wanted.after)
    return sessions_page(actor, SessionsWanted(tip=True, **shared), place)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def session(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show one session: chain, decision, events and the end of its log.

    A POST cancels or retries it.
    """
    actor = _actor(request)
    try:
        if request.method == "POST":
            return redirect("session", _act(request, actor, session_id))
        found = session_get(actor, session_id)
    except NotFound as error:
        raise Http404 from error
    return render(request, "session.html", _session_context(actor, found))


def _act(request: HttpRequest, actor: Actor, session_id: UUID) -> UUID:
    """Do what the pressed button says, and return the session to show. Refusals become messages."""
    act = _ACTS.get(request.POST.get("do", ""))
    if act is None:
        messages.error(request, "This page can only cancel a chain or retry a session.")
        return session_id
    try:
        shown, done = act(actor, session_id)
    except NotFound:
        raise
    except DomainError as error:
        messages.error(request, f"{error.title}: {error.detail}.")
        return session_id
    messages.success(request, done)
    return shown


def _cancel(actor: Actor, session_id: UUID) -> tuple[UUID, str]:
    found = session_get(actor, session_id, Action.SESSION_CANCEL)
    chain_cancel(found.root_id, by=actor.name)
    return session_id, "The chain is cancelled; a run that has begun is being stopped."


def _retry(actor: Actor, session_id: UUID) -> tuple[UUID, str]:
    found = session_get(actor, session_id, Action.SESSION_RETRY)
    child = session_retry(session_id, found.root_id, by=actor.name)
    return child, "This is the new attempt."


_ACTS: dict[str, Callable[[Actor, UUID], tuple[UUID, str]]] = {"cancel": _cancel, "retry": _retry}


def _session_context(actor: Actor, found: Session) -> dict[str, Any]:
    chain = chain_attempts(found)
    tip = chain[-1]
    decision, last = decision_of(found), decision_of(tip)
    events = list(session_events(found)[: EVENTS + 1])
    granted = resources_granted(chain)
    over = _is_over(tip)
    whose: dict[str, Any] = {"project": found.project, "owner_id": found.owner_id}
    failed = found.pk == tip.pk and found.status in {Status.ERROR, Status.CANCELLED}
    return {
        "session": session_json(found, actor),
        "attempts": [
            {
                **attempt_json(attempt),
                "granted": granted.get(attempt.pk),
                "preemption": attempt.preemption,
            }
            for attempt in chain
        ],
        "granted": granted.get(found.pk),
        "due_at": last.due_at if last and tip.retry_state in WAITING_RETRY else None,
        "decision": decision_json(found, decision) if decision else None,
        "events": [event_json(event) for event in events[:EVENTS]],
        "more_events": len(events) > EVENTS,
        "log": log_tail(found.pk, LOG_LINES),
        "log_lines": LOG_LINES,
        "archived": found.archived_chain is not None,
        "live": not over,
        "cancellable": not over
        and found.root.cancel_requested_at is None
        and permitted(actor, Action.SESSION_CANCEL, **whose),
        "retryable": failed
        and found.archived_chain is None
        and permitted(actor, Action.SESSION_RETRY, **whose),
        "now": timezone.now(),
    }


def _is_over(tip: Session) -> bool:
    """Return whether nothing more happens to a chain by itself."""
    return tip.status in FINAL_STATUSES and tip.retry_state not in WAITING_RETRY


def _actor(request: HttpRequest) -> Actor:
    assert isinstance(request.user, User)  # noqa: S101  # login_required
    return Actor(user=request.user)
