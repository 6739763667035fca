"""The tail of the log, read once for all readers of a process.

While anybody listens, one query every `PERIOD` fetches the events that became visible since the
last one, for the sessions and job sets that have readers, on a connection of its own. Transaction
ids divide the log without gaps: the events between the oldest open transaction of the last query
and that of this one are new, and all of them are here.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from reprise.front.server_sent import TailEvent
from reprise.postgresql.direct import lasting
from sessions_app.eventlog.reading import ADDRESS, COLUMNS, LoggedEvent, logged

logger = logging.getLogger(__name__)

PERIOD = 0.1
"""Seconds between queries."""
SLICE = 5_000
"""Maximum number of events of the whole log that one query passes over."""
BACKLOG = 5_000
"""Maximum number of events that wait for one reader; a slower reader goes back to the table."""
RECONNECT_SECONDS = 1.0

Key = UUID | tuple[int, str]
"""A session, or a project's job set, that a reader listens to."""
Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]


class _Place(NamedTuple):
    """The position up to which the log was passed on: all below `xid`, and of it up to `id`."""

    epoch: int
    xid: int
    id: int


class Subscription:
    """The subscription of one reader to the tail."""

    def __init__(self, key: Key):
        self.key = key
        self.joined = False
        """Whether all events that are not in the table by now will arrive here."""
        self.lapsed = False
        """Whether waiting events were dropped: too many came, or the log was set back."""
        self.news = asyncio.Event()
        self._waiting: deque[TailEvent] = deque()

    def put(self, events: Sequence[TailEvent]) -> None:
        """Add events that wait for the reader."""
        if self.lapsed:
            return
        if len(self._waiting) + len(events) > BACKLOG:
            self.lapse()
            return
        self._waiting.extend(events)
        self.news.set()

    def lapse(self) -> None:
        """Drop what waits, and send the reader back to the table."""
        self.lapsed = True
        self._waiting.clear()
        self.news.set()

    def take(self) -> list[TailEvent]:
        """Return all waiting events, in order."""
        self.news.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


# `fresh` is limited before anything else, so that each query is short in any case.
_LOOK = f"""
    WITH moment AS MATERIALIZED (
        SELECT reprise_epoch() AS epoch, pg_snapshot_xmin(pg_current_snapshot()) AS xmin),
    fresh AS MATERIALIZED (
        SELECT * FROM sessions_app_sessionevent
        WHERE epoch = (SELECT epoch FROM moment) AND xid >= %(xid)s::xid8
            AND (xid, id) > (%(xid)s::xid8, %(id)s) AND xid < (SELECT xmin FROM moment)
        ORDER BY xid, id LIMIT %(limit)s),
    wanted AS (
        SELECT * FROM fresh e WHERE e.session_id = ANY(%(sessions)s::uuid[])
            OR (e.project_id, e.job_set) IN (
                SELECT * FROM unnest(%(projects)s::bigint[], %(job_sets)s::text[]))),
    reached AS (SELECT count(*) AS passed, max(xid::text::numeric) AS xid FROM fresh)
    SELECT m.epoch, m.xmin::text, r.passed, r.xid::text, (
            SELECT max(id) FROM fresh WHERE xid = r.xid::text::xid8), told.*
    FROM moment m CROSS JOIN reached r LEFT JOIN (
        SELECT {COLUMNS} FROM wanted e {ADDRESS}) AS told ON true
    ORDER BY told.xid::numeric, told.id
"""
_HERE = "SELECT reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot())::text"


class Tail:
    """Passes new events to the subscribers of an event loop; reads nothing without any."""

    def __init__(self) -> None:
        self._subscriptions: dict[Key, set[Subscription]] = defaultdict(set)
        self._place: _Place | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def subscribe(self, key: Key) -> Subscription:
        """Return a new subscription; no event arrives before it has `joined`."""
        made = Subscription(key)
        self._subscriptions[key].add(made)
        if self.closing:
            made.lapse()
        elif self._task is None or self._task.done():
            self._place = None
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._run())
        return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove the subscription of a reader that has gone."""
        members = self._subscriptions[subscription.key]
        members.discard(subscription)
        if not members:
            del self._subscriptions[subscription.key]

    def close(self) -> None:
        """Stop reading, and wake every reader."""
        self.closing = True
        if self._task is not None:
            self._task.cancel()
            # A cancelled task keeps its frames, and so a connection that was being made.
            self._task = None
        for subscription in self._all():
            subscription.lapse()

    def close_soon(self) -> None:
        """Do what `close` does, from another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)
        else:
            self.closing = True

    def _all(self) -> list[Subscription]:
        return [each for members in self._subscriptions.values() for each in members]

    async def _run(self) -> None:
        """Read while anybody listens; reconnect after a lost connection."""
        while self._subscriptions:
            try:
                connection = await Connection.connect(**lasting("reprise tail"), autocommit=True)
                async with connection:
                    await connection.execute("SET TIME ZONE 'UTC'")
                    await self._follow(connection)
            except (psycopg.Error, OSError) as error:
                logger.info("lost the connection that reads the event log: %s", error)
                self._begin_anew()
                await asyncio.sleep(RECONNECT_SECONDS)

    def _begin_anew(self) -> None:
        """Send all readers back to the table, and forget the position in the log.

        A crashed server gives out again the ids of transactions that left no trace, so our position
        may lie ahead of the new log. Events that readers have seen were committed, so their ids
        stay valid.
        """
        self._place = None
        for subscription in self._all():
            subscription.lapse()

    async def _follow(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        while self._subscriptions:
            began = loop.time()
            passed = await self._look(connection)
            if passed < SLICE:
                await asyncio.sleep(max(0.0, began + PERIOD - loop.time()))

    async def _look(self, connection: Connection) -> int:
        """Pass on new events. Return how many events of the whole log were passed over."""
        if self._place is None:
            here = await (await connection.execute(_HERE)).fetchone() or (0, "0")
            self._place = _Place(here[0], int(here[1]), 0)
        place, listening = self._place, self._all()
        for subscription in listening:
            if not subscription.joined:
                subscription.joined = True
                subscription.news.set()
        found = await connection.execute(_LOOK, self._wanted(place))
        rows = await found.fetchall()
        epoch, xmin, passed, last_xid, last_id, *_ = rows[0]
        if epoch != place.epoch:
            self._place = _Place(epoch, int(xmin), 0)
            for subscription in listening:
                subscription.lapse()
            return 0
        if passed < SLICE:
            self._place = _Place(epoch, int(xmin), 0)
        else:
            self._place = _Place(epoch, int(last_xid), last_id)
        self._deliver([logged(row[5:]) for row in rows if row[7] is not None], set(listening))
        return int(passed)

    def _wanted(self, place: _Place) -> dict[str, Any]:
        job_sets = [key for key in self._subscriptions if isinstance(key, tuple)]
        return {
            "xid": str(place.xid),
            "id": place.id,
            "limit": SLICE,
            "sessions": [key for key in self._subscriptions if isinstance(key, UUID)],
            "projects": [project for project, _ in job_sets],
            "job_sets": [name for _, name in job_sets],
        }

    def _deliver(self, events: list[LoggedEvent], listening: set[Subscription]) -> None:
        """Pass events to the subscriptions that existed when the query began."""
        by_key: dict[Key, list[TailEvent]] = defaultdict(list)
        for event in events:
            item = TailEvent(event)
            for key in (event.session_id, (event.project_id, event.job_set)):
                if key in self._subscriptions:
                    by_key[key].append(item)
        for key, news in by_key.items():
            for subscription in self._subscriptions.get(key, set()) & listening:
                subscription.put(news)
