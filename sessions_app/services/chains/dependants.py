"""Dependants: chains begin, or are cancelled, once those that they wait for have ended.

The end of a chain writes nothing here. After its commit a hint leads to this step, and a sweep
finds what hints have missed. What a dependant has seen of another chain stays as it was seen.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.evidence.causes import DEPENDENCY_FAILED
from retry.evidence.termination import Termination
from sessions_app import wakeups
from sessions_app.core.dependencies import (
    OUTCOMES,
    Parent,
    parent_forgotten,
    parent_logged,
    refused_with,
)
from sessions_app.core.states import Phase, Status
from sessions_app.db.bulk import FEW_IDS, SentRows, array
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.eventlog.archived import archived_tips
from sessions_app.locks import (
    LockedSession,
    claim_dependants,
    claim_further,
    database_now,
    lock_sessions,
)
from sessions_app.services.chains.settle import End, settle_locked
from sessions_app.services.write.transitions import Change, Event, sessions_change

BATCH = 500
LOOKED_AT = 10_000
"""Most chains that one sweep looks at; the next one goes on after them."""
MOST_SLICES = 40
"""Most slices of one call; another one goes on."""
_NAMED = 3
"""Most dependencies that the message of a cancelled session names."""


class Released(NamedTuple):
    """The numbers of dependants that were looked at and that begin now, and the roots of those
    that were cancelled."""

    claimed: int
    released: int = 0
    cancelled: Sequence[UUID] = ()


_OUTCOME = " ".join(f"WHEN '{state}' THEN '{outcome}'" for state, outcome in OUTCOMES.items())
_ENDED = ", ".join(f"'{state}'" for state in OUTCOMES)
# Each session is looked up by its root: no plan may read all that have ended, or all that wait.
_SEE = f"""
    WITH open AS MATERIALIZED (
        SELECT id, on_root FROM sessions_app_dependency
        WHERE root_id = ANY({FEW_IDS}) AND outcome = ''
    ), ended AS MATERIALIZED (
        SELECT o.id, t.id AS tip_id, t.status, t.exit_code,
            CASE t.resting {_OUTCOME} END AS outcome
        FROM open o CROSS JOIN LATERAL (
            SELECT id, status, exit_code, resting FROM sessions_app_session
            WHERE root_id = o.on_root AND tip OFFSET 0) t
        WHERE t.resting IN ({_ENDED})
    )
    UPDATE sessions_app_dependency d SET
        outcome = e.outcome, met = d.wanted IN ('ended', e.outcome),
        tip_id = e.tip_id, status = e.status, exit_code = e.exit_code
    FROM ended e WHERE d.id = e.id
"""
_JUDGE = """
    SELECT t.id, e.root, p.on_dependency_failure, p.queue_timeout, d.unseen, d.unmet
    FROM unnest(%s::uuid[]) AS e(root) CROSS JOIN LATERAL (
        SELECT id, spec_id, phase FROM sessions_app_session
        WHERE root_id = e.root AND tip OFFSET 0) t
    JOIN sessions_app_sessionspec p ON p.id = t.spec_id CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE outcome = '') AS unseen, array_agg(
            CASE creation_id WHEN on_root::text THEN tip_id::text ELSE creation_id END
                || ' (' || outcome || ')' ORDER BY place) FILTER (WHERE NOT met) AS unmet
        FROM sessions_app_dependency WHERE root_id = e.root) d
    WHERE t.phase = 'blocked'
"""
# What chains still wait for, if they are cancelled as soon as one of these is.
_NEEDED = """
    SELECT e.root, t.id, array_agg(d.on_root)
    FROM unnest(%s::uuid[]) AS e(root) CROSS JOIN LATERAL (
        SELECT id, spec_id FROM sessions_app_session
        WHERE root_id = e.root AND tip AND phase = 'blocked' OFFSET 0) t
    JOIN sessions_app_sessionspec p ON p.id = t.spec_id AND p.on_dependency_failure = 'cancel'
    JOIN sessions_app_dependency d ON d.root_id = e.root
        AND d.outcome = '' AND d.wanted <> 'ended'
    GROUP BY e.root, t.id
