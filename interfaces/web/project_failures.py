"""The failures of a project by their signatures: how often, where, and what became of them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from interfaces.web.failure_sessions import newest_sessions
from interfaces.web.failures_filter import LABELS, failures_filter
from interfaces.web.parts import Chart, Column, Empty, Listing, Series
from interfaces.web.project_breakers import (
    breaker_close_asked,
    breaker_open_asked,
    breaker_openable,
    breakers_shown,
)
from interfaces.web.project_frame import Place, of_project, page
from sessions_app.authorization import Action
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.locks import database_now
from sessions_app.models.failures import OTHER
from sessions_app.selectors.failures import (
    BINS,
    Failure,
    FailuresWanted,
    failure_found,
    failures_listed,
)
from sessions_app.services.failures.mute import failure_mute

PAGE = 50
TIMES = {"1": "the last day", "7": "the last 7 days", "30": "the last 30 days"}
"""The times that the pages offer, by their days."""
CLOSED = "The breaker is closed: what it held goes on."
ORDERS = {
    "sessions": "Failed",
    "chains": "Chains",
    "recovered_chains": "Recovered",
    "lost_run_seconds": "Lost run time",
    "last_seen": "Last seen",
    "first_seen": "First seen",
}
"""The orders of the list, by the names that `GET /failures/` has for them."""
_TIMES = ("last_seen", "first_seen")


@of_project(Action.FAILURE_READ)
def failures(request: HttpRequest, place: Place) -> HttpResponse:
    """List the failures of a time, most frequent first; a POST closes a breaker."""
    if request.method == "POST":
        breaker_close_asked(place, request.POST.get("breaker", ""))
        messages.success(request, CLOSED)
        return redirect(place.address("project-failures"))
    order = request.GET.get("order", "")
    order = order if order in ORDERS else "sessions"
    days, muted = _days(request), request.GET.get("muted") == "1"
    before = request.GET.get("from", "")
    offset = int(before) if before.isascii() and before.isdigit() and len(before) < 7 else 0
    asked = failures_filter(request.GET)
    wanted = _wanted(days, muted=None if muted else False, ordering=f"-{order}", **asked.given)
    found = failures_listed([place.project.pk], wanted, offset=offset, limit=PAGE + 1)
    shown = {"days": days, "order": order, **({"muted": "1"} if muted else {})}
    kept = {**shown, **asked.given}
    return page(
        request,
        place,
        "failures",
        list=_listing(place, found, kept, offset),
        times=[(label, f"?{urlencode({**kept, 'days': each})}", each == days)
               for each, label in TIMES.items()],
        time=TIMES[days],
        muted=muted,
        breakers=breakers_shown(place),
        fields=asked.fields(found[:PAGE], request.GET),
        shown=shown,
        all_address=f"?{urlencode(shown)}" if asked.given else "",
        muted_address=f"?{urlencode({**kept, 'muted': '0' if muted else '1'})}",
    )  # fmt: skip


def _sessions_address(place: Place, key: str) -> str:
    """Return the address of the list of the sessions that failed so."""
    query = {"project": place.project.address, "signature": key, "attempts": "all"}
    return f"{reverse('home')}?{urlencode(query)}"


def _rule_address(place: Place, key: str) -> str:
    """Return the address of the editor with a rule for the failure; "" if it cannot have one."""
    if key == OTHER or not place.may(Action.POLICY_WRITE):
        return ""
    return f"{place.address('project-policy-new')}?{urlencode({'signature': key})}"


def _days(request: HttpRequest) -> str:
    days = request.GET.get("days", "")
    return days if days in TIMES else "1"


def _wanted(days: str, **more: Any) -> FailuresWanted:
    now = database_now()
    return FailuresWanted.of(now, since=now - timedelta(days=int(days)), **more)


def _listing(place: Place, found: list[Failure], kept: dict[str, str], offset: int) -> Listing:
    columns = [
        Column(
            label,
            "number",
            order=f"?{urlencode({**kept, 'order': name})}",
            arrow="↓" if name == kept["order"] else "",
            order_label=f"{'Newest' if name in _TIMES else 'Most'} first by: {label.lower()}",
        )
        for name, label in ORDERS.items()
    ]
    first = f"?{urlencode(kept)}" if offset else ""
    following = f"?{urlencode({**kept, 'from': str(offset + PAGE)})}" if found[PAGE:] else ""
    return Listing(
        "Failures",
        [Column("Failure", "name"), *columns, Column("Over time", "more"), Column("Where", "more")],
        "projects/failure_row.html",
        [_row(place, each, kept["days"]) for each in found[:PAGE]],
        _nothing(kept),
        first=first,
        next=following,
    )


def _nothing(kept: dict[str, str]) -> Empty:
    if any(kept.get(name) for name in LABELS):
        return Empty(
            "No failure of this time matches.", "Take a filter away, or look further back."
        )
    return Empty("Nothing failed in this time.", "Failures show some seconds after they happened.")


def _row(place: Place, failure: Failure, days: str) -> dict[str, Any]:
    return {
        "id": failure.key,
        "name": failure.title,
        "failure": failure,
        "address": f"{place.address('project-failure', failure.key)}?days={days}",
        "bars": bars(failure),
        "where": [(label, values[0][0]) for label, values in _places(failure) if values],
    }


def _places(failure: Failure) -> list[tuple[str, Sequence[tuple[str, int]]]]:
    return [("image", failure.images), ("node", failure.nodes), ("queue", failure.queues)]


def bars(failure: Failure) -> list[tuple[float, float, float]]:
    """Return the bars of a sparkline, in percent: from the left, from the top, height."""
    most = max(failure.sparkline, default=0)
    width = 100 / BINS
    return [
        (round(at * width, 2), round(100 - 100 * value / most, 2), round(100 * value / most, 2))
        for at, value in enumerate(failure.sparkline)
        if value
    ]


@of_project(Action.FAILURE_READ)
def failure(request: HttpRequest, place: Place, key: str) -> HttpResponse:
    """Show one failure; a POST mutes it, or opens or closes a breaker of it."""
    days = _days(request)
    wanted = _wanted(days, key=key)
    sessions = _sessions_address(place, key)
    try:
        found = failure_found(place.project, wanted)
    except NotFound:
        messages.info(request, "This failure is not counted yet, or no longer: see its sessions.")
        return redirect(sessions)
    if request.method == "POST":
        _act(request, place, found)
        return redirect(f"{place.address('project-failure', key)}?days={days}")
    breakers = breakers_shown(place, key)
    return page(
        request,
        place,
        "failure",
        failure=found,
        chart=_chart(found, wanted, TIMES[days]),
        times=[(label, f"?days={each}", each == days) for each, label in TIMES.items()],
        time=TIMES[days],
        tops=[(f"{label}s".capitalize(), values) for label, values in _places(found)],
        sessions=sessions,
        list=newest_sessions(place, key),
        rule_address=_rule_address(place, key),
        may_mute=place.may(Action.FAILURE_WRITE),
        breakers=breakers,
        may_open=breaker_openable(place, found, breakers),
    )


def _act(request: HttpRequest, place: Place, found: Failure) -> None:
    """Do what the pressed button says: open or close a breaker, mute, or take that back."""
    if "breaker" in request.POST:
        breaker_close_asked(place, request.POST["breaker"])
        messages.success(request, CLOSED)
    elif "open" in request.POST:
        try:
            breaker_open_asked(place, found)
        except Conflict as error:
            messages.error(request, f"Not done: {error.detail}.")
        else:
            messages.success(request, "The breaker is open: retries after this failure wait.")
    else:
        place.require(Action.FAILURE_WRITE)
        muted = request.POST.get("mute") == "1"
        changed = failure_mute(found, muted=muted, by=place.actor.name)
        said = "Muted: the list leaves it out." if changed.muted else "It is in the list again."
        messages.success(request, said)


def _chart(found: Failure, wanted: FailuresWanted, time: str) -> Chart:
    span = wanted.until - wanted.since
    labels = [f"{wanted.since + span * at / BINS:%d %b %H:%M}" for at in range(BINS)]
    series = [Series("failed", "bad", found.sparkline)]
    return Chart("Failed attempts", labels, series, sample=f"in {time} (UTC)", height=96)
