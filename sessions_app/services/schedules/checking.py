"""Whether a schedule that is about to be saved could make its chains."""

from collections.abc import Collection
from copy import copy

from django.contrib.auth.models import User
from django.db import transaction

from sessions_app.core.errors import Conflict, InvalidInput, QuotaExceeded
from sessions_app.locks import database_now
from sessions_app.models import Schedule
from sessions_app.selectors.schedules import actors_of, queues_named
from sessions_app.services.schedules.chains import Maker
from sessions_app.services.sessions.submit import session_submit

_DECIDES = frozenset({"template", "queue"})
_CHECKED = ":check"


def schedule_check(
    schedule: Schedule,
    *,
    by: User,
    fields: Collection[str] = _DECIDES,
    paused: bool | None = None,
) -> tuple[str, ...]:
    """Return the warnings about the chains that a schedule would make for its new owner `by`.

    Raises `InvalidInput` if none could be made: the paths in the template begin with `template.`. A
    chain is made and undone again, so that nothing has to be written twice. That there is no room
    now says nothing about later. A change that leaves the `fields` alone that decide, and the
    owner, is not checked; nor is one that leaves them alone and pauses the schedule.
    """
    stays = schedule.paused if paused is None else paused
    if _DECIDES.isdisjoint(fields) and (stays or schedule.owner_id == by.pk):
        return ()
    draft = copy(schedule)
    draft.owner = by
    placed = Maker(draft, actors_of([by.pk]), queues_named([draft])).placed(
        database_now(), more=_CHECKED
    )
    try:
        with transaction.atomic():
            made = session_submit(placed)
            transaction.set_rollback(True)
    except (QuotaExceeded, Conflict):
        return ()
    except InvalidInput as error:
        found = {f"template.{name}": texts for name, texts in error.errors.items()}
        raise InvalidInput(found) from None
    return made.warnings
