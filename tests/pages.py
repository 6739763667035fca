"""What the tests of pages share: a project, who looks at it, what they see, and a policy."""

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sessions_app.models import Project
from sessions_app.models.tenants import Role
from tests import factories

STRICT = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: strict}
spec:
  rules:
    - name: bad-input
      action: Fail
      onExitCodes: {operator: In, values: [65]}
"""


def signed_in(user: User, *, enforce_csrf_checks: bool = False) -> Client:
    """The browser of somebody."""
    client = Client(enforce_csrf_checks=enforce_csrf_checks)
    client.force_login(user)
    return client


@pytest.fixture
def project() -> Project:
    return factories.project("work")


@pytest.fixture
def owner(project: Project) -> User:
    """A member, whose sessions they are."""
    return factories.user("olga", project=project)


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


@pytest.fixture
def lead(project: Project) -> Client:
    return signed_in(factories.user("lea", project=project, role=Role.MAINTAINER))


@pytest.fixture
def viewer(project: Project) -> Client:
    return signed_in(factories.user("vic", project=project, role=Role.VIEWER))


def words(response: Any) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", response.content.decode())).split())


def read(client: Client, path: str) -> str:
    """What a reader of a page sees that must be there."""
    response = client.get(path)
    assert response.status_code == 200, (path, response.status_code)
    return words(response)
