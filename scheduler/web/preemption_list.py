"""The list of preemptions, as the pages of a project and of operators show it."""

from collections.abc import Sequence
from typing import Any

from scheduler.api.registry_render import preemptions_json
from sessions_app.web.parts import Column, Empty, Listing

_COLUMNS = (
    Column("Made room", "name"),
    *(Column(label, "more") for label in ("For", "By", "Where")),
    Column("Lost run time", "more number"),
    Column("When", "age"),
)


def preemptions_listing(rows: Sequence[Any], empty: Empty, **pages: str) -> Listing:
    """Return the list of preemptions that `preemptions_listed` has read, in two statements.

    `pages` are the `first` and the `next` address, if there is one.
    """
    told = zip(rows, preemptions_json(rows), strict=True)
    shown = [{"id": f"preemption-{row.pk}", "made": each} for row, each in told]
    return Listing("Preemptions", _COLUMNS, "_preemption_row.html", shown, empty, **pages)
