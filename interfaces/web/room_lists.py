"""The lists of who makes room, as the pages of a project and of operators show them."""

from collections.abc import Iterable, Sequence
from typing import Any

from interfaces.executor_wire.registry_render import preemptions_json, reservation_json
from interfaces.web.parts import Column, Empty, Listing
from scheduler.models import Reservation

_KEPT = (
    *(Column("Kept for", "name"), Column("Executor", "more"), Column("Nodes", "more")),
    Column("For", "age"),
)
_MADE = (
    Column("Made room", "name"),
    *(Column(label, "more") for label in ("For", "By", "Where")),
    Column("Lost run time", "more number"),
    Column("When", "age"),
)


def reservations_listing(rows: Iterable[Reservation], empty: Empty) -> Listing:
    """Return the list of the nodes that are kept free, read as `reservations_listed` does."""
    shown = [{"id": f"kept-{row.pk}", "kept": reservation_json(row)} for row in rows]
    return Listing("Nodes kept free", _KEPT, "_reservation_row.html", shown, empty)


def preemptions_listing(rows: Sequence[Any], empty: Empty, **pages: str) -> Listing:
    """Return the list of preemptions that `preemptions_listed` has read, in two statements.

    `pages` are the `first` and the `next` address, if there is one.
    """
    told = zip(rows, preemptions_json(rows), strict=True)
    shown = [{"id": f"preemption-{row.pk}", "made": each} for row, each in told]
    return Listing("Preemptions", _MADE, "_preemption_row.html", shown, empty, **pages)
