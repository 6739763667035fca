"""Ended chains with all their attempts, for figures that no roll-up has.

What one call reads is bounded. A first statement looks at attempts of the wanted projects, along an
index by id, and at none of other projects. It adds up the chains that ended at once without a
failure: however many there are, they are few rows. A second one reads the attempts of all others.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from django.db import connection

from sessions_app.core.errors import TooLarge
from sessions_app.core.node_addresses import node_name
from sessions_app.core.retry_worth import Attempt, Dimension, Worth
from sessions_app.core.states import Status
from sessions_app.db.bulk import array
from sessions_app.selectors.past_chains import first_id

MOST = 100_000
"""Maximum number of attempts that are read, and of chains and values that are found."""
LOOKED_AT = 500_000
"""Maximum number of attempts made in the time of the report that are looked at."""
BEFORE = timedelta(days=30)
"""How much earlier an attempt was made, at most, by which a chain is found."""
LOOKED_BACK = 200_000
"""Maximum number of such earlier attempts that are looked at, the newest ones. There may be any
number, and asking for fewer days would not help, so more of them are no reason to refuse."""
_CLOCKS = timedelta(days=1)
"""Maximum time by which the clocks that made the ids may have differed from the database's."""

ATTEMPT = """
    a.retry_count, a.status, a.started_at, a.finished_at, a.retry_cause, coalesce(d.rule, ''),
    a.failure_signature, q.name, coalesce(u.username, ''), coalesce(c.image, ''), a.node,
    (a.progress->>'step')::float8, (a.progress->>'checkpoint_step')::float8, a.executor
"""
"""The fields of an `Attempt` in SQL, of a session `a` with `JOINS`."""
JOINS = """
    JOIN sessions_app_queue q ON q.id = a.queue_id
    LEFT JOIN sessions_app_sessionspec c ON c.id = a.spec_id
    LEFT JOIN auth_user u ON u.id = a.owner_id
    LEFT JOIN sessions_app_retrydecision d ON d.session_id = a.id
"""
_PROJECTS = "SELECT unnest(%(projects)s::bigint[]) AS id"
_QUEUES = """
    SELECT q.id FROM sessions_app_queue q WHERE q.project_id = ANY(%(projects)s::bigint[])
        AND (%(queue)s::text IS NULL OR q.name = %(queue)s)
"""
_OF_FAILURES = """
    s.project_id = p.id AND s.phase = 'final'
        AND NOT (s.retry_cause IN ('', 'user_cancelled'))
"""
_OF_SIGNATURE = """
    s.project_id = p.id AND s.failure_signature = %(signature)s AND NOT (s.failure_signature = '')
"""
_OF_OWNER = """
    s.project_id = p.id
        AND s.owner_id = (SELECT u.id FROM auth_user u WHERE u.username = %(owner)s)
"""
_OF_CAUSE = "s.project_id = p.id AND s.phase = 'final' AND s.retry_cause = %(cause)s"
_OF_NODE = "s.project_id = p.id AND s.node = %(node_name)s AND NOT (s.node = '')"
# What is looked at: the first of these that is a filter. Each has an index of its own by id.
_PLACES = {
    "signature": (_PROJECTS, _OF_SIGNATURE),
    "cause": (_PROJECTS, _OF_CAUSE),
    "rule": (_PROJECTS, _OF_FAILURES),
    "policy": (_PROJECTS, _OF_FAILURES),
    "node": (_PROJECTS, _OF_NODE),
    "owner": (_PROJECTS, _OF_OWNER),
    "": (_QUEUES, "s.queue_id = p.id"),
}
_WORDS = {
    "signature": "failures with the signature",
    "cause": "failures with the cause",
    "rule": "failed attempts",
    "policy": "failed attempts",
    "node": "attempts on the node",
    "owner": "attempts of the owner",
    "": "attempts of the queues",
}
_ENDED = "IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')"
_IN_TIME = f"resting {_ENDED} AND finished_at >= %(since)s AND finished_at < %(until)s"
# These are subqueries since most calls need none of them, and no call all.
_QUEUE = "(SELECT q.name FROM sessions_app_queue q WHERE q.id = a.queue_id)"
_OWNER = "(SELECT u.username FROM auth_user u WHERE u.id = a.owner_id)"
_IMAGE = "(SELECT c.image FROM sessions_app_sessionspec c WHERE c.id = a.spec_id)"
_RULE = "(SELECT d.rule FROM sessions_app_retrydecision d WHERE d.session_id = a.id)"
_NODE = "CASE WHEN a.executor = '' OR a.node = '' THEN a.node ELSE a.executor || '/' || a.node END"
# An argument that is null is no condition.
_HAS_ALL = f"""
    (%(queue)s::text IS NULL OR {_QUEUE} = %(queue)s)
    AND (%(owner)s::text IS NULL OR {_OWNER} = %(owner)s)
    AND (%(image)s::text IS NULL OR {_IMAGE} = %(image)s)
    AND (%(node)s::text IS NULL OR %(node)s IN (a.node, {_NODE}))
    AND (%(cause)s::text IS NULL OR a.status = 'ERROR' AND a.retry_cause = %(cause)s)
    AND (%(signature)s::text IS NULL
        OR a.status = 'ERROR' AND a.failure_signature = %(signature)s)
    AND (%(rule)s::text IS NULL OR a.status = 'ERROR' AND {_RULE} = %(rule)s)
    AND (%(policy)s::text IS NULL
        OR a.status = 'ERROR' AND starts_with({_RULE}, %(policy)s || '/'))
"""
_AT_ONCE = """
    a.retry_count = 0 AND a.resting IN ('succeeded', 'cancelled') AND NOT (a.status = 'ERROR')
"""
# Rows without anything are the attempts that were looked at in vain, those with a root are one of
# another chain, and all others are the chains that ended at once. `CASE` gives the order: what the
# row itself tells, what other rows of its own tell, and the newest attempt of the chain at last.
_LOOK = f"""
    WITH p AS MATERIALIZED ({{places}})
    SELECT found.root_id, found.day, found.value, found.status, count(*), sum(found.ran),
        count(*) FILTER (WHERE a.id >= %(begin)s)
    FROM (
        (SELECT f.* FROM p CROSS JOIN LATERAL (
            SELECT s.* FROM sessions_app_session s
            WHERE {{within}} AND s.id >= %(begin)s AND s.id < %(end)s
            ORDER BY s.id NULLS FIRST LIMIT %(looked_at)s + 1) f
        LIMIT %(looked_at)s + 1)
        UNION ALL
        (SELECT f.* FROM p CROSS JOIN LATERAL (
            SELECT s.* FROM sessions_app_session s
            WHERE {{within}} AND s.id >= %(before)s AND s.id < %(begin)s
            ORDER BY s.id DESC NULLS LAST
            LIMIT %(looked_back)s / (SELECT greatest(count(*), 1) FROM p)) f)
    ) AS a
    LEFT JOIN LATERAL (
        SELECT CASE WHEN NOT once THEN a.root_id END AS root_id,
            CASE WHEN once THEN (a.finished_at AT TIME ZONE 'UTC')::date::text END AS day,
            CASE WHEN once THEN CASE %(by)s::text WHEN 'queue' THEN {_QUEUE}
                WHEN 'owner' THEN {_OWNER} WHEN 'image' THEN {_IMAGE} WHEN 'node' THEN {_NODE}
                END END AS value,
            CASE WHEN once THEN a.status END AS status,
            CASE WHEN once THEN
                greatest(extract(epoch FROM a.finished_at - a.started_at), 0)::float8 END AS ran
        FROM (SELECT {_AT_ONCE} AS once OFFSET 0) AS chain
        WHERE CASE WHEN a.finished_at IS NULL OR a.finished_at >= %(until)s THEN false
            WHEN a.resting {_ENDED} AND a.finished_at < %(since)s THEN false
            WHEN ({_HAS_ALL}) IS NOT TRUE THEN false
            WHEN a.resting {_ENDED} THEN true
            ELSE (SELECT {_IN_TIME} FROM sessions_app_session
                WHERE root_id = a.root_id ORDER BY retry_count DESC LIMIT 1) END
    ) AS found ON true
    GROUP BY 1, 2, 3, 4 LIMIT %(most)s + 2
"""
_LOOKS = {
    name: _LOOK.format(places=places, within=within) for name, (places, within) in _PLACES.items()
}
_ATTEMPTS = f"""
    SELECT r.id, e.retry_state, {ATTEMPT} FROM unnest((SELECT %(roots)s::uuid[])::uuid[]) AS r(id)
    CROSS JOIN LATERAL (
        SELECT retry_state, {_IN_TIME} AS ended FROM sessions_app_session
        WHERE root_id = r.id ORDER BY retry_count DESC LIMIT 1) AS e
    JOIN sessions_app_session a ON a.root_id = r.id {JOINS}
    WHERE e.ended ORDER BY r.id, a.retry_count LIMIT %(most)s + 1
"""


