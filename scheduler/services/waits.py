"""Waits with a limit: sessions whose `queue_timeout` is over before an executor took them."""

from collections.abc import Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from retry.evidence.termination import Termination
from sessions_app.core.states import Status
from sessions_app.db.bulk import array
from sessions_app.db.steps import atomic_step
from sessions_app.locks import database_now, lock_sessions
from sessions_app.models import Session
from sessions_app.selectors.why_pending import why_pending
from sessions_app.services.chains.settle import End, settle_locked

BATCH = 500
EXPLAINED = 10
"""Most reasons that one batch looks for. Sessions of one queue that ask for the same share one."""


class Expired(NamedTuple):
    """The number of sessions that one batch ended, and whether there may be more to end."""

    ended: int
    more: bool


class _Overdue(NamedTuple):
    session_id: UUID
    queue_id: int
    scheduling_key: int | None


_Line = tuple[int, int | None]

_OVERDUE = """
    SELECT id, queue_id, scheduling_key FROM sessions_app_session
    WHERE phase = 'waiting' AND wait_deadline <= (SELECT clock_timestamp())
    ORDER BY wait_deadline LIMIT %s
"""


def waits_expire() -> Expired:
    """End one batch of the sessions that have waited for too long; call again while there are more.

    They fail as `scheduler_timeout`, with the reason why they waited. One statement if there are
    none.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OVERDUE, [BATCH])
        found = [_Overdue._make(row) for row in cursor.fetchall()]
    # A reason takes some statements; it is looked for before anything is locked.
    reasons = _reasons(found)
    taken = [each for each in found if each[1:] in reasons]
    ended = _end({each.session_id: reasons[each[1:]] for each in taken}) if taken else 0
    # Those that another transaction holds are left to the next sweep.
    more = ended > 0 and (len(found) == BATCH or len(taken) < len(found))
    return Expired(ended, more)


def _reasons(found: Collection[_Overdue]) -> dict[_Line, str]:
    """Return why sessions wait, by queue and key, for the first `EXPLAINED` of these."""
    firsts: dict[_Line, UUID] = {}
    for each in found:
        line = each[1:]
        if line in firsts or len(firsts) < EXPLAINED:
            firsts.setdefault(line, each.session_id)
    if not firsts:
        return {}
    rows = Session.objects.filter(pk__in=list(firsts.values())).select_related("queue", "project")
    sessions = {session.pk: session for session in rows}
    return {line: _reason(sessions.get(key)) for line, key in firsts.items()}


def _reason(session: Session | None) -> str:
    # None: it no longer waits, and others of its line may have been leased, too.
    why = session and why_pending(session, at_once=True)
    return why.message if why else ""


# The locks are held now: what was leased or ended meanwhile does not wait any more.
_STILL = """
    SELECT s.id, p.queue_timeout FROM sessions_app_session s
    JOIN sessions_app_sessionspec p ON p.id = s.spec_id
    WHERE s.id = ANY(%s::uuid[]) AND s.phase = 'waiting' AND s.wait_deadline <= %s
"""


def _end(reasons: Mapping[UUID, str]) -> int:
    with atomic_step("wait") as writes:
        locked = lock_sessions(list(reasons), skip_locked=True)
        sessions = {each.id: each for each in locked if each.status is Status.PENDING}
        now = database_now()
        with connection.cursor() as cursor:
            cursor.execute(_STILL, [array(sessions), now])
            timeouts = dict(cursor.fetchall())
        ends = [(sessions[key], _over(timeouts[key], reasons[key])) for key in sorted(timeouts)]
        settle_locked(writes, ends, now=now)
    return len(ends)


def _over(timeout: float | None, reason: str) -> End:
    limit = f" of {timeout:g} s" if timeout else ""
    message = f"it waited longer than its queue_timeout{limit}{': ' if reason else ''}{reason}"
    return End(Termination(conditions=("Unschedulable",)), message=message)
