"""What people say about a failure: that they know it."""

from collections.abc import Collection
from dataclasses import replace

from django.db import connection

from sessions_app.db.bulk import array
from sessions_app.db.writes import atomic_writes
from sessions_app.locks import database_now, lock_failures
from sessions_app.models import FailureSignature
from sessions_app.selectors.failures import Failure
from sessions_app.services.write.audit import AuditRow, audit_append

_MUTE = """
    UPDATE sessions_app_failuresignature SET muted = %(muted)s
    WHERE id = ANY(%(rows)s::bigint[]) AND muted <> %(muted)s
    RETURNING key, project_id
"""


def failure_mute(failure: Failure, *, muted: bool, by: str) -> Failure:
    """Mute a failure, or take that back; return it so. The same again changes nothing."""
    with atomic_writes() as writes:
        rows = FailureSignature.objects.filter(pk=failure.pk, muted=not muted)
        if rows.update(muted=muted):
            entry = _entry(failure.key, failure.project_id, muted=muted, by=by)
            audit_append(writes, [entry], now=database_now())
    return replace(failure, muted=muted)


def failures_mute(rows: Collection[int], *, muted: bool, by: str) -> int:
    """Mute many failures, given by the ids of their rows, or take that back.

    Return the number of those that changed. It takes a fixed number of statements.
    """
    with atomic_writes() as writes:
        lock_failures()  # their sweep writes many rows, too, in another order
        with connection.cursor() as cursor:
            cursor.execute(_MUTE, {"muted": muted, "rows": array(rows)})
            changed = cursor.fetchall()
        if changed:
            entries = [_entry(*each, muted=muted, by=by) for each in changed]
            audit_append(writes, entries, now=database_now())
    return len(changed)


def _entry(key: str, project_id: int, *, muted: bool, by: str) -> AuditRow:
    verb = "failure.mute" if muted else "failure.unmute"
    return AuditRow(by, verb, "failure", key, project_id=project_id)
