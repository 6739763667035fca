"""Fixtures with which most tests of the services and of the API begin; a file that wants another
says so."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.wsgi import get_wsgi_application

from reprise.monitoring import disk
from reprise.standalone.web import Web, listen
from sessions_app.models import Project
from tests import factories
from tests.agent import Agent, Api, agent
from tests.graphs import Graph
from tests.invariants import check_all
from tests.people import World, make_world, undone
from tests.receiver import Receiver, receiving


@pytest.fixture(autouse=True)
def database(db: None) -> None:
    """All tests here may use the database; those that commit for real say so with a mark."""


@pytest.fixture(autouse=True)
def no_disk_is_watched() -> Iterator[None]:
    """Stop the watch of the disk that a test has started, so that it does not write in the next
    one."""
    yield
    disk.watch.stop()


@pytest.fixture
def at() -> Project:
    """Return the place of a test's sessions: `acme/work`."""
    return factories.project("work", domain="acme")


@pytest.fixture
def all_invariants_hold() -> Iterator[None]:
    """Check the whole database after the test."""
    yield
    assert check_all() == []


@pytest.fixture
def preempting(settings: Any) -> None:
    """Let sessions make room for those of classes that may preempt, without a wait."""
    settings.REPRISE_PREEMPTION = "on"
    settings.REPRISE = {**settings.REPRISE, "preempt_after": 0.0}


@pytest.fixture
def owner() -> User:
    """Somebody who may do everything."""
    return factories.user(superuser=True)


@pytest.fixture
def played() -> Agent:
    """An executor that does what the test says."""
    return agent("one")


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """The people of the authorization tests, made once: each test is rolled back to it."""
    with django_db_blocker.unblock(), undone():
        yield make_world()


@pytest.fixture
def api(at: Project) -> Api:
    """The API as ann has it, who submits to `at`."""
    return Api(factories.token(factories.user("ann", project=at)))


@pytest.fixture
def graph(at: Project) -> Graph:
    """GraphQL as an admin of the cluster has it."""
    return Graph(factories.token(factories.user("root", superuser=True)))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Somebody whom webhooks tell."""
    with receiving() as made:
        yield made


@pytest.fixture
def port() -> Iterator[int]:
    """Return the port on which the web server of standalone listens."""
    with listen("127.0.0.1", 0) as listener:
        web = Web(get_wsgi_application(), listener)
        web.start()
        try:
            yield listener.getsockname()[1]
        finally:
            web.stop()
