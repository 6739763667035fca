"""Row locks on executors and on the sessions that they are to get."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import OperationalError, connection
from django.db.models import JSONField
from django.db.models.expressions import RawSQL

from scheduler.models import Executor, Node, with_nodes_out
from sessions_app.db.bulk import array, columns
from sessions_app.locks import SESSION_COLUMNS, AdvisoryLock, LockedSession, locked_session


class HeldLease(NamedTuple):
    """A lease that counts, with the state of its session."""

    session_id: UUID
    fencing_token: int
    accepted: bool
    lost_at: datetime | None
    cancelled: bool
    """Whether somebody asked for the end of its chain."""
    preempted: bool
    """Whether an operator asked for the end of its run."""
    start_failed: bool


_EXECUTORS = Executor.objects.select_for_update(of=("self",), no_key=True)


def lock_executor(name: str) -> Executor | None:
    """Lock an executor's row, so that its lease rounds run one after the other."""
    return _EXECUTORS.filter(name=name).first()


# In the statement of the lock, so that it costs a round nothing; only a round writes them.
_RESERVED = RawSQL(
    "SELECT coalesce(jsonb_object_agg(r.session_id, r.nodes), '{}') FROM scheduler_reservation r"
    " WHERE r.executor_id = scheduler_executor.id",
    [],
    output_field=JSONField(),
)


def lock_executor_for_round(name: str) -> Executor | None:
    """Lock an executor's row as `lock_executor` does; read its reservations and nodes out, too."""
    found = with_nodes_out(_EXECUTORS.filter(name=name))
    return found.annotate(reserved=_RESERVED).first()  # type: ignore[no-redef]  # its own field


_LEASES = """
    SELECT l.session_id, l.fencing_token, l.accepted, l.lost_at, r.cancel_requested_at IS NOT NULL,
        s.preempt_requested_at IS NOT NULL, s.start_failure IS NOT NULL
    FROM scheduler_lease l JOIN sessions_app_session s ON s.id = l.session_id
    JOIN sessions_app_session r ON r.id = s.root_id
    WHERE l.executor_id = %s AND s.fencing_token = l.fencing_token AND s.phase = 'live'
"""


def leases_of(executor_id: int) -> list[HeldLease]:
    """Return the leases of an executor that count."""
    with connection.cursor() as cursor:
        cursor.execute(_LEASES, [executor_id])
        return [HeldLease._make(row) for row in cursor.fetchall()]


# The best step and the newest checkpoint stay if the newest line is without. A lease that somebody
# else has locked is about to end, and its end tells all.
_NOTE_PROGRESS = """
    UPDATE scheduler_lease l
    SET progress = coalesce(l.progress, '{}') || v.told::jsonb || jsonb_build_object(
        'at', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'),
        'best', greatest(
            (l.progress ->> 'best')::float8, (v.told::jsonb ->> 'best')::float8))
    FROM (
        SELECT f.session_id, t.told
        FROM unnest(%s::uuid[], %s::bigint[], %s::text[]) AS t(session_id, fencing_token, told)
        JOIN scheduler_lease f USING (session_id, fencing_token)
        JOIN scheduler_executor e ON e.id = f.executor_id
        WHERE e.name = %s FOR NO KEY UPDATE OF f SKIP LOCKED
    ) v
    WHERE l.session_id = v.session_id
"""


def note_progress(executor: str, told: Sequence[tuple[UUID, int, str]]) -> None:
    """Lock the leases (session, token) of an executor and store the progress (JSON) beside them.

    What does not belong to a lease of this executor is left out.
    """
    if told:
        ids, tokens, texts = columns(told)
        with connection.cursor() as cursor:
            cursor.execute(_NOTE_PROGRESS, [ids, tokens, texts, executor])


_TOKENS = """
    SELECT nextval('scheduler_fencing_token'), clock_timestamp() FROM generate_series(1, %s)
    WHERE (SELECT reprise_server_known())
"""


def next_fencing_tokens(count: int) -> tuple[list[int], datetime]:
    """Return fresh fencing tokens, ascending, with the clock of the database. `count` is above 0.

    No token is ever returned twice. Raises `OperationalError` while the database is on an unknown
    server: the previous server may have given out the same tokens. The connection is then checked
    again before it is used.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TOKENS, [count])
        rows = cursor.fetchall()
    if not rows:
        connection.connect_anew()  # type: ignore[attr-defined]  # of our own backend
        raise OperationalError("the database is on another server than before; try again")
    return [token for token, _ in rows], rows[-1][1]


_SCANS = "SELECT " + ", ".join(
    f"set_config('enable_{kind}', %(on)s, true)" for kind in ("seqscan", "bitmapscan", "sort")
)


@contextmanager
def waiting_lines_by_index() -> Iterator[None]:
    """Make PostgreSQL read waiting lines only along their index, in its order.

    The planner sees the count wanted of a line as a column and assumes a tenth of the line: of a
    million sessions it would rather sort all than take the first few from the index.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SCANS, {"on": "off"})
    yield
    with connection.cursor() as cursor:
        cursor.execute(_SCANS, {"on": "on"})


