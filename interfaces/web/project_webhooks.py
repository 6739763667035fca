"""The webhooks of a project: made, changed, paused, tested; and what was sent to each."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.web.form_fields import shown_field
from interfaces.web.parts import Column, Confirm, Empty, Field, Listing
from interfaces.web.project_frame import Place, of_project, page, part, question
from sessions_app.authorization import Action
from sessions_app.core.errors import Conflict, DomainError, InvalidInput, NotFound
from sessions_app.models import WebhookEndpoint
from sessions_app.models.webhooks import MAX_REASON, MAX_URL, DeliveryState
from sessions_app.selectors.webhooks import deliveries_of, webhook_get, webhooks_visible
from sessions_app.webhooks import endpoints

PAGE = 50
OVERLAP = timedelta(days=1)
"""For so long the old secret signs, too, as over REST."""
TYPES = "event_types"


class WebhookForm(forms.Form):
    """What can be changed of a webhook. The service checks the URL and the types."""

    url = forms.CharField(label="URL", max_length=MAX_URL)
    event_types = forms.CharField(
        label="Types of events",
        required=False,
        max_length=10_000,
        widget=forms.Textarea,
        help_text="one per line, or the beginning of some followed by *, such as session.retry_*; "
        "empty: all",
    )
    description = forms.CharField(label="Description", required=False, max_length=MAX_REASON)

    def clean_event_types(self) -> list[str]:
        """Return the types."""
        text: str = self.cleaned_data[TYPES]
        return text.replace(",", " ").split()


class RedeliverForm(forms.Form):
    """Which deliveries are sent again."""

    since = forms.DateTimeField(label="Since (UTC)")
    state = forms.ChoiceField(
        label="Which",
        choices=[("failed", "those that failed"), ("all", "all that ended")],
        required=False,
    )

    def states(self) -> tuple[DeliveryState, ...]:
        """Return the states of the last deliveries of the events."""
        failed = (DeliveryState.FAILED,)
        wanted = self.cleaned_data["state"]
        return (*failed, DeliveryState.DELIVERED) if wanted == "all" else failed


@of_project(Action.WEBHOOK_READ)
def webhooks(request: HttpRequest, place: Place) -> HttpResponse:
    """List the webhooks; a POST makes one and shows its secret, once."""
    form = WebhookForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {}
    if form.is_bound:
        place.require(Action.WEBHOOK_WRITE)
        made = _make(place, form) if form.is_valid() else None
        if made is not None:
            context = {"secret": made.new_secret, "made": made}
            form = WebhookForm()
    rows = webhooks_visible(place.actor).filter(project=place.project).order_by("pk")
    listing = Listing(
        "Webhooks",
        [Column("URL", "name"), Column("Events", "more"), Column("State", "more")],
        "projects/webhook_row.html",
        # A project has `endpoints.MOST_OF_PROJECT` at most.
        [_row(place, each) for each in rows],
        Empty("There are no webhooks.", "Make one to be told of what happens in the project."),
    )
    status = 400 if form.errors else 200
    fields = [shown_field(each, rows=3) for each in form]
    return page(request, place, "webhooks", status, list=listing, fields=fields, **context)


def _make(place: Place, form: WebhookForm) -> WebhookEndpoint | None:
    """Return the new webhook; None if the form has the reason against it."""
    try:
        return endpoints.webhook_create(
            **form.cleaned_data, project=place.project, by=place.actor.name
        )
    except (InvalidInput, Conflict) as error:
        _refuse(form, error)
    return None


def _refuse(form: forms.Form, error: InvalidInput | Conflict) -> None:
    if isinstance(error, Conflict):
        form.add_error("url", f"{error.detail}.")
        return
    for name, texts in error.errors.items():
        form.add_error(name, [*texts])


def _row(place: Place, endpoint: WebhookEndpoint) -> dict[str, Any]:
    return {
        "id": endpoint.pk,
        "name": endpoint.url,
        "webhook": endpoint,
        "address": place.address("project-webhook", endpoint.pk),
    }


def _found(place: Place, webhook_id: UUID) -> WebhookEndpoint:
    """Return a webhook of the project. Raises `NotFound` and `Http404`."""
    return place.own(webhook_get(place.actor, webhook_id, Action.WEBHOOK_READ))


@of_project(Action.WEBHOOK_READ)
def webhook(request: HttpRequest, place: Place, webhook_id: UUID) -> HttpResponse:
    """Show one webhook with what was sent to it; a POST changes it."""
    found = _found(place, webhook_id)
    form = _form(found, request.POST if request.method == "POST" else None)
    if form.is_bound:
        place.require(Action.WEBHOOK_WRITE)
        if form.is_valid() and _change(place, found, form):
            messages.success(request, "The webhook is saved.")
            return redirect(place.address("project-webhook", found.pk))
    return _page(request, place, found, form)


def _change(place: Place, found: WebhookEndpoint, form: WebhookForm) -> bool:
    for name, value in form.cleaned_data.items():
        setattr(found, name, value)
    try:
        endpoints.webhook_change(found, by=place.actor.name, fields=form.changed_data)
    except InvalidInput as error:
        _refuse(form, error)
        return False
    return True


def _page(
    request: HttpRequest,
    place: Place,
    found: WebhookEndpoint,
    form: WebhookForm,
    again: RedeliverForm | None = None,
    **more: Any,
) -> HttpResponse:
    asked = again or RedeliverForm()
    return page(
        request,
        place,
        "webhook",
        400 if form.errors or asked.errors else 200,
        fields=[shown_field(each, rows=3) for each in form],
        again=[shown_field(each) for each in asked],
        reason=Field("reason", "Reason of the pause", required=True, max_length=MAX_REASON),
        **_deliveries(request, place, found),
        **more,
    )


@of_project(Action.WEBHOOK_READ, methods=("GET", "HEAD"))
def deliveries(request: HttpRequest, place: Place, webhook_id: UUID) -> HttpResponse:
    """Show what was sent to a webhook, and what waits."""
    context = _deliveries(request, place, _found(place, webhook_id))
    return part(request, place, "deliveries", title="Deliveries", **context)


def _deliveries(request: HttpRequest, place: Place, found: WebhookEndpoint) -> dict[str, Any]:
    """Return a page of deliveries: `?before=` is the id of the last one, `?state=failed` a filter.

    Both have an index.
    """
    rows = deliveries_of(found).order_by("-pk")
    failed = request.GET.get("state") == DeliveryState.FAILED
    before = request.GET.get("before", "")
    if failed:
        rows = rows.filter(state=DeliveryState.FAILED)
    if before.isascii() and before.isdigit() and len(before) < 19:
        rows = rows.filter(pk__lt=int(before))
    shown = list(rows[: PAGE + 1])
    address = place.address("project-deliveries", found.pk)
    state = "state=failed&" if failed else ""
    listing = Listing(
        "Deliveries",
        [
            Column("Event", "name"),
            Column("State", "more"),
            Column("Answer", "more"),
            Column("Actions", "more"),
            Column("Made", "age"),
        ],
        "projects/delivery_row.html",
        [{"id": f"d{each.pk}", "name": each.type, "delivery": each} for each in shown[:PAGE]],
        Empty("Nothing was sent.", "Send a test message to see whether it arrives."),
        first=f"{address}?{state}" if before else "",
        next=f"{address}?{state}before={shown[PAGE - 1].pk}" if len(shown) > PAGE else "",
    )
    return {
        "webhook": found,
        "list": listing,
        "deliveries_address": f"{address}?{request.GET.urlencode()}",
        "all_address": address,
        "failed": failed,
        "live": not before,
        "may_write": place.may(Action.WEBHOOK_WRITE),
    }


@of_project(Action.WEBHOOK_WRITE, methods=("POST",))
def act(request: HttpRequest, place: Place, webhook_id: UUID) -> HttpResponse:
    """Pause, resume or test a webhook, send one delivery again, or make a new secret."""
    found = _found(place, webhook_id)
    asked = request.POST.get("act", "")
    try:
        if asked == "secret":
            endpoints.webhook_new_secret(found, overlap=OVERLAP, by=place.actor.name)
            return _page(request, place, found, _form(found), secret=found.new_secret)
        messages.success(request, _done(asked, request.POST, found, place.actor.name))
    except DomainError as error:
        messages.error(request, f"Not done: {error.detail}.")
    return redirect(place.address("project-webhook", found.pk))


def _form(found: WebhookEndpoint, sent: Any = None) -> WebhookForm:
    initial = {"url": found.url, "description": found.description}
    return WebhookForm(sent, initial={**initial, TYPES: "\n".join(found.event_types)})


def _done(asked: str, sent: Mapping[str, str], found: WebhookEndpoint, by: str) -> str:
    """Do what is asked, and return what to say about it."""
    match asked:
        case "pause":
            endpoints.webhook_pause(found, reason=_reason(sent), by=by)
            return "Paused. New events wait, and are sent after it is resumed."
        case "resume":
            endpoints.webhook_resume(found, by=by)
            return "Resumed. The events since the pause are sent now."
        case "ping":
            endpoints.webhook_ping(found)
            return "A test message is on its way. Its result stands among the deliveries."
        case "again":
            endpoints.webhook_redeliver(found, delivery=_number(sent.get("delivery", "")))
            return "It is sent again, with its original id."
    return "Nothing was done."


def _reason(sent: Mapping[str, str]) -> str:
    reason = sent.get("reason", "").replace("\0", "").strip()[:MAX_REASON]
    if not reason:
        raise InvalidInput({"reason": ["say why it is paused"]})
    return reason


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound("no such delivery")
    return int(text)


@of_project(Action.WEBHOOK_WRITE, methods=("POST",))
def redeliver(request: HttpRequest, place: Place, webhook_id: UUID) -> HttpResponse:
    """Send all deliveries since a time again."""
    found = _found(place, webhook_id)
    form = RedeliverForm(request.POST)
    if form.is_valid():
        since = form.cleaned_data["since"]
        try:
            number = endpoints.webhook_redeliver(found, since=since, states=form.states())
        except DomainError as error:
            form.add_error("since", f"{error.detail}.")
        else:
            messages.success(request, f"Sent again: {number:,}.")
            return redirect(place.address("project-webhook", found.pk))
    return _page(request, place, found, _form(found), form)


@of_project(Action.WEBHOOK_WRITE)
def delete(request: HttpRequest, place: Place, webhook_id: UUID) -> HttpResponse:
    """Ask before a webhook is deleted, or delete it."""
    found = _found(place, webhook_id)

    def do() -> str:
        endpoints.webhook_delete(found, by=place.actor.name)
        return "The webhook is deleted."

    confirm = Confirm(
        "Delete the webhook",
        "Nothing more is sent, and the record of its deliveries is deleted.",
        "Yes, delete it",
        place.address("project-webhook-delete", found.pk),
        place.address("project-webhook", found.pk),
        tone="danger",
        facts=[("URL", found.url)],
    )
    return question(request, place, confirm, do, place.address("project-webhooks"))
