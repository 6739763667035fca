"""The list of sessions: filters in the address, rows that keep current, saved searches."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from interfaces.render.session_render import sessions_json
from interfaces.web.first_run import first_run
from interfaces.web.parts import Column, Empty, Field, Listing
from interfaces.web.session_columns import CHOICES, USUAL, columns
from interfaces.web.sessions_filter import (
    SessionsFilter,
    chips,
    filter_fields,
    sessions_filter,
)
from interfaces.web.visitor import visitor
from sessions_app.authorization import Actor, require_user
from sessions_app.core.errors import InvalidInput
from sessions_app.models import Session
from sessions_app.selectors.saved_searches import searches_saved
from sessions_app.selectors.session_pages import COUNTED, Place, sessions_count, sessions_page
from sessions_app.services.resources.saved_searches import search_delete, search_save

PAGE = 50
PROJECTS = 200
"""Most projects that the filter offers. Others can be named in the address."""


@require_safe
@login_required
@never_cache
def home(request: HttpRequest, fragment: bool = False) -> HttpResponse:
    """Show the newest attempt of each of the newest chains, or its rows alone as a fragment."""
    actor = visitor(request)
    wanted, misunderstood = sessions_filter(request.GET)
    found = _page(actor, wanted)
    context: dict[str, Any] = {
        "list": _listing(wanted, found),
        "chosen_columns": wanted.columns,
        "rows_address": f"{reverse('session-rows')}?{wanted.query()}",
        "now": timezone.now(),
    }
    if fragment:
        return render(request, "sessions/rows.html", context)
    if not found and not wanted.filtered and wanted.after is None:
        context["first"] = first_run(request, actor)
    context |= _around(actor, wanted, misunderstood)
    return render(request, "home.html", context)


@require_safe
@login_required
@never_cache
def count(request: HttpRequest) -> HttpResponse:
    """Show how many sessions match the filters."""
    wanted, _ = sessions_filter(request.GET)
    number = sessions_count(visitor(request), wanted.wanted(), wanted.spec())
    text = f"{COUNTED:,} or more; the newest {COUNTED:,}" if number >= COUNTED else f"{number:,}"
    return HttpResponse(text)


@require_POST
@login_required
def save_search(request: HttpRequest) -> HttpResponse:
    """Save the search of the page under a name."""
    wanted, _ = sessions_filter(QueryDict(request.POST.get("query", "")))
    query = wanted.query(after=None)
    user = require_user(visitor(request))
    try:
        saved = search_save(user, request.POST.get("name", ""), query)
    except InvalidInput as error:
        ((field, texts),) = error.errors.items()
        messages.error(request, f"Not saved: the {field} {texts[0]}.")
    else:
        messages.success(request, f"Saved as “{saved.name}”.")
    return HttpResponseRedirect(f"{reverse('home')}?{query}")


@require_POST
@login_required
def forget_search(request: HttpRequest, search_id: int) -> HttpResponse:
    """Delete a saved search."""
    search_delete(require_user(visitor(request)), search_id)
    return HttpResponseRedirect(reverse("home"))


def _page(actor: Actor, wanted: SessionsFilter) -> list[Session]:
    """Return one page, and one session more if more exist."""
    place = Place(PAGE + 1, newest_first=wanted.order == "newest", beyond=wanted.after)
    return sessions_page(actor, wanted.wanted(), place, wanted.spec())


def _listing(wanted: SessionsFilter, found: list[Session]) -> Listing:
    newest = wanted.order == "newest"
    other = wanted.query(order="oldest" if newest else None, after=None)
    age = Column(
        "Age",
        "age",
        order=f"/?{other}",
        arrow="↓" if newest else "↑",
        order_label="Show the oldest first" if newest else "Show the newest first",
    )
    shown = [Column("Session"), Column("Status"), *columns(wanted.columns), age]
    after = found[PAGE - 1].pk if len(found) > PAGE else None
    return Listing(
        "Sessions",
        shown,
        "sessions/row.html",
        sessions_json(found[:PAGE]),
        _nothing(wanted),
        choose="session",
        first=f"/?{wanted.query(after=None)}" if wanted.after else "",
        next=f"/?{wanted.query(after=after)}" if after else "",
    )


def _nothing(wanted: SessionsFilter) -> Empty:
    text = "Take a filter away, or look at all sessions."
    if wanted.image or wanted.label:
        text += " Image and label are looked for among the newest ones: set “Created before” to"
        text += " look further back."
    return Empty("No session matches.", text, links=[("Show all sessions", reverse("home"))])


def _around(actor: Actor, wanted: SessionsFilter, misunderstood: list[str]) -> dict[str, Any]:
    """Return what the page has around its rows."""
    projects = actor.projects().order_by("domain__name", "name").select_related("domain")
    addresses = [project.address for project in projects[:PROJECTS]]
    shown, more = filter_fields(wanted, misunderstood, addresses)
    query = wanted.query(after=None)
    return {
        "wanted": wanted,
        "shown_fields": shown,
        "more_fields": more,
        "more_open": any(field.value and field.value != "newest" for field in more)
        or any(field.error for field in more)
        or wanted.columns != USUAL,
        "column_choices": CHOICES,
        "chips": list(chips(wanted)),
        "misunderstood": misunderstood,
        "searches": list(searches_saved(actor)),
        "query": query,
        "count_address": f"{reverse('session-count')}?{query}",
        "name_field": Field("name", "Name of this search", required=True, max_length=60),
    }
