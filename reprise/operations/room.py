"""Who makes room now: the nodes that are kept free, and the preemptions of the last hour."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from interfaces.web.parts import Empty
from interfaces.web.room_lists import preemptions_listing, reservations_listing
from reprise.operations.problems import SHOWN
from scheduler.models import Reservation
from scheduler.selectors import preemptions_listed, reservations_listed
from sessions_app.authorization import Actor

LOOKED_BACK = timedelta(hours=1)
_NOTHING = Empty("No node is kept free.", "No session waits for more room than comes by itself.")
_NOBODY = Empty("Nobody made room in the last hour.")


def room(
    actor: Actor, now: datetime, reservations: Sequence[Reservation] | None = None
) -> dict[str, Any]:
    """Return the lists, each of at most `SHOWN` rows, in four statements.

    It takes three if the `reservations` have been read before. Raises `NotPermitted`.
    """
    kept = reservations_listed(actor)[:SHOWN] if reservations is None else reservations
    recent = preemptions_listed(actor).filter(planned_at__gte=now - LOOKED_BACK)
    made = list(recent.order_by("-planned_at", "-pk")[:SHOWN])
    return {
        "now": now,
        "reservations": reservations_listing(kept, _NOTHING),
        "preemptions": preemptions_listing(made, _NOBODY),
    }