"""
_SEEN = SentRows[[Parent]](
    ("root_id", "uuid", lambda parent: parent.root_id),
    ("outcome", "text", lambda parent: parent.outcome),
    ("tip_id", "uuid", lambda parent: parent.tip_id),
    ("status", "text", lambda parent: parent.status),
    ("exit_code", "int", lambda parent: parent.exit_code),
)
_SEE_GIVEN = f"""
    UPDATE sessions_app_dependency d SET outcome = v.outcome,
        met = d.wanted IN ('ended', v.outcome),
        tip_id = v.tip_id, status = v.status, exit_code = v.exit_code
    FROM {_SEEN}
    WHERE d.root_id = ANY(%s::uuid[]) AND d.outcome = '' AND d.on_root = v.root_id
"""


def dependants_release(
    on_roots: Sequence[UUID], logged: Sequence[Parent] = (), limit: int = BATCH
) -> Released:
    """Release or cancel at most `limit` dependants of chains that may have ended.

    With those that are cancelled go the ones further down, as many as there is room for. One
    transaction and a fixed number of statements. `logged` are those of the chains that have no
    rows any more. Dependants that another transaction holds are left to the next run.
    """
    with atomic_step("dependants") as writes:
        claimed = claim_dependants(on_roots, limit)
        if not claimed:
            return Released(0)
        with connection.cursor() as cursor:
            cursor.execute(_SEE, [array(claimed)])
        _see(logged, claimed)
        return dependants_judge(writes, claimed, further=limit - len(claimed))


def _see(parents: Collection[Parent], root_ids: Sequence[UUID]) -> None:
    """Let the chains with these roots see the outcomes of chains that are not read from rows."""
    if parents:
        with connection.cursor() as cursor:
            cursor.execute(_SEE_GIVEN, [*_SEEN.arrays(parents), array(root_ids)])


class _Verdict(NamedTuple):
    """A blocked session, the number of open dependencies, and those that were not met."""

    id: UUID
    root_id: UUID
    on_failure: str
    queue_timeout: float | None
    left: int
    unmet: list[str] | None

    @property
    def fails(self) -> bool:
        return bool(self.unmet) and self.on_failure == "cancel"


def dependants_judge(writes: Writes, root_ids: Sequence[UUID], *, further: int = 0) -> Released:
    """Release or cancel blocked chains by what they have seen; the caller holds their roots.

    `further` is the most chains that are locked and judged with them, since they wait for the ones
    that are cancelled.
    """
    verdicts = _verdicts(root_ids)
    if further and (failing := {e.root_id: e.id for e in verdicts if e.fails}):
        down = _fall(failing, further)
        known = {each.id: each for each in [*verdicts, *_verdicts(down)]}
        verdicts = list(known.values())
    decided = {each.id: each for each in verdicts if each.fails or not each.left}
    if not decided:
        return Released(len(root_ids))
    sessions = lock_sessions(list(decided))
    now = database_now()
    failed = [each for each in sessions if decided[each.id].fails]
    ready = [each for each in sessions if not decided[each.id].fails]
    settle_locked(writes, [(each, _end(decided[each.id])) for each in failed], now=now)
    _begin(writes, [(each, decided[each.id].queue_timeout) for each in ready], now)
    return Released(len(root_ids), len(ready), [each.root_id for each in failed])


def _verdicts(root_ids: Sequence[UUID]) -> list[_Verdict]:
    if not root_ids:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_JUDGE, [array(root_ids)])
        return [_Verdict(*row) for row in cursor.fetchall()]


def _fall(failing: Mapping[UUID, UUID], most: int) -> list[UUID]:
    """Let chains further down see at once that these ones are cancelled, level by level.

    `failing` are the newest attempts by root. Return the roots of those that may have seen it.
    """
    down = claim_further([*failing], most)
    if not down:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_NEEDED, [array(down)])
        rows = cursor.fetchall()
    fallen = refused_with({root: needed for root, _, needed in rows}, failing)
    tips = {root: tip for root, tip, _ in rows if root in fallen} | {**failing}
    status = Status.CANCELLED.value
    _see([Parent(root, "", "", "cancelled", tip, status) for root, tip in tips.items()], down)
    return down


def _begin(
    writes: Writes, sessions: Sequence[tuple[LockedSession, float | None]], now: datetime
) -> None:
    """Let sessions stand in their lines, each with its `queue_timeout` from now on."""
    if not sessions:
        return
    event = Event("session.released", {"reason": "its dependencies have ended"})
    changes = []
    for session, timeout in sessions:
        values: dict[str, Any] = {"phase": Phase.WAITING.value}
        if timeout is not None:
            values["wait_deadline"] = now + timedelta(seconds=timeout)
        changes.append(Change(session, values, [event]))
    sessions_change(writes, changes, now=now)
    wakeups.work_after_commit()


def _end(verdict: _Verdict) -> End:
    unmet = verdict.unmet or []
    more = f" and {len(unmet) - _NAMED} more" if len(unmet) > _NAMED else ""
    message = f"a dependency cannot be met any more: {', '.join(unmet[:_NAMED])}{more}"
    termination = Termination(status="cancelled", conditions=(DEPENDENCY_FAILED,))
    return End(termination, message=message)


# Each step of the recursion is one probe of the index of open dependencies.
_OPEN = f"""
    WITH RECURSIVE open(root, number) AS (
        (SELECT on_root, 1 FROM sessions_app_dependency
            WHERE outcome = '' AND on_root > %(after)s::uuid ORDER BY on_root LIMIT 1)
        UNION ALL
        SELECT (SELECT on_root FROM sessions_app_dependency
            WHERE outcome = '' AND on_root > o.root ORDER BY on_root LIMIT 1), o.number + 1
        FROM open o WHERE o.root IS NOT NULL AND o.number < %(most)s
    )
    SELECT o.root, EXISTS (SELECT FROM sessions_app_session r WHERE r.id = o.root),
        EXISTS (SELECT FROM sessions_app_session t WHERE t.root_id = o.root AND t.tip
            AND t.resting IN ({_ENDED}))
    FROM open o WHERE o.root IS NOT NULL ORDER BY o.root
