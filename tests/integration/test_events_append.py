"""Events are written alike, whether a statement inserts a few or copies many."""

from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.utils import timezone

from sessions_app.core.states import Status
from sessions_app.db.writes import atomic_writes
from sessions_app.models import Project, SessionEvent
from sessions_app.services.write.transitions import COPIED, EventRow, events_append
from tests import factories

NASTY = "a\\b\tc\nd\re\"f'g{h},\\N\\.\u2028é\x01"


class Writer(NamedTuple):
    """A session, as far as its events need it."""

    id: UUID
    project_id: int
    job_set: str = NASTY
    retry_count: int = 0
    status: Status = Status.PENDING
    event_seq: int = 1

    @property
    def root_id(self) -> UUID:
        return self.id


def appended(at: Project, count: int) -> dict[str, Any]:
    """Return what each of so many equal events is in the log, if they are written at once."""
    session = Writer(factories.submit(at).pk, at.pk)
    data = {"text": NASTY, "list": [NASTY, None, 1.5, True], "deep": {NASTY: "\\"}}
    rows = [EventRow(session, 100 + n, f"session.{NASTY}", data) for n in range(count)]
    now = timezone.now()
    with atomic_writes() as writes:
        events_append(writes, rows, now=now)
    found = SessionEvent.objects.filter(session_id=session.id, seq__gte=100).order_by("seq")
    assert [event.seq for event in found] == [row.seq for row in rows]
    assert {event.time for event in found} == {now}
    assert [event.pk for event in found] == sorted(event.pk for event in found)
    left_out = ("id", "seq", "time", "session_id", "root_id", "xid")
    kept = [
        {name: value for name, value in row.items() if name not in left_out}
        for row in found.values()
    ]
    assert all(row == kept[0] for row in kept)
    assert kept[0]["data"] == data
    return kept[0]


@pytest.mark.django_db
def test_many_events_are_written_as_few_are(at: Project) -> None:
    few, many = appended(at, COPIED - 1), appended(at, COPIED)
    assert few == many
    assert few["job_set"] == NASTY