class Ended(NamedTuple):
    """An ended chain: its retry state, and all its attempts in order."""

    state: str
    attempts: Sequence[Attempt]


class AtOnce(NamedTuple):
    """Chains of one attempt that did not fail, and that ended on the same day (UTC) with one value.

    `value` is that by which the report is, if they have one.
    """

    day: str
    value: str | None
    status: str
    chains: int
    ran: float
    """The run time of all of them in seconds."""

    @property
    def worth(self) -> Worth:
        """Return their figures."""
        cancelled = self.chains if self.status == Status.CANCELLED else 0
        return Worth(self.chains, cancelled=cancelled, attempts=self.chains, run=self.ran)


class Wanted(NamedTuple):
    """The chains that are asked for: their last attempt ended from one day to before another.

    An attempt of each has all values of `having`.
    """

    projects: Sequence[int]
    since: date
    until: date
    having: Mapping[Dimension, str]
    by: str
    """The dimension by which `AtOnce` are told apart, or `day`."""


def ended_chains(wanted: Wanted) -> tuple[Sequence[AtOnce], Iterator[Ended]]:
    """Return the chains that ended at once without a failure, and all others.

    Two statements. Raises `TooLarge`.
    """
    asked = _asked(wanted)
    place = next((name for name in _PLACES if name in wanted.having), "")
    with connection.cursor() as cursor:
        cursor.execute(_LOOKS[place], asked)
        rows = cursor.fetchall()
        found = [row for row in rows if row[0] is not None or row[1] is not None]
        if len(found) > MOST:
            raise _refusal(wanted, f"more than {MOST:,} chains or values are in it")
        if sum(row[6] for row in rows) > LOOKED_AT:
            raise _refusal(
                wanted, f"more than {LOOKED_AT:,} {_WORDS[place]} were made in this time"
            )
        roots = array(row[0] for row in found if row[0] is not None)
        cursor.execute(_ATTEMPTS, {**asked, "roots": roots})
        attempts = cursor.fetchall()
    if len(attempts) > MOST:
        raise _refusal(wanted, f"more than {MOST:,} attempts are in it")
    return [AtOnce._make(row[1:6]) for row in found if row[0] is None], _chains(attempts)


