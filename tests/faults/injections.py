"""Ways to do each kind of fault to the plant, and to undo it."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from threading import Event, Thread
from typing import Any

import psycopg
from amqp.exceptions import AMQPError
from kombu.exceptions import OperationalError
from reprise_client import ApiError, Client, RepriseError

from tests.faults import poison
from tests.faults.load import JOB_SET
from tests.faults.plan import Fault
from tests.faults.plant import Plant

CLOCK_OFF = 300.0
LIMITS = {"retries_per_minute": 8, "queue_retries_per_minute": 6}
"""Far fewer than there are, so that most wait for their slots."""
SETTLE_SECONDS = 2.0
MANY, BY_HAND = 40, 20
MOST = 1000
"""Sessions in a call in bulk."""
WAITING = {"job_set": JOB_SET, "retry_state": "scheduled"}
LONGEST_WAIT = 60.0
"""Seconds that people wait for a slot once the limits are lifted."""
SLOW = ("broker", "switch")
"""Parts whose mending takes time."""
NOT_NOW = (psycopg.Error, OperationalError, AMQPError, RepriseError, OSError)
"""Another fault is in the way: to be tried again."""
# What PostgreSQL says when a table's disk is full, for every insert; a real full disk would need
# a file system of its own, which a test may not make.
_FULL = """
    CREATE OR REPLACE FUNCTION faults_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END $$;
    CREATE OR REPLACE TRIGGER faults_full BEFORE INSERT ON sessions_app_logchunk
        FOR EACH ROW EXECUTE FUNCTION faults_full();
"""
_SLOW = """
    CREATE OR REPLACE FUNCTION faults_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(random() * 0.2);
        RETURN NULL;
    END $$
"""
# Between what a transaction looks at and what it writes, and between what it writes first and last.
_SLOWED = ("sessions_app_session", "sessions_app_retrydecision", "sessions_app_sessionevent")
_SLOW_WRITES = """
    CREATE OR REPLACE TRIGGER faults_slow BEFORE INSERT ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION faults_slow()
"""
_NOT_SLOW = "DROP TRIGGER IF EXISTS faults_slow ON {table}"
_NOT_FULL = "DROP TRIGGER IF EXISTS faults_full ON sessions_app_logchunk"
_CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_PACED = """
    SELECT session_id::text FROM sessions_app_retrydecision
    WHERE state = 'scheduled' AND paced AND due_at > now() + make_interval(secs => %s)
    ORDER BY due_at
