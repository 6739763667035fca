"""Acting on many sessions: what a dry run found, a question, then slices with their progress."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST
from pydantic import ValidationError

from interfaces.requests.bodies import SessionRetry, SessionUpdate
from interfaces.web.parts import Confirm, Field, Progress
from interfaces.web.sessions_filter import sessions_filter
from interfaces.web.visitor import visitor
from sessions_app.core.errors import NotFound
from sessions_app.models import PreparedAction
from sessions_app.selectors.session_pages import sessions_matching
from sessions_app.services.sessions.prepared_actions import (
    KEPT,
    MOST,
    SLICE,
    action_continue,
    action_get,
    action_prepare,
)

REQUEST_SECONDS = 1.0
"""Seconds for which one request goes on with slices."""
_NUMBER = re.compile("-?[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class _Words:
    """How the pages speak of an act."""

    verb: str
    warning: str
    done: str
    tone: str


WORDS = {
    "cancel": _Words(
        "Cancel",
        "Waiting sessions end at once. Executors stop running ones. No retry follows.",
        "cancelled",
        "danger",
    ),
    "retry": _Words(
        "Retry",
        "Each session gets a new attempt. If a limit of retries per minute is reached, the rest "
        "follow later.",
        "retried",
        "primary",
    ),
    "preempt": _Words(
        "Preempt",
        "Their executors stop them. Then their policies decide, as after any preemption.",
        "preempted",
        "danger",
    ),
    "priority": _Words(
        "Reprioritize",
        "Of the sessions of a queue that wait, those with a higher priority start first, within "
        "their class. Later attempts keep it.",
        "reprioritized",
        "primary",
    ),
    "give_up": _Words(
        "Give up",
        "Their chains end as exhausted, as they would have without parking.",
        "given up",
        "danger",
    ),
}


@require_POST
@login_required
def choose(request: HttpRequest) -> HttpResponse:
    """Find out on which of the chosen sessions the act is possible, and show that."""
    actor = visitor(request)
    wanted, _ = sessions_filter(QueryDict(request.POST.get("query", "")))
    query = wanted.query(after=None)
    act = request.POST.get("act", "")
    if request.POST.get("all"):
        ids = sessions_matching(actor, wanted.wanted(), wanted.spec(), MOST)
    else:
        ids = _ids(request.POST.getlist("id"))
    if act not in WORDS or not ids:
        text = "Choose an action." if ids else "Choose at least one session first."
        messages.error(request, text)
        return HttpResponseRedirect(f"{reverse('home')}?{query}")
    prepared = action_prepare(actor, act, ids, query=query)
    return redirect("many-sessions", prepared.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def act(request: HttpRequest, action_id: UUID, fragment: bool = False) -> HttpResponse:
    """Ask before an action, go on with it at a POST, and show how far it is."""
    actor = visitor(request)
    wrong = ""
    try:
        action = action_get(actor, action_id)
        if request.method == "POST":
            given, wrong = _given(request, action)
            if not wrong:
                action = _go_on(request, action, given)
    except NotFound as error:
        messages.error(request, f"{error.detail[:1].upper()}{error.detail[1:]}. Choose again.")
        return _elsewhere(reverse("home")) if fragment else redirect("home")
    if request.method == "POST" and not fragment and not wrong:
        return redirect("many-sessions", action.pk)
    template = "sessions/progress.html" if fragment else "sessions/many.html"
    return render(request, template, _context(action, request, wrong))


def _elsewhere(address: str) -> HttpResponse:
    """Let htmx load another page."""
    return HttpResponse(headers={"HX-Redirect": address})


def _go_on(request: HttpRequest, action: PreparedAction, given: dict[str, Any]) -> PreparedAction:
    """Do slices for about `REQUEST_SECONDS`."""
    until = time.monotonic() + REQUEST_SECONDS
    while action.started_at is None or action.position < len(action.ids):
        action = action_continue(visitor(request), action.pk, given=given)
        if time.monotonic() > until:
            break
    return action


def _given(request: HttpRequest, action: PreparedAction) -> tuple[dict[str, Any], str]:
    """Return what an action that begins is given, or what is wrong with it."""
    read = None if action.started_at else _READ.get(action.act)
    try:
        return (read(request) if read else {}), ""
    except ValidationError as error:
        return {}, str(error.errors()[0]["msg"]).removeprefix("Value error, ")


def _resources(request: HttpRequest) -> dict[str, Any]:
    memory = request.POST.get("memory", "").strip()
    if not memory:
        return {}
    asked = SessionRetry.model_validate({"resources": {"memory": memory}})
    resources: dict[str, Any] = asked.asked()["resources"]
    return resources


def _priority(request: HttpRequest) -> dict[str, Any]:
    typed = request.POST.get("priority", "").strip()
    number = int(typed) if _NUMBER.fullmatch(typed) else typed
    return SessionUpdate.model_validate({"priority": number}).model_dump()


_READ: dict[str, Callable[[HttpRequest], dict[str, Any]]] = {
    "retry": _resources,
    "priority": _priority,
}


def _ids(texts: list[str]) -> list[UUID]:
    """Return the ids that are some, at most `MOST`."""
    found: list[UUID] = []
    for text in texts[:MOST]:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return list(dict.fromkeys(found))


def _context(action: PreparedAction, request: HttpRequest, wrong: str) -> dict[str, Any]:
    words, total = WORDS[action.act], len(action.ids)
    address = reverse("many-sessions", args=[action.pk])
    refused = sum(each["count"] for each in action.refused)
    sessions = f"{total:,} session{'' if total == 1 else 's'}"
    confirm = Confirm(
        f"{words.verb} {sessions}" if total else f"{words.verb}: none of these can be",
        words.warning,
        f"Yes, {words.verb.lower()} {sessions}",
        address,
        _back(action),
        tone=words.tone,
        facts=[("possible", f"{total:,}"), ("left out", f"{refused:,}")],
        possible=total > 0,
    )
    return {
        "action": action,
        "confirm": confirm,
        "fields": _fields(action.act, request, wrong),
        "progress": Progress("Looked at", action.position, total),
        "over": action.started_at is not None and action.position >= total,
        "words": words,
        "failed": sum(each["count"] for each in action.changed),
        "back": _back(action),
        "slice": SLICE,
        "minutes": KEPT.seconds // 60,
        "address": address,
        "progress_address": reverse("many-sessions-progress", args=[action.pk]),
    }


def _fields(act: str, request: HttpRequest, wrong: str) -> list[Field]:
    """Return the fields of what an act is given."""
    if act == "retry":
        typed, told = request.POST.get("memory", ""), "Such as 8Gi. Empty: as much as before."
        label = "Memory of the new attempts"
        return [Field("memory", label, typed, help=told, error=wrong, max_length=40)]
    if act == "priority":
        typed, told = (
            request.POST.get("priority", ""),
            "Higher goes first; the usual is 0.",
        )
        return [Field("priority", "Priority", typed, "number", help=told, error=wrong)]
    return []


def _back(action: PreparedAction) -> str:
    """Return the address of the list in which the sessions were chosen."""
    in_admin = action.query.startswith("/")
    return action.query if in_admin else f"{reverse('home')}?{action.query}"
