"""Tests that a stream ends when its reader may not read any more."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from reprise.front import log_streams
from scheduler.models import Executor, Lease
from sessions_app.models import LogChunk, Project, Session
from sessions_app.services.access.tokens import token_revoke
from tests import factories
from tests.streaming import PATIENCE, EventReader, served
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    settings.REPRISE = {**settings.REPRISE, "stream_check_after": 0.1}
    monkeypatch.setattr(log_streams, "PAUSE", 0.05)
    with served() as url:
        yield url


@pytest.fixture
def member(at: Project) -> User:
    return factories.user("mia", project=at)


def withdraw(secret: str, member: User) -> None:
    token_revoke(prefix=secret[:12], by="test")


def switch_off(secret: str, member: User) -> None:
    User.objects.filter(pk=member.pk).update(is_active=False)


def take_role(secret: str, member: User) -> None:
    member.reprise_memberships.all().delete()


ENDS = pytest.mark.parametrize("end", [withdraw, switch_off, take_role])


def running(at: Project, owner: User) -> Session:
    return factories.start(factories.submit(at, owner=owner))


@ENDS
def test_a_followed_log_ends(
    api: str, at: Project, member: User, end: Callable[[str, User], None]
) -> None:
    session, secret = running(at, member), factories.token(member)
    LogChunk.objects.create(session_id=session.pk, offset=0, data=b"one\n")
    headers = {"Authorization": f"Bearer {secret}"}
    url = f"{api}sessions/{session.pk}/logs/?follow=true&tail=1"
    with httpx.stream("GET", url, headers=headers, timeout=PATIENCE) as answer:
        pieces = answer.iter_bytes()
        assert next(pieces) == b"one\n"
        end(secret, member)
        assert list(pieces) == []
    assert httpx.get(url, headers=headers, timeout=PATIENCE).status_code in {401, 404}


def test_the_file_of_a_log_is_for_who_is_signed_in(api: str, at: Project, member: User) -> None:
    session, browser = running(at, member), Client()
    browser.force_login(member)
    cookies = {settings.SESSION_COOKIE_NAME: browser.cookies[settings.SESSION_COOKIE_NAME].value}
    data = bytes(range(256)) * 1000
    LogChunk.objects.create(session_id=session.pk, offset=0, data=data)
    url = f"{api.removesuffix('api/v2/')}sessions/{session.pk}/log/download/"
    answer = httpx.get(url, cookies=cookies, timeout=PATIENCE)
    assert answer.content == data
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert httpx.get(url, timeout=PATIENCE).status_code == 302
    with httpx.stream("GET", f"{url}?follow=true", cookies=cookies, timeout=PATIENCE) as followed:
        pieces = followed.iter_bytes()
        assert next(pieces)
        browser.logout()
        assert len(b"".join(pieces)) < len(data)


@ENDS
def test_a_stream_of_events_ends(
    api: str, at: Project, member: User, end: Callable[[str, User], None]
) -> None:
    session, secret = running(at, member), factories.token(member)
    reader = EventReader(f"{api}sessions/{session.pk}/events/", secret)
    reader.wait(lambda r: bool(r.events))
    end(secret, member)
    assert reader.ended.wait(PATIENCE)


def test_a_held_lease_call_of_a_withdrawn_token_gets_nothing(
    api: str, at: Project, owner: User
) -> None:
    factories.executor("one")
    secret = factories.token(executor_name="one")
    answers: list[Any] = []
    body = {"incarnation": 1, "wait_s": 10, "limits": {"max_sessions": 1}}
    headers = {"Authorization": f"Bearer {secret}"}

    def ask() -> None:
        url = f"{api}executors/one/lease/"
        answers.append(httpx.post(url, json=body, headers=headers, timeout=PATIENCE))

    caller = threading.Thread(target=ask)
    caller.start()
    until(lambda: Executor.objects.filter(last_seen_at__isnull=False).exists())
    token_revoke(prefix=secret[:12], by="test")
    factories.submit(at, owner=owner)
    caller.join(PATIENCE)
    assert answers[0].json()["leases"] == []
    assert not Lease.objects.exists()