"""


class Missed(NamedTuple):
    """Chains that have ended and that dependants still wait for.

    `logged` are those without rows. `after` is where to go on; None: these were the last ones.
    """

    ended: list[UUID]
    logged: list[Parent]
    after: UUID | None


def ends_missed(after: UUID | None, most: int = LOOKED_AT) -> Missed:
    """Look at chains that others wait for, after an id, and return those that have ended."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, {"after": after or UUID(int=0), "most": most})
        rows = cursor.fetchall()
    gone = [root for root, is_row, _ in rows if not is_row]
    tips = archived_tips(gone) if gone else {}
    logged = [
        parent_logged(root, tips[root].session_id, tips[root].data)
        if root in tips
        else parent_forgotten(root)
        for root in gone
    ]
    ended = [root for root, is_row, over in rows if over or not is_row]
    return Missed(ended, logged, rows[-1][0] if len(rows) == most else None)


def dependants_follow(on_roots: Sequence[UUID], logged: Sequence[Parent] = ()) -> int:
    """Release or cancel all dependants of chains that have ended, slice by slice.

    Those that are cancelled have ended, too: the next slices are what waits for them. What is left
    after `MOST_SLICES` gets another run. Return the number of dependants that begin or were
    cancelled.
    """
    # A hint may be late: a chain that was retried meanwhile has no outcome to be seen.
    front = [*_left(on_roots), *(each.root_id for each in logged)]
    if not front:
        return 0
    done, looked_at = 0, {*front}
    ended: list[UUID] = []
    for _ in range(MOST_SLICES):
        step = dependants_release(front, logged, BATCH)
        done += step.released + len(step.cancelled)
        ended += step.cancelled
        if step.claimed == BATCH:
            continue
        if not ended:
            break
        front, logged = ended, ()
        looked_at.update(ended)
        ended = []
    looked_at.update(ended)
    if left := _left(looked_at):
        wakeups.dependants_now(left)
    return done


_LEFT = f"""
    SELECT e.root FROM unnest(%s::uuid[]) AS e(root)
    CROSS JOIN LATERAL (
        SELECT FROM sessions_app_dependency WHERE on_root = e.root AND outcome = '' LIMIT 1) d
    CROSS JOIN LATERAL (
        SELECT resting FROM sessions_app_session WHERE root_id = e.root AND tip OFFSET 0) t
    WHERE t.resting IN ({_ENDED})
"""


def _left(on_roots: Collection[UUID]) -> list[UUID]:
    """Return the ended chains that still have dependants: more than one run takes, or some that
    are held now."""
    with connection.cursor() as cursor:
        cursor.execute(_LEFT, [array(on_roots)])
        return [row[0] for row in cursor.fetchall()]


_reached: list[UUID | None] = [None]
"""Where the next sweep of this process begins."""


def dependants_sweep() -> int:
    """Do what hints have missed, for at most `LOOKED_AT` chains. Return the number of dependants.

    One statement if there is nothing to do.
    """
    missed = ends_missed(_reached[0])
    _reached[0] = missed.after
    return dependants_follow(missed.ended, missed.logged) if missed.ended else 0
