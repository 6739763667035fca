"""What most tests of the services and of the API begin with; a file that wants another says so."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from reprise.monitoring import disk
from sessions_app.models import Project
from tests import factories
from tests.agent import Agent, agent
from tests.people import World, make_world, undone


@pytest.fixture(autouse=True)
def no_disk_is_watched() -> Iterator[None]:
    """What a test has started by asking does not write in the next one."""
    yield
    disk.watch.stop()


@pytest.fixture
def at() -> Project:
    """Where the sessions of a test are: `acme/work`."""
    return factories.project("work", domain="acme")


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
