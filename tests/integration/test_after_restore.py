"""`manage.py after_restore`: numbers that were given out before are never given out again."""

import io
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.functions import Now

from reprise.models import EventCursor
from reprise.upkeep.restored import JUMP
from sessions_app.core.cursors import START
from sessions_app.eventlog.reading import job_set_events
from sessions_app.models import SessionEvent
from sessions_app.services.resources.tenants import project_ensure
from tests.audit import audited_acts

# The command commits, whatever is around it.
pytestmark = pytest.mark.django_db(transaction=True)


def _next(sequence: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT nextval({sequence})")
        row = cursor.fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    "sequence",
    [
        "'scheduler_fencing_token'",
        "pg_get_serial_sequence('sessions_app_sessionevent', 'id')",
    ],
)
def test_numbers_go_on_far_beyond(sequence: str) -> None:
    before = _next(sequence)
    call_command("after_restore", stdout=io.StringIO())
    assert _next(sequence) == before + JUMP + 1
    call_command("after_restore", stdout=io.StringIO())  # harmless when repeated
    assert _next(sequence) == before + 2 * JUMP + 2


def test_it_is_in_the_audit_log() -> None:
    call_command("after_restore", stdout=io.StringIO())
    found = audited_acts().filter(action="database.restore")
    assert [each.actor for each in found] == ["manage.py after_restore"]


def _event(seq: int, xid: str) -> None:
    project, _ = project_ensure(domain="physics", name="simulation", by="test")
    session = UUID(int=1)
    SessionEvent.objects.create(
        session_id=session,
        root_id=session,
        project=project,
        job_set="sweep",
        attempt=0,
        seq=seq,
        type="session.created",
        time=Now(),
        xid=xid,
    )


def _transactions() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT xid::text FROM sessions_app_sessionevent ORDER BY seq")
        return [row[0] for row in cursor.fetchall()]


def _streamed() -> list[int]:
    """Return the events of a stream, by `seq`."""
    project, _ = project_ensure(domain="physics", name="simulation", by="test")
    return [event.seq for event in job_set_events(project.pk, "sweep", START, 10)]


def test_readers_do_not_wait_for_transactions_of_another_cluster() -> None:
    """They read on by (epoch, transaction, id): what was restored keeps its order, and comes
    first."""
    _event(1, "5")
    _event(2, str(2**40))
    assert _streamed() == [1]
    call_command("after_restore", stdout=io.StringIO())
    assert _streamed() == [1, 2]
    _event(3, "4")
    assert _streamed() == [1, 2, 3]


def test_each_restore_begins_another_epoch() -> None:
    """Also of one backup that is restored twice: its readers may know the epoch between."""
    begun = []
    for _ in range(3):
        call_command("after_restore", stdout=io.StringIO())
        with connection.cursor() as cursor:
            cursor.execute("SELECT reprise_epoch(), extract(epoch FROM now())::bigint - 3600")
            epoch, hour_ago = cursor.fetchone()
        assert epoch > hour_ago
        begun.append(epoch)
    assert begun == sorted(set(begun))


def test_a_backup_of_before_there_were_epochs() -> None:
    """A restored row then belongs to no transaction."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE sessions_app_sessionevent ALTER epoch SET DEFAULT 0")
            cursor.execute("DROP FUNCTION reprise_epoch()")
        _event(1, "5")
        _event(2, str(2**40))
        call_command("after_restore", stdout=io.StringIO())
        assert _transactions() == ["0", "0"]
        transaction.set_rollback(True)


def test_events_of_this_cluster_keep_their_transaction() -> None:
    """As after point-in-time recovery."""
    _event(1, "5")
    call_command("after_restore", stdout=io.StringIO())
    assert _transactions() == ["5"]


def test_metrics_do_not_wait_for_transactions_of_another_cluster() -> None:
    """Ids of transactions begin anew there: those of before may not come up for years."""
    EventCursor.objects.create(pk=1, fence_xid=2**40, fence_at=Now())
    call_command("after_restore", stdout=io.StringIO())
    assert EventCursor.objects.get().fence_xid == 0
