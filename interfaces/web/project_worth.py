"""What the retries of a project were worth: over time, and by what one chooses."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse

from interfaces.render.report_render import report_csv
from interfaces.web.parts import Column, Empty, Listing
from interfaces.web.project_frame import Place, of_project, page
from interfaces.web.worth_charts import FIGURES, outcomes, over_time, value_name
from interfaces.web.worth_filter import WorthFilter, worth_filter
from sessions_app.core.errors import TooLarge
from sessions_app.core.retry_worth import Dimension
from sessions_app.locks import database_now
from sessions_app.selectors.reports import DAY, GROUPS, Report, ReportWanted, Row, retry_report

SHOWN = 50
"""Maximum number of values that the page lists; the file has all."""
TIMES = {"7": "the last 7 days", "30": "the last 30 days", "365": "the last year"}
_COLUMNS = (
    *("Chains", "Retried", "Recovered", "Given up", "Attempts", "Run time", "Rescued", "Wasted"),
    *("Waiting", "Median to recover", "95 % recover in"),
)


@of_project(methods=("GET", "HEAD"))
def worth(request: HttpRequest, place: Place) -> HttpResponse:
    """Show what retries were worth in a time: sums, charts, and a table by what is chosen."""
    asked, filters = _asked(request), worth_filter(request.GET)
    kept = {**asked, **filters.given}
    context: dict[str, Any] = {
        "time": TIMES[asked["days"]],
        "times": _chips(kept, "days", TIMES),
        "groups": _chips(kept, "by", {name: f"by {name}" for name in GROUPS}),
        "figures": _chips(kept, "figure", FIGURES),
        "csv_address": f"{place.address('project-worth-csv')}?{urlencode(kept)}",
        "filtered": bool(filters.given),
        "filters_open": bool(filters.typed),
        "shown": asked,
        "all_address": f"?{urlencode(asked)}",
    }
    try:
        found = retry_report([place.project.pk], _wanted(asked, filters))
    except TooLarge as error:
        context |= {"refused": str(error.detail), "fields": filters.fields({})}
        return page(request, place, "worth", 413, **context)
    return page(request, place, "worth", **context, **_shown(place, found, asked, filters))


def _shown(
    place: Place, found: Report, asked: Mapping[str, str], filters: WorthFilter
) -> dict[str, Any]:
    """Return what the page shows of a report."""
    listed = [row.value for row in found.rows[:SHOWN] if row.value]
    return {
        "total": found.total,
        "advice": found.advice,
        "advised_at": found.advised_at,
        "of_sessions": found.cells is not None,
        "charts": [outcomes(found), over_time(place, found, asked["figure"])],
        "list": _listing(place, found),
        "more": max(len(found.rows) - SHOWN, 0),
        "fields": filters.fields({found.wanted.by: listed}),
    }


@of_project(methods=("GET", "HEAD"))
def worth_csv(request: HttpRequest, place: Place) -> HttpResponse:
    """Give the table as a file."""
    wanted = _wanted(_asked(request), worth_filter(request.GET))
    try:
        text = report_csv(retry_report([place.project.pk], wanted))
    except TooLarge as error:
        return HttpResponse(str(error.detail), status=413, content_type="text/plain; charset=utf-8")
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="retries-by-{wanted.by}.csv"'
    return answer


def _asked(request: HttpRequest) -> dict[str, str]:
    """Return what is asked for; what nobody can ask for is ignored."""
    offered: dict[str, tuple[str, Sequence[str] | Mapping[str, str]]] = {
        "days": ("30", TIMES),
        "by": (Dimension.CAUSE.value, GROUPS),
        "figure": ("wasted", FIGURES),
    }
    given = {name: request.GET.get(name, "") for name in offered}
    return {
        name: given[name] if given[name] in values else usual
        for name, (usual, values) in offered.items()
    }


def _wanted(asked: Mapping[str, str], filters: WorthFilter) -> ReportWanted:
    now = database_now()
    # Today is the last one of the days.
    since = now - timedelta(days=int(asked["days"]) - 1)
    having: dict[str, Any] = {**filters.given}
    return ReportWanted.of(now, since=since, by=asked["by"], **having)


def _chips(
    kept: Mapping[str, str], name: str, values: Mapping[str, str]
) -> list[tuple[str, str, bool]]:
    """Return the choices of one kind: labels, addresses, and which one is chosen."""
    return [
        (label, f"?{urlencode({**kept, name: value})}", value == kept[name])
        for value, label in values.items()
    ]


def _listing(place: Place, found: Report) -> Listing:
    by = found.wanted.by
    rows = found.rows if by != DAY else [row for row in found.rows if row.worth.chains][::-1]
    return Listing(
        f"What retries were worth, by {by}",
        [Column(by.capitalize(), "name"), *(Column(label, "number") for label in _COLUMNS)],
        "projects/worth_row.html",
        [_row(place, found, at, row) for at, row in enumerate(rows[:SHOWN])],
        Empty(
            "No chain that ended in this time has any.",
            "Chains are counted some seconds after they ended.",
        ),
    )


def _row(place: Place, found: Report, at: int, row: Row) -> dict[str, Any]:
    name = "all others" if row.value is None else value_name(found, row.value)
    failure = row.value if found.wanted.by == Dimension.SIGNATURE else None
    return {
        "id": str(at),
        "name": row.title or name,
        "below": name if row.title else "",
        "address": place.address("project-failure", failure) if failure else "",
        "worth": row.worth,
        "median": row.percentile(0.5),
        "p95": row.percentile(0.95),
    }
