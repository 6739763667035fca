"""The end of the log, read once for all readers of a process.

While anybody listens, one query every `PERIOD` fetches what has become visible since the one
before, of those sessions and job sets that somebody listens to, on a connection of its own. The
numbers of transactions divide the log without gaps: what lies between the oldest open transaction
of the last look and that of this one is new, and all of it is here.
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
"""Seconds from look to look."""
SLICE = 5_000
"""Events of the whole log that one look passes over at most."""
BACKLOG = 5_000
"""Events that wait for one reader at most; one that is slower reads the table instead."""
RECONNECT_SECONDS = 1.0

Key = UUID | tuple[int, str]
"""What is listened to: a session, or a project's job set."""
Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]


class _Place(NamedTuple):
    """Up to where the log has been told: all below transaction `xid`, and of it up to `id`."""

    epoch: int
    xid: int
    id: int


class Subscription:
    """One reader's place at the tail."""

    def __init__(self, key: Key):
        self.key = key
        self.joined = False
        """All that is not in the table by now will come here."""
        self.lapsed = False
        """Too much came, or the log was set back: what waited here was dropped."""
        self.news = asyncio.Event()
        self._waiting: deque[TailEvent] = deque()

    def put(self, events: Sequence[TailEvent]) -> None:
        """Let events wait for the reader."""
        if self.lapsed:
            return
        if len(self._waiting) + len(events) > BACKLOG:
            self.lapse()
            return
        self._waiting.extend(events)
        self.news.set()

    def lapse(self) -> None:
        """Send the reader back to the table."""
        self.lapsed = True
        self._waiting.clear()
        self.news.set()

    def take(self) -> list[TailEvent]:
        """All that waits, in order."""
        self.news.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


# `fresh` is cut by number before anything else, so that a look is short whatever happened.
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
    """Tells subscribers of one event loop what is new; reads nothing while there are none."""

    def __init__(self) -> None:
        self._subscriptions: dict[Key, set[Subscription]] = defaultdict(set)
        self._place: _Place | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def subscribe(self, key: Key) -> Subscription:
        """A new reader's place; nothing comes before it has `joined`."""
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
        """The reader has gone."""
        members = self._subscriptions[subscription.key]
        members.discard(subscription)
        if not members:
            del self._subscriptions[subscription.key]

    def close(self) -> None:
        """Stop reading; wakes every reader."""
        self.closing = True
        if self._task is not None:
            self._task.cancel()
        for subscription in self._all():
            subscription.lapse()

    def close_soon(self) -> None:
        """`close` from another thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.close)
        else:
            self.closing = True

    def _all(self) -> list[Subscription]:
        return [each for members in self._subscriptions.values() for each in members]

    async def _run(self) -> None:
        """Look until nobody listens; a lost connection is made again."""
        while self._subscriptions:
            try:
                connection = await Connection.connect(**lasting("reprise tail"), autocommit=True)
                async with connection:
                    await connection.execute("SET TIME ZONE 'UTC'")
                    await self._follow(connection)
            except (psycopg.Error, OSError) as error:
                logger.info("the connection that reads the log is lost: %s", error)
                self._begin_anew()
                await asyncio.sleep(RECONNECT_SECONDS)

    def _begin_anew(self) -> None:
        """Send all readers back to the table, and forget how far the log has been told.

        A server that crashed gives the numbers of transactions that left no trace out again: what
        was the end of the log may lie behind them. Events, where readers go on, left theirs.
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
        """Tell what is new; how many events of the whole log that were."""
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
        self._tell([logged(row[5:]) for row in rows if row[7] is not None], set(listening))
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

    def _tell(self, events: list[LoggedEvent], listening: set[Subscription]) -> None:
        """Give events to those who listened when they were asked for."""
        by_key: dict[Key, list[TailEvent]] = defaultdict(list)
        for event in events:
            told = TailEvent(event)
            for key in (event.session_id, (event.project_id, event.job_set)):
                if key in self._subscriptions:
                    by_key[key].append(told)
        for key, news in by_key.items():
            for subscription in self._subscriptions.get(key, set()) & listening:
                subscription.put(news)
