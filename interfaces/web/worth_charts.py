"""The charts of what retries were worth: how chains ended, and one figure, both by day."""

from collections.abc import Sequence

from django.utils.text import Truncator

from interfaces.templatetags.reprise import words
from interfaces.web.parts import Chart, Series
from interfaces.web.project_frame import Place
from sessions_app.core.retry_worth import Dimension, Worth, percentile
from sessions_app.selectors.reports import DAY, Report, days_of_values

LABEL = 40
"""Most characters of a title beside a chart."""
SERIES = 4
"""Values that have a series of their own in the chart; all others are one."""
TONES = ("accent", "waiting", "good", "bad", "off")
"""Tones of series that are easy to tell apart, the last one of all others."""
FIGURES = {
    "wasted": "wasted run time",
    "rescued": "rescued run time",
    "run": "run time",
    "waiting": "waiting time",
    "recovered": "recovered chains",
    "given_up": "given up chains",
    "retried": "chains with a retry",
    "chains": "chains",
    "attempts": "attempts",
    "median": "median time to recover",
    "p95": "time in which 95 % recover",
}
"""The figures that the chart can show."""
SHARES = {"median": 0.5, "p95": 0.95}
"""The figures that are times of this share of the recoveries: those of values do not add up."""
_TIMES = {"wasted", "rescued", "run", "waiting", *SHARES}
_OF_CHAINS = {"rescued", "recovered", "given_up", "retried", "chains"}
_UNITS = ((3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def outcomes(found: Report) -> Chart:
    """Return how chains ended, by day."""
    days = _days(found)
    kinds = (
        ("recovered", "good", [each.recovered for each in days]),
        ("succeeded at once", "accent", [_at_once(each) for each in days]),
        ("given up", "bad", [each.given_up for each in days]),
        ("cancelled", "off", [each.cancelled for each in days]),
    )
    series = [Series(label, tone, values) for label, tone, values in kinds]
    return Chart("Ends of chains", _labels(found), series, "a day", "by day (UTC)", height=96)


def over_time(place: Place, found: Report, figure: str) -> Chart:
    """Return one figure by day, of the values that had most of it and of all others together."""
    by, sample = found.wanted.by, "by day (UTC)"
    whole = by == DAY or figure in SHARES
    if whole:
        series = [Series("all", TONES[0], [_value(each, figure) for each in _days(found)])]
    else:
        series = _of_values(place, found, figure)
    if figure in SHARES:
        sample += ", of all chains that recovered"
    elif figure in _OF_CHAINS and not whole:
        sample += f"; a chain counts under each {by} that it had"
    unit = ""
    if figure in _TIMES:
        series, unit = _in_unit(series)
    kept = [each for each in series if any(each.values)] or series[-1:]
    title = f"{FIGURES[figure]} by {DAY if whole else by}".capitalize()
    return Chart(title, _labels(found), kept, unit, sample, height=120)


def value_name(found: Report, value: str) -> str:
    """Return the name of a value: causes in words, all others as they are."""
    return str(words(value)) if found.wanted.by == Dimension.CAUSE else value


def _labels(found: Report) -> list[str]:
    return [f"{day:%d %b}" for day in found.wanted.days]


def _days(found: Report) -> list[Worth]:
    return [found.days.get(str(day), Worth()) for day in found.wanted.days]


def _at_once(worth: Worth) -> int:
    return worth.chains - worth.recovered - worth.given_up - worth.cancelled


def _value(worth: Worth, figure: str) -> float:
    if figure in SHARES:
        return percentile(worth.recoveries, SHARES[figure]) or 0.0
    value: float = getattr(worth, figure)
    return value


def _of_values(place: Place, found: Report, figure: str) -> list[Series]:
    most = sorted(found.rows, key=lambda row: -_value(row.worth, figure))
    top = [row.value for row in most if row.value][:SERIES]
    cells = days_of_values([place.project.pk], found, top)
    named = [*((value, _short(found, value)) for value in top), ("", "others")]
    return [
        Series(
            label,
            tone,
            [_value(cells.get((str(day), value), Worth()), figure) for day in found.wanted.days],
        )
        for (value, label), tone in zip(named, TONES, strict=False)
    ]


def _short(found: Report, value: str) -> str:
    """Return the name of a value beside a chart: of a signature its title, cut."""
    title = next((row.title for row in found.rows if row.value == value), "")
    return str(Truncator(title).chars(LABEL)) if title else value_name(found, value)


def _in_unit(series: Sequence[Series]) -> tuple[list[Series], str]:
    """Return series of seconds in the largest unit of which they reach one, and the unit."""
    highest = max((max(each.values, default=0) for each in series), default=0)
    size, unit = next(each for each in _UNITS if highest >= each[0] or each[1] == "s")
    return [Series(s.label, s.tone, [value / size for value in s.values]) for s in series], unit