def _asked(wanted: Wanted) -> dict[str, Any]:
    """Return the arguments of the statements."""
    since, until = (datetime.combine(day, time(), UTC) for day in (wanted.since, wanted.until))
    return {
        **{each.value: wanted.having.get(each) for each in Dimension if each},
        "node_name": node_name(wanted.having.get(Dimension.NODE, "")),
        "projects": array(wanted.projects),
        "since": since,
        "until": until,
        "before": first_id(since - BEFORE),
        "begin": first_id(since - _CLOCKS),
        "end": first_id(until + _CLOCKS),
        "by": wanted.by,
        "most": MOST,
        "looked_at": LOOKED_AT,
        "looked_back": LOOKED_BACK,
    }


def _chains(rows: Sequence[tuple[Any, ...]]) -> Iterator[Ended]:
    for (_, state), chain in groupby(rows, key=lambda row: row[:2]):
        yield Ended(state, [Attempt._make(row[2:]) for row in chain])


def _refusal(wanted: Wanted, why: str) -> TooLarge:
    """Return the refusal of a report that reads too much: its filters, why, and what helps."""
    names = list(wanted.having)
    ways = ["fewer days"]
    if len(wanted.projects) > 1:
        ways.append("one project")
    if not {"signature", "cause"} & set(names):
        ways.append("one cause, too")
    ways.append("one filter alone, by it or by day" if names[1:] else f"it by {names[0]} or by day")
    return TooLarge(
        f"a report by {wanted.by} with the {'filters' if names[1:] else 'filter'} "
        f"{' and '.join(names)} is read from the sessions, and {why}: "
        f"ask for {', for '.join(ways[:-1])}, or for {ways[-1]}"
    )
