"""The queues of a project with their shares over time, and its quotas."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.forms.quotas import QuotaTexts, quotas_of
from interfaces.web.form_fields import shown_field
from interfaces.web.parts import Chart, Column, Confirm, Empty, Listing, Series
from interfaces.web.project_frame import Place, of_project, page, part, question
from interfaces.web.project_queue_form import QueueForm, give, stored
from sessions_app.authorization import Action
from sessions_app.core.errors import Conflict, InvalidInput, Outdated
from sessions_app.core.time_limits import time_limits_words
from sessions_app.core.versions import Expected
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.locks import database_now
from sessions_app.models import Queue
from sessions_app.selectors.policies import queue_get, queues_visible
from sessions_app.selectors.queue_shares import HOURS, SAMPLED, queue_shares
from sessions_app.selectors.quotas import QuotaUse, quota_uses
from sessions_app.services.resources.queues import queue_delete, queue_save, queue_version
from sessions_app.services.resources.quotas import quotas_put

PAGE = 200
"""Most queues that the page lists. Others have their address."""
TONES = ("accent", "waiting", "good")
"""Of the queues with the largest shares. The colours of failures mean failures."""
OTHERS = "off"


@of_project(Action.QUEUE_READ)
def queues(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the queues and the quotas; a POST sets the quotas. The shares come after the page."""
    scope = ConfigScope(project=place.project)
    sent = request.POST if request.method == "POST" else None
    form = QuotaTexts(sent, initial=quotas_of(scope))
    if form.is_bound:
        place.require(Action.PROJECT_QUOTA_WRITE)
        if form.is_valid() and _put(form, scope, place):
            messages.success(request, "Saved: the quotas apply to what is admitted from now on.")
            return redirect(place.address("project-queues"))
    found = list(_queues(place)[:PAGE])
    return page(
        request,
        place,
        "queues",
        400 if form.errors else 200,
        list=_listing(place, found),
        changes=place.may(Action.QUEUE_WRITE),
        sets_quotas=place.may(Action.PROJECT_QUOTA_WRITE),
        quotas_open=form.is_bound,
        quota_fields=[shown_field(each, str(each.label).capitalize(), rows=4) for each in form],
        refused=[str(each) for each in form.non_field_errors()],
        uses=[_use(each) for each in quota_uses(scope)],
    )


def _queues(place: Place) -> Any:
    return queues_visible(place.actor).filter(project=place.project).order_by("name")


def _put(form: QuotaTexts, scope: ConfigScope, place: Place) -> bool:
    try:
        quotas_put(scope, form.limits(), by=place.actor.name)
    except Conflict as error:
        form.add_error(None, f"{error.detail[:1].upper()}{error.detail[1:]}.")
        return False
    return True


def _use(use: QuotaUse) -> dict[str, Any]:
    return {**use._asdict(), "name": use.name.replace("_", " ").removeprefix("resources.")}


def _listing(place: Place, found: list[Queue]) -> Listing:
    columns = ("Priority factor", "Share of the pool now", "Holds", "Policies", "State")
    return Listing(
        "Queues",
        [Column("Queue", "name"), *(Column(label, "more") for label in columns)],
        "projects/queue_row.html",
        [_row(place, each) for each in found],
        Empty("There are no queues.", "Without a queue nothing can be submitted."),
    )


def _row(place: Place, queue: Queue) -> dict[str, Any]:
    # The usage is a record of the scheduler, which depends on queues and not the other way round.
    usage = getattr(queue, "usage", None)
    held = usage.used if usage else {}
    return {
        "id": queue.pk,
        "name": queue.name,
        "address": place.address("project-queue", queue.name),
        "queue": queue,
        "share": f"{usage.cost:.1%}" if usage else "none",
        "holds": ", ".join(f"{name} {amount}" for name, amount in held.items()),
        "limits": ", ".join(f"{name} {most}" for name, most in queue.resource_limits.items()),
        "times": ", ".join(time_limits_words(queue.time_limits)),
    }


