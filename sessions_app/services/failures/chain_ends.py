"""The ends of chains in a stretch of the log, with all attempts that they had until then."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.engine.budgets import MANUAL_BUDGET
from sessions_app.core.cursors import Cursor
from sessions_app.core.retry_worth import Attempt
from sessions_app.core.states import ENDED_STATES
from sessions_app.db.bulk import array, columns
from sessions_app.eventlog.places import STRETCH, stretch_range
from sessions_app.selectors.ended_chains import ATTEMPT, JOINS

_STATES = array(state.value for state in ENDED_STATES)
_ENDS = f"""
    SELECT e.project_id, e.root_id, e.attempt, e.seq, e.data->>'retry_state',
        e.type NOT IN ('session.terminated', 'session.error', 'session.cancelled')
    FROM {STRETCH} e JOIN sessions_app_project p ON p.id = e.project_id
    WHERE e.data->>'retry_state' = ANY(%(states)s::text[])
    ORDER BY e.xid, e.id
"""
# Each with the place of its chain, and whether a person retried the chain before it.
_ATTEMPTS = f"""
    SELECT v.place, a.retry_counters ? '{MANUAL_BUDGET}', {ATTEMPT}
    FROM unnest(%s::int[], %s::uuid[], %s::int[]) AS v(place, root_id, last)
    JOIN sessions_app_session a ON a.root_id = v.root_id AND a.retry_count <= v.last
    {JOINS}
    ORDER BY v.place, a.retry_count
"""
# The same of chains without rows: `b` is the last event of the root, which has the ids of the
# chain, `r` that of the attempt, and `f` has the facts that its other events tell. An image that is
# null is that of the attempt before.
_ARCHIVED = """
    SELECT v.place, true, r.attempt, upper(substr(f.type, 9)), f.started_at,
        f.finished_at, coalesce(f.cause, ''), coalesce(f.rule, ''), coalesce(f.signature, ''),
        coalesce(r.data->'archive'->>'queue', ''), coalesce(u.username, ''),
        r.data->'archive'->'spec'->>'image', coalesce(f.node, ''), f.step, f.saved,
        coalesce(f.executor, '')
    FROM unnest(%s::int[], %s::uuid[], %s::int[]) AS v(place, root_id, last)
    JOIN sessions_app_sessionevent b ON b.session_id = v.root_id AND b.type = 'session.archived'
    CROSS JOIN LATERAL jsonb_array_elements_text(b.data->'archive'->'chain') AS chain(id)
    JOIN sessions_app_sessionevent r ON r.session_id = chain.id::uuid
        AND r.type = 'session.archived' AND r.attempt <= v.last
    LEFT JOIN auth_user u ON u.id = (r.data->'archive'->'session'->>'owner_id')::int
    CROSS JOIN LATERAL (
        SELECT max(l.type) FILTER (WHERE l.ended) AS type,
            max((l.data->>'started_at')::timestamptz) AS started_at,
            max((l.data->>'finished_at')::timestamptz) AS finished_at,
            max(l.data->>'retry_cause') FILTER (WHERE l.ended) AS cause,
            max(l.data->'decision'->>'rule') FILTER (WHERE l.ended) AS rule,
            max(l.data->>'failure_signature') FILTER (WHERE l.ended) AS signature,
            max(l.data->>'node') FILTER (WHERE l.ended) AS node,
            max((l.data->'progress'->>'step')::float8) FILTER (WHERE l.ended) AS step,
            max((l.data->'progress'->>'checkpoint_step')::float8) FILTER (WHERE l.ended) AS saved,
            (array_agg(l.data->>'executor' ORDER BY l.seq DESC)
                FILTER (WHERE l.data ? 'executor'))[1] AS executor
        FROM (SELECT *, type IN ('session.terminated', 'session.error', 'session.cancelled')
                AS ended
            FROM sessions_app_sessionevent WHERE session_id = r.session_id) AS l) AS f
    WHERE f.finished_at IS NOT NULL
    ORDER BY v.place, r.attempt