"""


class Injector:
    """Begins and ends faults. What takes long is done by a thread, which `end` gives back.

    `poisons` are the ids of the poison tasks that the broker took into a queue, and that no wipe
    took from it.
    """

    def __init__(self, plant: Plant):
        self._plant = plant
        self.poisons: list[str] = []
        self._switching: Thread | None = None
        self._enough = Event()
        self._begins, self._ends = self._ways_to_begin(plant), self._ways_to_end(plant)

    def _ways_to_begin(self, plant: Plant) -> dict[str, Callable[[Fault, Random], Any]]:
        return {
            "worker killed": lambda f, r: plant.workers[f.target].kill(whole=r.random() < 0.5),
            "web killed": lambda f, _: plant.webs[f.target].kill(),
            "beat killed": lambda _f, _r: plant.beat.kill(),
            "executor killed": lambda f, _: plant.executors[f.target].kill(),
            "executor killed, clock off by 5 min": self._skew,
            "executor's clock set by 5 min": self._set_clock,
            "executor started twice": self._start_twice,
            "executor cut off": lambda f, r: plant.links[f.target].cut(silently=r.random() < 0.5),
            "executor frozen": lambda f, _: plant.executors[f.target].freeze(),
            "broker stopped": lambda _, r: (
                plant.broker.kill() if r.random() < 0.5 else self._stop()
            ),
            "broker wiped": self._wipe,
            "PostgreSQL restarted": lambda _, r: plant.stop_postgres(hard=r.random() < 0.5),
            "database connections cut": lambda _f, _r: self._execute(_CUT),
            "PostgreSQL slow": lambda _f, _r: self._execute(_SLOW, *_of_each(_SLOW_WRITES)),
            "log store full": lambda _f, _r: self._execute(_FULL),
            "poison task": self._poison,
            "retries paused": lambda _f, _r: self._switch(mode="paused"),
            "retries limited": lambda _f, _r: self._switch(**LIMITS),
        }

    def _ways_to_end(self, plant: Plant) -> dict[str, Callable[[Fault], Any]]:
        return {
            "worker killed": lambda f: plant.workers[f.target].start(),
            "web killed": lambda f: plant.webs[f.target].start(),
            "beat killed": lambda _: plant.beat.start(),
            "executor killed": lambda f: plant.executors[f.target].start(),
            "executor killed, clock off by 5 min": lambda f: plant.executors[f.target].start(),
            "executor's clock set by 5 min": lambda f: plant.clocks[f.target].set(),
            "executor started twice": self._start_once,
            "executor cut off": lambda f: plant.links[f.target].mend(),
            "executor frozen": lambda f: plant.executors[f.target].thaw(),
            "broker stopped": lambda _: plant.broker.start(),
            "broker wiped": lambda _: self._start_anew(),
            "PostgreSQL restarted": lambda _: plant.start_postgres(),
            "database connections cut": lambda _: None,
            "PostgreSQL slow": lambda _: self._execute(*_of_each(_NOT_SLOW)),
            "log store full": lambda _: self._execute(_NOT_FULL),
            "poison task": lambda _: None,
            "retries paused": lambda _: self._switch_back(mode="on"),
            "retries limited": lambda _: self._limit_no_more(),
        }

    def begin(self, fault: Fault) -> None:
        """Raises one of `NOT_NOW`."""
        self._begins[fault.kind](fault, Random(fault.seed))

    def end(self, fault: Fault) -> Thread | None:
        """As `begin`."""
        if fault.part not in SLOW:
            self._ends[fault.kind](fault)
            return None
        thread = Thread(target=self._ends[fault.kind], args=(fault,), daemon=True)
        thread.start()
        return thread

    def _skew(self, fault: Fault, random: Random) -> None:
        self._plant.executors[fault.target].kill()
        self._set_clock(fault, random)

    def _set_clock(self, fault: Fault, random: Random) -> None:
        self._plant.clocks[fault.target].set(wall=random.choice((-CLOCK_OFF, CLOCK_OFF)))

    def _start_twice(self, fault: Fault, random: Random) -> None:
        """The first one may be where it cannot hear of it."""
        if random.random() < 0.5:
            self._plant.links[fault.target].cut(silently=random.random() < 0.5)
        self._plant.twins[fault.target].kill()
        self._plant.twins[fault.target].start()

    def _start_once(self, fault: Fault) -> None:
        """The first one comes back, and takes over in turn."""
        self._plant.links[fault.target].mend()
        self._plant.executors[fault.target].kill()
        self._plant.executors[fault.target].start()

    def _stop(self) -> None:
        self._plant.broker.stop()

    def _wipe(self, _fault: Fault, _random: Random) -> None:
        self._plant.broker.kill()
        self._plant.broker.wipe()
        self.poisons.clear()

    def _start_anew(self) -> None:
        self._plant.broker.start()
        # RabbitMQ 3.10 that dies within a second of making a quorum queue may leave it without a
        # leader for good. Not a fault of Reprise: the next one waits until the last is made.
        deadline = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline and not poison.can_be_parked(self._plant.broker.url):
            time.sleep(0.2)
        time.sleep(SETTLE_SECONDS)

    def _execute(self, *statements: str) -> None:
        with self._plant.connect() as connection:
            for statement in statements:
                connection.execute(statement)

    def _poison(self, _fault: Fault, _random: Random) -> None:
        self.poisons.append(poison.send(self._plant.broker.url))

    def hasten(self, patience: float = 2.0) -> None:
        """Bring forward by hand what waits for longer, in seconds, for a slot under the limits; of
        many cancel the newest."""
        try:
            with self._plant.connect() as connection, self._plant.client() as client:
                waiting = connection.execute(_PACED, [patience]).fetchall()
                for (session,) in waiting[:BY_HAND]:
                    with suppress(ApiError):  # somebody else did
                        client.retry(session)
                if over := waiting[BY_HAND : BY_HAND + MOST]:
                    client.sessions_cancel_bulk(WAITING, limit=len(over))
        except NOT_NOW:
            return

    def _switch(self, **changes: Any) -> None:
        # In a thread of its own: what it needs may be down until another fault ends.
        self._enough = Event()
        change = partial(self._persist, partial(_change, **changes), self._enough)
        self._switching = Thread(target=change, daemon=True)
        self._switching.start()

    def _switch_back(self, **changes: Any) -> None:
        self._enough.set()
        if self._switching is not None:
            self._switching.join()
        self._persist(partial(_change, **changes), Event())

    def _limit_no_more(self) -> None:
        if self._switching is not None:
            self._switching.join()  # until the limits hold
        self._persist(_retry_many, Event())
        self._switch_back(**dict.fromkeys(LIMITS))
        self.hasten(LONGEST_WAIT)

    def _persist(self, call: Callable[[Client], Any], enough: Event) -> None:
        while True:
            with suppress(RepriseError), self._plant.client() as client:
                call(client)
                return
            if enough.wait(1.0):
                return


def _of_each(statement: str) -> list[str]:
    """One after the other: who wants locks on several tables at once may stand in others' way."""
    return [statement.format(table=table) for table in _SLOWED]


def _change(client: Client, **changes: Any) -> None:
    client.retry_settings_update(**changes)


def _retry_many(client: Client) -> None:
    """Retry so many at once that most have to wait, whatever else goes on."""
    client.sessions_retry_bulk({"job_set": JOB_SET, "status": "ERROR"}, limit=MANY)