# Each line is a probe of the index, so the number of sessions behind does not matter.
_CLAIM_WAITING_SESSIONS = f"""
    SELECT w.number, {SESSION_COLUMNS}
    FROM unnest(%(queues)s::bigint[], %(keys)s::bigint[], %(counts)s::int[])
        WITH ORDINALITY AS w(queue_id, key, count, number)
    CROSS JOIN LATERAL (
        SELECT l.* FROM sessions_app_session l
        WHERE l.phase = 'waiting' AND l.queue_id = w.queue_id AND l.scheduling_key = w.key
            AND l.id <> ALL(%(passed)s::uuid[])
        ORDER BY l.priority DESC, l.root_submitted_at, l.root_id LIMIT w.count
        FOR NO KEY UPDATE SKIP LOCKED
    ) s
    JOIN sessions_app_session r ON r.id = s.root_id
    ORDER BY w.number, s.priority DESC, s.root_submitted_at, s.root_id
"""


def claim_waiting_sessions(
    wanted: Sequence[tuple[int, int, int]], *, passed: Sequence[UUID]
) -> list[list[LockedSession]]:
    """Lock the first waiting sessions of lines, given as (queue, scheduling key, count).

    Return the sessions of each line in their order; fewer if no more are unlocked. `passed` are
    sessions that the caller has locked before.
    """
    found: list[list[LockedSession]] = [[] for _ in wanted]
    queues, keys, counts = columns(wanted)
    with connection.cursor() as cursor:
        cursor.execute(
            _CLAIM_WAITING_SESSIONS,
            {"queues": queues, "keys": keys, "counts": counts, "passed": array(passed)},
        )
        for number, *row in cursor.fetchall():
            found[number - 1].append(locked_session(row))
    return found


_CLAIM_QUEUES = """
    SELECT id FROM sessions_app_queue WHERE id = ANY(%s::bigint[])
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
"""


def claim_queues(queue_ids: Collection[int]) -> set[int]:
    """Lock queues before their limits are read. Return those that nobody else has locked."""
    if not queue_ids:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_QUEUES, [array(sorted(queue_ids))])
        return {row[0] for row in cursor.fetchall()}


# Those of an executor that is silent are not looked at by any round.
_CLAIM_RESERVATIONS_OVER = """
    SELECT r.id FROM scheduler_reservation r WHERE NOT EXISTS (
        SELECT FROM sessions_app_session s WHERE s.id = r.session_id AND s.phase = 'waiting')
    FOR UPDATE OF r SKIP LOCKED
"""


def claim_reservations_over() -> list[int]:
    """Lock the reservations of sessions that wait no longer, but for those in use by a round."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_RESERVATIONS_OVER)
        return [row[0] for row in cursor.fetchall()]


_CLAIM_WITHOUT_KEY = """
    SELECT id FROM sessions_app_session
    WHERE phase = 'waiting' AND scheduling_key IS NULL
    ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""


def claim_without_key(limit: int) -> list[UUID]:
    """Lock at most `limit` waiting sessions that have no scheduling key yet."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM_WITHOUT_KEY, [limit])
        return [row[0] for row in cursor.fetchall()]


def lock_nodes() -> None:
    """Lock the figures of nodes until this transaction ends.

    One lock for all: whoever counts a stretch of the log moves the position behind it, and whoever
    suspects a node counts those of its executor that are out.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [AdvisoryLock.NODES])


def lock_node(executor_id: int, name: str) -> Node | None:
    """Lock the row of a node before a person changes it; None if it has none."""
    rows = Node.objects.select_for_update(of=("self",), no_key=True)
    return rows.filter(executor=executor_id, name=name).first()


def lock_node_rows(nodes: Collection[int]) -> list[Node]:
    """Lock the rows of nodes before a person changes them, after the figures: their sweep writes
    many rows, too."""
    lock_nodes()
    rows = Node.objects.select_for_update(of=("self",), no_key=True).select_related("executor")
    return list(rows.filter(pk__in=nodes).order_by("address"))


def try_lock(lock: AdvisoryLock) -> bool:
    """Take an advisory lock until the transaction ends. Return False if somebody else has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [lock])
        return bool(cursor.fetchone()[0])
