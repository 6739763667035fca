"""Calls of the API leave no cycles behind: reference counts free all that they have read.

Cycles would wait for the garbage collector, which then walks all sessions of the batches that are
under way. A call goes through the WSGI application as the server calls it; Django's test client
would tie a knot of its own.
"""

import gc
import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import UUID

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from reprise.wsgi import application
from sessions_app.tasks import count_failures, dispatch_due_retries
from tests import factories
from tests.agent import Agent, Api

pytestmark = pytest.mark.django_db(transaction=True)


class _Answer:
    """What a test needs of a response."""

    def __init__(self, status: str, body: bytes):
        self.status_code = int(status[:3])
        self.content = body

    def json(self) -> Any:
        """The body."""
        return json.loads(self.content)


class _Direct:
    """A client without cycles of its own, in place of Django's."""

    def generic(
        self, method: str, path: str, data: str | bytes, *, content_type: str, headers: Any
    ) -> _Answer:
        body = data.encode() if isinstance(data, str) else data
        path, _, query = path.partition("?")
        begun: list[str] = []

        def start(status: str, *_: Any) -> Callable[[bytes], object]:
            begun.append(status)
            return lambda _: None

        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "SERVER_NAME": "testserver",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": content_type,
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_AUTHORIZATION": headers["Authorization"],
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.url_scheme": "http",
        }
        answer: Any = application(environ, start)
        try:
            return _Answer(begun[0], b"".join(answer))
        finally:
            answer.close()


OURS = {"sessions_app", "scheduler", "retry", "reprise", "django", "rest_framework", "uuid"}
"""Packages of what calls read and make. Any circle through a call has a request, a view, a row or
an id. Others are left alone: Celery's connection, or a function of Django's that calls itself."""


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Fail if the block leaves garbage that only a collection finds."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        kinds = [type(each) for each in gc.garbage]
        found = Counter(
            each.__qualname__ for each in kinds if each.__module__.partition(".")[0] in OURS
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found, found.most_common(10)


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Keep the test's connection after each call, as Django's test client does."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def api() -> Api:
    """A member's door to a project."""
    place = factories.project("cycles")
    api = Api(factories.token(factories.user(project=place), project=place))
    api.http = _Direct()  # type: ignore[assignment]
    return api


@pytest.fixture
def agent() -> Agent:
    agent = Agent(factories.executor("cycles"))
    agent.api.http = _Direct()  # type: ignore[assignment]
    return agent


def _submit(api: Api) -> Any:
    body = {"command": ["true"], "retry_policy": factories.policy()}
    return api.post("sessions/bulk/", {"sessions": [body] * 3})


def _report(agent: Agent, leased: list[UUID], status: str, **fields: Any) -> set[str]:
    return set(agent.send(*[agent.reporting(each, status, **fields) for each in leased]))


def test_an_attempt_leaves_no_cycles(api: Api, agent: Agent) -> None:
    for warm in (True, False):  # first calls fill caches
        with nullcontext() if warm else _no_garbage():
            assert _submit(api).status_code == 200
            leased = agent.lease()
            assert len(leased) >= 3
            assert _report(agent, leased, "PREPARING") == {"applied"}
            end = {"termination": {"exit_code": 1}}
            assert _report(agent, leased, "ERROR", **end) == {"applied"}
            dispatch_due_retries()
            count_failures()


@pytest.mark.parametrize(
    "path",
    [
        "sessions/?limit=2",
        "sessions/{id}/",
        "sessions/{id}/attempts/",
        "sessions/{id}/events/",
        "failures/?project=default/cycles",
        "queues/",
        "sessions/00000000-0000-0000-0000-000000000000/",
        "sessions/?limit=many",
    ],
)
def test_reading_leaves_no_cycles(api: Api, path: str) -> None:
    found = _submit(api).json()["results"][0]
    address = path.format(id=found["session_id"])
    api.get(address)
    with _no_garbage():
        assert api.get(address).status_code in {200, 400, 404}
