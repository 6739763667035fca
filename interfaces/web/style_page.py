"""Every part of pages in every state, for developers: `/style/`, if `REPRISE_STYLE_PAGE` is on."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from interfaces.web.parts import (
    Chart,
    Choice,
    Column,
    Confirm,
    Empty,
    Field,
    Listing,
    Progress,
    Series,
)
from interfaces.web.style_moments import MOMENTS, moment
from sessions_app.core.states import RetryState, Status

_CHOICES = [Choice("one", "The first"), Choice("two", "The second")]
FIELDS = [
    Field("text", "Text", "some text"),
    Field("helped", "Text with help", help="The beginning is enough."),
    Field("wrong", "Text with an error", "x" * 40, error="must be shorter"),
    Field("suggested", "Text with suggestions", choices=_CHOICES),
    Field("time", "Time", "2030-01-31T12:00", kind="datetime-local"),
    Field("number", "Number", "7", kind="number"),
    Field("any", "Choice of any", kind="select", choices=_CHOICES),
    Field("chosen", "Choice of one", "two", kind="select", choices=_CHOICES, empty=""),
    Field("other", "Choice of what is not offered", "three", kind="select", choices=_CHOICES),
    Field("tick", "Yes or no", "1", kind="checkbox"),
    Field("several", "Several of some", kind="checks", choices=_CHOICES, chosen=["two"]),
    Field("lines", "Several lines", "one\ntwo", kind="textarea", wide=True),
]
EMPTY = Empty("Nothing here", "This says what to do next.", "reprise run image", [("All", "/")])
_NAMES = ("A short name", "a-name-" + "x" * 60)


def _listing(rows: list[dict[str, object]]) -> Listing:
    columns = [
        Column("Name", "name"),
        Column("Status"),
        Column("Age", "age", order="?", arrow="↓", order_label="Show the oldest first"),
    ]
    return Listing(
        "Examples",
        columns,
        "style_row.html",
        rows,
        EMPTY,
        choose="example",
        first="?first",
        next="?next",
    )


def _charts() -> list[Chart]:
    hours = [f"{hour:02d}:00" for hour in range(24)]
    good = Series("succeeded", "good", [hour % 7 * 3 for hour in range(24)])
    bad = Series("failed", "bad", [hour % 5 for hour in range(24)])
    none = Series("failed", "bad", [0] * 24)
    return [
        Chart("Ends", hours, [good, bad], unit="an hour", sample="of the newest 1,000 sessions"),
        Chart("One series", hours, [bad]),
        Chart("Nothing", hours, [none]),
    ]


@require_safe
@login_required
@never_cache
def style(request: HttpRequest) -> HttpResponse:
    """Show the parts; `?moment=` chooses that of the timeline and the log.

    Raises `Http404` unless the setting is on.
    """
    if not settings.REPRISE_STYLE_PAGE:
        raise Http404
    now = timezone.now()
    confirm = Confirm(
        "Cancel 4,312 chains",
        "What runs is stopped by its executor, and no retry follows.",
        "Yes, cancel 4,312 chains",
        "/style/",
        "/style/",
        tone="danger",
        facts=[("can be cancelled", "4,312"), ("left out", "17")],
    )
    rows: list[dict[str, object]] = [
        {"id": number, "name": name, "status": status, "at": now - timedelta(hours=number)}
        for number, (name, status) in enumerate(zip(_NAMES * 3, Status, strict=False))
    ]
    context = {
        "fields": FIELDS,
        "lists": [_listing(rows), _listing([])],
        "confirm": confirm,
        "progress": [Progress("Not begun", 0, 10), Progress("Half", 5, 10), Progress("Done", 1, 1)],
        "charts": _charts(),
        "statuses": list(Status),
        "retry_states": list(RetryState),
        "tones": ["info", "success", "error"],
        "moments": MOMENTS,
        "now": now,
        "soon": now + timedelta(minutes=5),
        "before": now - timedelta(minutes=5),
    }
    shown = request.GET.get("moment", "")
    return render(request, "style.html", {**moment(shown, now), **context})
