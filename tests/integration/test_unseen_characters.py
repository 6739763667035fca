"""Names hold nothing that nobody sees, or that turns the text around it."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sessions_app.models import ApiToken, Project, Session
from tests import factories
from tests.agent import Api

UNSEEN = {
    "zero width space": "\u200b", "zero width joiner": "\u200d", "right-to-left mark": "\u200f",
    "right-to-left override": "\u202e", "isolate": "\u2066", "word joiner": "\u2060",
    "byte order mark": "\ufeff", "soft hyphen": "\u00ad", "line separator": "\u2028",
    "tag": "\U000e0041", "control": "\u0085", "escape": "\u001b",
}  # fmt: skip
each_of_them = pytest.mark.parametrize("unseen", UNSEEN.values(), ids=UNSEEN.keys())


@each_of_them
def test_names_of_sessions_and_tokens(at: Project, owner: User, unseen: str) -> None:
    api = Api(factories.token(owner))
    name = f"train{unseen}gpj.exe"
    session = {"project": at.address, "image": "any", "command": ["true"], "name": name}
    for path, body in (("sessions/", session), ("tokens/", {"name": name, "user": owner.username})):
        answer = api.post(path, body)
        assert answer.status_code == 400, path
        assert list(answer.json()["errors"]) == ["name"], path
    assert not Session.objects.exists()


@each_of_them
def test_names_of_tokens_in_the_admin(owner: User, unseen: str) -> None:
    browser = Client()
    browser.force_login(owner)
    sent: dict[str, Any] = {"name": f"lap{unseen}top", "user": owner.pk}
    page = browser.post("/admin/sessions_app/apitoken/add/", sent)
    assert b"invisible" in page.content
    assert not ApiToken.objects.filter(user=owner).exists()


@pytest.mark.parametrize(
    "name", ["Größe 3", "\u5b66\u7fd2", "\u0645\u062b\u0627\u0644", "a \U0001f680"]
)
def test_other_languages_are_welcome(at: Project, owner: User, name: str) -> None:
    body = {"project": at.address, "image": "any", "command": ["true"], "name": name}
    assert Api(factories.token(owner)).post("sessions/", body).status_code == 201
