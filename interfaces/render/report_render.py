"""Renders reports, as JSON values and as CSV."""

import csv
import io
import re
from datetime import UTC, date, datetime, time
from typing import Any

from base.podspec.unseen import marked
from interfaces.shapes import report_shapes as shapes
from sessions_app.selectors.reports import Report, Row

COLUMNS = ("value", *shapes.RetryFigures.model_fields, "title")
"""The columns of a report as CSV."""
_FORMULA = re.compile("\\s*[-=+@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
"""What spreadsheets take for the beginning of a formula; some read full-width forms like others."""


def report_json(report: Report, project: str | None) -> dict[str, Any]:
    """Return a report; `project` is the address of its only project."""
    wanted = report.wanted
    return {
        "project": project,
        "since": _midnight(wanted.since),
        "until": _midnight(wanted.until),
        "by": wanted.by,
        "advice": list(report.advice),
        "advice_computed_at": report.advised_at,
        "total": _figures(report.total),
        "results": [row_json(row) for row in report.rows],
    }


def report_csv(report: Report) -> str:
    """Return the rows of a report as CSV, with a line of names first.

    A text that a spreadsheet would compute gets an apostrophe before it, and what nobody sees is
    marked.
    """
    text = io.StringIO()
    lines = csv.DictWriter(text, COLUMNS, lineterminator="\r\n")
    lines.writeheader()
    for row in report.rows:
        shown = row_json(row)
        lines.writerow(shown | {name: cell(shown[name]) for name in ("value", "title")})
    return text.getvalue()


def row_json(row: Row) -> dict[str, Any]:
    """Return the figures of one value."""
    return {**_figures(row), "value": row.value, "title": row.title}


def _figures(row: Row) -> dict[str, Any]:
    worth = row.worth
    return {
        "chains": worth.chains,
        "retried_chains": worth.retried,
        "recovered_chains": worth.recovered,
        "given_up_chains": worth.given_up,
        "cancelled_chains": worth.cancelled,
        "attempts": worth.attempts,
        "run_seconds": _seconds(worth.run),
        "rescued_run_seconds": _seconds(worth.rescued),
        "wasted_run_seconds": _seconds(worth.wasted),
        "waiting_seconds": _seconds(worth.waiting),
        "recovery_seconds_median": _seconds(row.percentile(0.5)),
        "recovery_seconds_p95": _seconds(row.percentile(0.95)),
    }


def _seconds(value: float | None) -> float | None:
    """Return a time to the millisecond: sums of times are exact to less than that."""
    return None if value is None else max(round(value, 3), 0.0)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def cell(text: str | None) -> str:
    """Return a text as a cell of CSV."""
    shown = marked(text or "")
    return f"'{shown}" if _FORMULA.match(shown) else shown
