"""Logins of browsers that have expired are deleted with all else that is old."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reprise.upkeep import retention
from sessions_app.locks import database_now
from tests import factories
from tests.pages import signed_in


def test_they_go_slice_by_slice_and_valid_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(factories.user())
    now = database_now()
    Session.objects.bulk_create(
        Session(session_key=f"old-{n}", session_data="", expire_date=now - timedelta(seconds=n))
        for n in range(1, 6)
    )
    monkeypatch.setattr(retention, "LOGINS", 2)
    with CaptureQueriesContext(connection) as queries:
        retention.prune()
    deletes = [each for each in queries if each["sql"].startswith('DELETE FROM "django_session"')]
    assert len(deletes) == 3
    assert Session.objects.count() == 1
    assert client.get("/").status_code == 200


def test_a_form_as_browsers_send_it_is_read() -> None:
    """Test clients send parts, whose stream nobody closes."""
    user = factories.user("ann")
    user.set_password("correct horse")
    user.save()
    sent = urlencode({"username": "ann", "password": "correct horse"})
    form = "application/x-www-form-urlencoded"
    answer = Client().post("/login/", sent, content_type=form)
    assert (answer.status_code, answer["Location"]) == (302, "/")
