"""Calls that start at the same moment, each on its own thread and database connection."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Barrier, Event
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from sessions_app.core.errors import DomainError
from sessions_app.locks import lock_sessions

PATIENCE = 180.0
"""Seconds within which all must be done: a deadlock would show as an error or as this."""


def race(*calls: Callable[[], Any]) -> list[Any]:
    """The result of each call, or the `DomainError` that it raised; other errors are raised."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connection.ensure_connection()
            barrier.wait(PATIENCE)
            return call()
        except DomainError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        futures = [threads.submit(run, call) for call in calls]
        return [future.result(PATIENCE) for future in futures]


@contextmanager
def uncommitted(work: Callable[[], Any]) -> Iterator[None]:
    """While another connection has done `work` in a transaction that is still open."""
    done, release = Event(), Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                work()
                done.set()
                assert release.wait(PATIENCE)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        held = thread.submit(hold)
        try:
            assert done.wait(PATIENCE) or held.result(0)
            yield
        finally:
            release.set()
            held.result(PATIENCE)


def locked(*session_ids: UUID) -> AbstractContextManager[None]:
    """While another connection's transaction holds the locks of these sessions."""
    return uncommitted(lambda: lock_sessions(session_ids))


def closing(work: Callable[[], Any]) -> Any:
    """For another thread: `work`, and then its connection is closed."""
    try:
        return work()
    finally:
        connection.close()


def wait_for_a_lock() -> None:
    """Until some other connection waits for a lock."""
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    for _ in range(int(PATIENCE * 100)):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_sleep(0.01) FROM ({waiting}) w(n) WHERE n = 0")
            if cursor.fetchone() is None:
                return
    raise AssertionError("nobody waits")


@contextmanager
def just_before(words: str, work: Callable[[], Any]) -> Iterator[None]:
    """Inside, another connection has done `work` when this one first sends a statement with these
    words: what it read before is old by then."""
    left = [work]

    def send(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if words in sql and left:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(closing, left.pop()).result(PATIENCE)
        return execute(sql, *rest)

    with connection.execute_wrapper(send):
        yield
    assert not left, f"no statement has {words}"


def waited(work: Callable[[], Any], *, while_open: Callable[[], Any]) -> Any:
    """Return the result of `work`, which has to wait for a transaction that has done
    `while_open`."""
    with ThreadPoolExecutor(1) as thread:
        with uncommitted(while_open):
            future = thread.submit(closing, work)
            wait_for_a_lock()
        return future.result(PATIENCE)