@of_project(Action.QUEUE_READ, methods=("GET", "HEAD"))
def shares(request: HttpRequest, place: Place) -> HttpResponse:
    """Show how the queues shared the run time of the last hours."""
    found = queue_shares(place.project.pk, database_now())
    total = {queue: sum(values) for queue, values in found.seconds.items()}
    order = sorted(total, key=lambda queue: -total[queue])
    first, rest = order[: len(TONES)], order[len(TONES) :]
    names = dict(_queues(place).filter(pk__in=first).values_list("pk", "name"))
    sums = [sum(values[at] for values in found.seconds.values()) for at in range(HOURS)]
    kinds = [
        (names.get(queue, "deleted"), tone, found.seconds[queue])
        for queue, tone in zip(first, TONES, strict=False)
    ]
    if rest:
        others = [sum(found.seconds[queue][at] for queue in rest) for at in range(HOURS)]
        kinds.append((f"{len(rest)} others", OTHERS, others))
    chart = Chart(
        "Shares of run time",
        [f"{hour:%H:%M}" for hour in found.hours],
        [
            Series(name, tone, [_percent(values[at], sums[at]) for at in range(HOURS)])
            for name, tone, values in kinds
        ],
        unit="%",
        sample=f"of the newest {SAMPLED} attempts of each hour (UTC)"
        if found.capped
        else f"of all attempts that were submitted in each of the last {HOURS} hours (UTC)",
        height=120,
    )
    return part(request, place, "shares", title="Shares over time", chart=chart)


def _percent(value: float, of: float) -> float:
    return round(100 * value / of, 1) if of else 0.0


@of_project(Action.QUEUE_WRITE)
def queue_new(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the form of a new queue, or create it."""
    return _edit(request, place, None)


@of_project(Action.QUEUE_READ)
def queue(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Show one queue with its form; a POST changes it."""
    return _edit(request, place, queue_get(place.project, name))


def _edit(request: HttpRequest, place: Place, found: Queue | None) -> HttpResponse:
    sent = request.POST if request.method == "POST" else None
    form = QueueForm(place.project, found, sent, initial=stored(found))
    version = queue_version(found) if found else ""
    if form.is_bound:
        place.require(Action.QUEUE_WRITE)
        if form.is_valid() and _save(request, place, found, form):
            return redirect(place.address("project-queues"))
    return page(
        request,
        place,
        "queue",
        400 if form.errors else 200,
        queue=found,
        row=_row(place, found) if found else None,
        fields=[shown_field(each, rows=4) for each in form],
        refused=[str(each) for each in form.non_field_errors()],
        version=version,
        changes=place.may(Action.QUEUE_WRITE),
    )


def _save(request: HttpRequest, place: Place, found: Queue | None, form: QueueForm) -> bool:
    """Store the queue, or put the reason against it into the form."""
    asked = found or Queue(project=place.project, name=form.cleaned_data["name"])
    expected = Expected(frozenset([request.POST.get("version", "")])) if found else None
    fields = give(form, asked)
    try:
        queue_save(asked, by=place.actor.name, fields=fields if found else None, expected=expected)
    except InvalidInput as error:
        for name, texts in error.errors.items():
            form.add_error(name if name in form.fields else None, [*texts])
        return False
    except (Conflict, Outdated) as error:
        taken = isinstance(error, Conflict) and "name" in form.fields
        form.add_error("name" if taken else None, f"{error.title}: {error.detail}.")
        return False
    messages.success(request, f"The queue {asked.name} is saved.")
    return True


@of_project(Action.QUEUE_WRITE)
def delete(request: HttpRequest, place: Place, name: str) -> HttpResponse:
    """Ask before a queue is deleted, or delete it."""
    found = queue_get(place.project, name)

    def do() -> str:
        queue_delete(found, by=place.actor.name)
        return f"The queue {name} is deleted."

    confirm = Confirm(
        f"Delete the queue {name}",
        "A queue can be deleted if no session was ever submitted to it. Others can be cordoned.",
        "Yes, delete it",
        place.address("project-queue-delete", name),
        place.address("project-queue", name),
        tone="danger",
    )
    return question(request, place, confirm, do, place.address("project-queues"))