"""
# The end of the chain before the given one: it had ended, and somebody retried it.
_EARLIER = """
    SELECT DISTINCT ON (v.place) v.place, e.attempt, e.data->>'retry_state'
    FROM unnest(%s::int[], %s::uuid[], %s::int[], %s::int[]) AS v(place, root_id, attempt, seq)
    CROSS JOIN LATERAL (
        SELECT a.id FROM sessions_app_session a WHERE a.root_id = v.root_id
        UNION ALL
        SELECT chain.id::uuid FROM sessions_app_sessionevent b
        CROSS JOIN LATERAL jsonb_array_elements_text(b.data->'archive'->'chain') AS chain(id)
        WHERE b.session_id = v.root_id AND b.type = 'session.archived') AS a
    JOIN sessions_app_sessionevent e ON e.session_id = a.id
    WHERE e.data->>'retry_state' = ANY(%s::text[]) AND (e.attempt, e.seq) < (v.attempt, v.seq)
    ORDER BY v.place, e.attempt DESC, e.seq DESC
"""


class ChainEnd(NamedTuple):
    """The end of a chain: in which retry state, and all attempts until then, in order."""

    project_id: int
    state: str
    attempts: Sequence[Attempt]

    @property
    def day(self) -> date:
        """Return the day (UTC) on which the last attempt ended: on it the chain counts."""
        return self.attempts[-1].finished_at.astimezone(UTC).date()


class Ends(NamedTuple):
    """Chains that ended, and ends of before that these take the place of."""

    added: list[ChainEnd]
    replaced: list[tuple[ChainEnd, ChainEnd]]
    """Each with the end that takes its place."""


class _End(NamedTuple):
    project_id: int
    root_id: UUID
    attempt: int
    seq: int
    state: str
    again: bool
    """The attempt may have ended the chain before."""


class _Chain(NamedTuple):
    attempts: list[Attempt]
    by_hand: bool
    """A person may have retried it. No other chain goes on after its end."""


_Chains = dict[UUID, _Chain]


def chain_ends(place: Cursor, to: Cursor) -> Ends:
    """Read the ends of chains after `place` up to `to`, in one epoch; at most four statements."""
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {**stretch_range(place, to), "states": _STATES})
        ends = [_End._make(row) for row in cursor.fetchall()]
    if not ends:
        return Ends([], [])
    chains = _chains(ends)
    # The events of a chain that ended long ago may be deleted meanwhile.
    ends = [end for end in ends if end.root_id in chains]
    earlier = _earlier(ends, chains)
    found = Ends([], [])
    for at, end in enumerate(ends):
        attempts = chains[end.root_id].attempts
        ended = ChainEnd(end.project_id, end.state, _until(attempts, end.attempt))
        found.added.append(ended)
        if at in earlier:
            attempt, state = earlier[at]
            before = ChainEnd(end.project_id, state, _until(attempts, attempt))
            found.replaced.append((before, ended))
    return found


def _until(attempts: list[Attempt], last: int) -> list[Attempt]:
    return [attempt for attempt in attempts if attempt.number <= last]


def _chains(ends: Sequence[_End]) -> _Chains:
    """Return the chains, by root."""
    last: dict[UUID, int] = {}
    for end in ends:
        last[end.root_id] = max(end.attempt, last.get(end.root_id, 0))
    roots = sorted(last)
    asked = [(place, root, last[root]) for place, root in enumerate(roots)]
    with connection.cursor() as cursor:
        cursor.execute(_ATTEMPTS, columns(asked))
        found = _by_place(cursor.fetchall())
        archived = [each for each in asked if each[0] not in found]
        if archived:
            cursor.execute(_ARCHIVED, columns(archived))
            found |= _by_place(cursor.fetchall())
    return {roots[place]: chain for place, chain in found.items()}


def _by_place(rows: Iterable[tuple[Any, ...]]) -> dict[int, _Chain]:
    found: dict[int, _Chain] = {}
    for place, group in groupby(rows, key=itemgetter(0)):
        attempts, by_hand, image = [], False, ""
        for row in group:
            attempt = Attempt._make(row[2:])
            image = image if attempt.image is None else attempt.image
            by_hand |= row[1]
            attempts.append(attempt if attempt.image is image else attempt._replace(image=image))
        found[place] = _Chain(attempts, by_hand)
    return found


def _earlier(ends: Sequence[_End], chains: _Chains) -> dict[int, tuple[int, str]]:
    """Return the end before each end, by its place: the attempt and the state."""
    asked = [
        (at, end.root_id, end.attempt, end.seq)
        for at, end in enumerate(ends)
        if end.again or chains[end.root_id].by_hand
    ]
    if not asked:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_EARLIER, [*columns(asked), _STATES])
        return {at: (attempt, state) for at, attempt, state in cursor.fetchall()}
