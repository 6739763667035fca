"""Usage: the counters of quotas follow the sessions, in the same transaction.

Whoever moves sessions notes it. The counters are updated once, as the last statement before the
commit: all others of the project need these rows, so they stay locked only during the commit. A
project without quotas has no rows, no waits, and nothing to note.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS, running
from sessions_app.core.states import Phase
from sessions_app.db.bulk import array, columns
from sessions_app.db.writes import Writes
from sessions_app.locks import Usage, usage_read

ZERO = Decimal(0)


class UsageFull(Exception):
    """A counter would exceed its limit: the whole transaction must be rolled back."""


class Move(NamedTuple):
    """A session that goes from one phase to another; `before` None: it is new.

    A `guarded` session is admitted only up to the quotas. Others are counted whatever the limit: a
    retry was admitted once, and a limit may be lowered below the present use.
    """

    session_id: UUID
    project_id: int
    before: Phase | None
    after: Phase
    guarded: bool = False


def usage_note(writes: Writes, moves: Iterable[Move]) -> None:
    """Count moves of sessions that are `limited`, last of all `writes`; then it may raise
    `UsageFull`."""
    moved = [each for each in moves if each.before is not each.after]
    if moved:
        writes.last(_count, moved)


def _count(moves: list[Move]) -> None:
    """Update the counters of these sessions' projects. Raises `UsageFull`."""
    waiting = [each for each in moves if Phase.WAITING in {each.before, each.after}]
    live = [each for each in moves if Phase.LIVE in {each.before, each.after}]
    projects = {each.project_id for each in moves}
    rows = usage_read(projects, waiting=bool(waiting), live=bool(live), lock=True)
    taken: dict[tuple[int, str], Decimal] = defaultdict(Decimal)
    for move in waiting:
        taken[move.project_id, PENDING] += 1 if move.after is Phase.WAITING else -1
    for move in live:
        taken[move.project_id, SESSIONS] += _sign(move)
    if any(row.name.startswith(RESOURCES) for row in rows):
        limited = {row.project_id for row in rows}
        for key, amount in _resources([m for m in live if m.project_id in limited]).items():
            taken[key] += amount
    guarded = {(each.project_id, each.after is Phase.WAITING) for each in moves if each.guarded}
    _move(rows, taken, guarded)


def _sign(move: Move) -> int:
    return 1 if move.after is Phase.LIVE else -1


_RESOURCES = """
    SELECT s.project_id, c.resources::text, c.cluster_size, sum(v.sign)
    FROM unnest(%s::uuid[], %s::int[]) AS v(id, sign)
    JOIN sessions_app_session s ON s.id = v.id
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    GROUP BY s.project_id, c.resources, c.cluster_size
"""


def _resources(moves: Sequence[Move]) -> dict[tuple[int, str], Decimal]:
    """Return what sessions take or give back of each resource, by project and name."""
    if not moves:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_RESOURCES, columns([(each.session_id, _sign(each)) for each in moves]))
        rows = cursor.fetchall()
    found: dict[tuple[int, str], Decimal] = defaultdict(Decimal)
    for project_id, resources, pods, count in rows:
        for name, amount in taken_by(resources, pods).items():
            if name != SESSIONS:
                found[project_id, name] += amount * count
    return found


@lru_cache(maxsize=1024)
def taken_by(resources: str, pods: int) -> Mapping[str, Decimal]:
    """Return what a live session takes; cached by the JSON text that many sessions share."""
    return running(json.loads(resources), pods)


# The statement that updates the counter checks the limit, whatever was read before. The counter
# stops at 0: sessions that were not counted must still be able to end.
_MOVE = """
    UPDATE sessions_app_projectusage u SET used = greatest(u.used + v.k, 0)
    FROM unnest(%s::bigint[], %s::numeric[], %s::boolean[]) AS v(id, k, guarded)
    WHERE u.id = v.id AND (NOT v.guarded OR u."limit" IS NULL OR u.used + v.k <= u."limit")
"""


def _move(
    rows: Sequence[Usage],
    taken: Mapping[tuple[int, str], Decimal],
    guarded: Collection[tuple[int, bool]],
) -> None:
    amounts: dict[int, Decimal] = defaultdict(Decimal)
    let_in: set[int] = set()
    for row in rows:
        amounts[row.id] += taken.get((row.project_id, row.name), ZERO)
        if (row.project_id, row.name == PENDING) in guarded:
            let_in.add(row.id)
    moved = [(row, k, k > 0 and row in let_in) for row, k in sorted(amounts.items()) if k]
    if not moved:
        return
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, columns(moved))
        if cursor.rowcount != len(moved):
            raise UsageFull


_WAITING = """
    SELECT count(*) FROM sessions_app_session s
    WHERE s.phase IN ('blocked', 'waiting') AND s.project_id = ANY(%s::bigint[])
"""
_LIVE = """
    SELECT c.resources::text, c.cluster_size, count(*)
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    WHERE s.phase = 'live' AND s.project_id = ANY(%s::bigint[])
    GROUP BY c.resources, c.cluster_size
"""


def usage_counted(project_ids: Collection[int], names: Collection[str]) -> dict[str, Decimal]:
    """Return what sessions of these projects hold together now, for each named quota."""
    found = dict.fromkeys(names, ZERO)
    projects = array(project_ids)
    with connection.cursor() as cursor:
        if PENDING in found:
            cursor.execute(_WAITING, [projects])
            found[PENDING] = Decimal(cursor.fetchone()[0])
        if set(found) == {PENDING}:
            return found
        cursor.execute(_LIVE, [projects])
        rows = cursor.fetchall()
    for resources, pods, count in rows:
        for name, amount in taken_by(resources, pods).items():
            if name in found:
                found[name] += amount * count
    return found
