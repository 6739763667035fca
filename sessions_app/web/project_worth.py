"""What the retries of a project were worth: over time, and by what one chooses."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.utils.text import Truncator

from sessions_app.api.render.report_render import report_csv
from sessions_app.core.retry_worth import Dimension, Worth
from sessions_app.locks import database_now
from sessions_app.selectors.reports import (
    DAY,
    GROUPS,
    Report,
    ReportWanted,
    Row,
    days_of_values,
    retry_report,
)
from sessions_app.templatetags.reprise import words
from sessions_app.web.parts import Chart, Column, Empty, Listing, Series
from sessions_app.web.project_frame import Place, of_project, page

SHOWN = 50
"""Maximum number of values that the page lists; the file has all."""
LABEL = 40
"""Most characters of a title beside a chart."""
SERIES = 4
"""Values that have a series of their own in the chart; all others are one."""
TONES = ("accent", "waiting", "good", "bad", "off")
"""Tones of series that are easy to tell apart, the last one of all others."""
TIMES = {"7": "the last 7 days", "30": "the last 30 days", "365": "the last year"}
FIGURES = {
    "wasted": "wasted run time",
    "rescued": "rescued run time",
    "waiting": "waiting time",
    "recovered": "recovered chains",
    "given_up": "given up chains",
    "chains": "chains",
}
"""The figures that the chart can show."""
_TIMES = {"wasted", "rescued", "waiting"}
_OF_CHAINS = {"rescued", "recovered", "given_up", "chains"}
_UNITS = ((3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_COLUMNS = (
    *("Chains", "Retried", "Recovered", "Given up", "Run time", "Rescued", "Wasted", "Waiting"),
    *("Median to recover", "95 % recover in"),
)


@of_project(methods=("GET", "HEAD"))
def worth(request: HttpRequest, place: Place) -> HttpResponse:
    """Show what retries were worth in a time: sums, charts, and a table by what is chosen."""
    asked = _asked(request)
    wanted = _wanted(asked)
    found = retry_report([place.project.pk], wanted)
    return page(
        request,
        place,
        "worth",
        total=found.total,
        advice=found.advice,
        charts=[_outcomes(place, wanted), _over_time(place, found, asked["figure"])],
        list=_listing(place, found),
        time=TIMES[asked["days"]],
        more=max(len(found.rows) - SHOWN, 0),
        times=_chips(asked, "days", TIMES),
        groups=_chips(asked, "by", {name: f"by {name}" for name in GROUPS}),
        figures=_chips(asked, "figure", FIGURES),
        csv_address=f"{place.address('project-worth-csv')}?{urlencode(asked)}",
    )


@of_project(methods=("GET", "HEAD"))
def worth_csv(request: HttpRequest, place: Place) -> HttpResponse:
    """Give the table as a file."""
    wanted = _wanted(_asked(request))
    text = report_csv(retry_report([place.project.pk], wanted))
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


def _wanted(asked: Mapping[str, str]) -> ReportWanted:
    now = database_now()
    # Today is the last one of the days.
    since = now - timedelta(days=int(asked["days"]) - 1)
    return ReportWanted.of(now, since=since, by=asked["by"])


def _chips(
    asked: Mapping[str, str], name: str, values: Mapping[str, str]
) -> list[tuple[str, str, bool]]:
    """Return the choices of one kind: labels, addresses, and which one is chosen."""
    return [
        (label, f"?{urlencode({**asked, name: value})}", value == asked[name])
        for value, label in values.items()
    ]


def _labels(wanted: ReportWanted) -> list[str]:
    return [f"{day:%d %b}" for day in wanted.days]


def _outcomes(place: Place, wanted: ReportWanted) -> Chart:
    """Return how chains ended, by day."""
    days = days_of_values([place.project.pk], wanted, Dimension.ALL, [])
    found = [days.get((day, ""), Worth()) for day in wanted.days]
    kinds = (
        ("recovered", "good", [each.recovered for each in found]),
        ("succeeded at once", "accent", [_at_once(each) for each in found]),
        ("given up", "bad", [each.given_up for each in found]),
        ("cancelled", "off", [each.cancelled for each in found]),
    )
    series = [Series(label, tone, values) for label, tone, values in kinds]
    return Chart("Ends of chains", _labels(wanted), series, "a day", "by day (UTC)", height=96)


def _at_once(worth: Worth) -> int:
    return worth.chains - worth.recovered - worth.given_up - worth.cancelled


def _over_time(place: Place, found: Report, figure: str) -> Chart:
    """Return one figure by day, of the values that had most of it and of all others together."""
    wanted = found.wanted
    dimension = Dimension.ALL if wanted.by == DAY else Dimension(wanted.by)
    most = sorted(found.rows, key=lambda row: -getattr(row.worth, figure))
    top = [] if wanted.by == DAY else [row.value for row in most if row.value][:SERIES]
    days = days_of_values([place.project.pk], wanted, dimension, top)
    named = [(value, _short(found, value)) for value in top]
    rest = "all" if wanted.by == DAY else "others"
    series = [
        Series(
            label, tone, [getattr(days.get((day, value), Worth()), figure) for day in wanted.days]
        )
        for (value, label), tone in zip([*named, ("", rest)], TONES, strict=False)
    ]
    unit = ""
    if figure in _TIMES:
        highest = max((max(each.values, default=0) for each in series), default=0)
        size, unit = next(each for each in _UNITS if highest >= each[0] or each[1] == "s")
        series = [Series(s.label, s.tone, [value / size for value in s.values]) for s in series]
    kept = [each for each in series if any(each.values)] or series[-1:]
    title = f"{FIGURES[figure]} by {wanted.by}".capitalize()
    sample = "by day (UTC)"
    if figure in _OF_CHAINS and wanted.by != DAY:
        sample += f"; a chain counts under each {wanted.by} that it had"
    return Chart(title, _labels(wanted), kept, unit, sample, height=120)


def _name(found: Report, value: str) -> str:
    by = found.wanted.by
    return str(words(value)) if by == Dimension.CAUSE else value


def _short(found: Report, value: str) -> str:
    """Return the name of a value beside a chart: of a signature its title, cut."""
    title = next((row.title for row in found.rows if row.value == value), "")
    return str(Truncator(title).chars(LABEL)) if title else _name(found, value)


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
    name = "all others" if row.value is None else _name(found, row.value)
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
