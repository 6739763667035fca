"""Schedules that operators make and change in the admin."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from sessions_app.models import Project, Schedule, Session
from tests import factories
from tests.agent import agent
from tests.audit import audited_acts
from tests.integration.admin import errors_of, messages_of, operator, text_of, url

pytestmark = pytest.mark.django_db
KIND = "sessions_app_schedule"
FORM = {
    "name": "nightly",
    "cron": "30 3 * * *",
    "time_zone": "Europe/Berlin",
    "template": "command: [backup]\n",
    "overlap": "skip",
    "catch_up": "60",
}


@pytest.fixture
def client() -> Client:
    return operator()


@pytest.fixture
def project() -> Project:
    return factories.project("work", domain="acme")


def acts() -> list[tuple[str, str]]:
    found = audited_acts().filter(object_type="schedule", actor="root").order_by("pk")
    return [(each.action, each.actor) for each in found]


def test_an_operator_makes_one_that_submits_as_them(client: Client, project: Project) -> None:
    agent().lease()
    address = url(KIND, "add")
    page = client.get(address)
    assert "Sessions will be submitted as you: root" in text_of(page)
    sent = {**FORM, "project": project.pk, "from": "2100-06-01T00:00"}
    shown = client.post(address, {**sent, "preview": "1"})
    assert errors_of_form(shown) == {}
    assert "Nothing is saved yet." in text_of(shown)
    assert text_of(shown).count(" 01:30:00 UTC") == 5
    assert not Schedule.objects.exists()
    done = client.post(address, sent, follow=True)
    assert messages_of(done) == ["The schedule acme/work/nightly is saved. You are its owner."]
    assert "2100-06-01 01:30:00 UTC" in text_of(done)
    made = Schedule.objects.get()
    assert made.owner
    assert (made.owner.username, made.project, made.overlap) == ("root", project, "skip")
    assert made.template == {"command": ["backup"]}
    assert acts() == [("schedule.create", "root")]


def test_who_changes_one_owns_it_from_then_on(client: Client, project: Project) -> None:
    olga = factories.user("olga", project=project)
    schedule = factories.schedule(project, olga, name="often")
    address = url(KIND, "change", schedule.pk)
    page = text_of(client.get(address))
    assert "Sessions are submitted as olga now." in page
    assert "Sessions will be submitted as you: root , once you save" in page
    sent = {**FORM, "cron": "", "time_zone": "UTC", "every": "3600"}
    shown = text_of(client.post(address, {**sent, "preview": "1"}))
    first = schedule.created_at.replace(microsecond=0) + timedelta(hours=1)
    assert f"{first:%Y-%m-%d %H:%M:%S} UTC" in shown, "counted from when it was made"
    schedule.refresh_from_db()
    assert (schedule.every, schedule.owner) == (60, olga)
    assert client.post(address, sent).status_code == 302
    schedule.refresh_from_db()
    assert schedule.owner
    assert (schedule.every, schedule.name, schedule.owner.username) == (3600, "often", "root")
    assert schedule.next_at == first
    assert acts()[-1] == ("schedule.change", "root")
    client.post(url(KIND), {"action": "trigger", "_selected_action": schedule.pk})
    assert Session.objects.get().owner == schedule.owner


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"cron": "99 * * * *"}, "cron", "cannot be read: bad minute"),
    ({"time_zone": "Mars"}, "time_zone", "must be a time zone"),
    ({"every": "60"}, "cron", "give either this or every"),
    ({"until": "2001-01-01T00:00"}, "until", "no time is left"),
    ({"until": "soon"}, "until", "Enter a valid date/time."),
    ({"template": "command: 7"}, "template", "command: "),
    ({"template": "a: b: c"}, "template", "is not valid YAML"),
    ({"queue": "none"}, "queue", "no queue none"),
    ({"jitter": "99999"}, "jitter", "less than or equal to 3600"),
    ({"overlap": "fly"}, "overlap", "Select a valid choice"),
]


@pytest.mark.parametrize(
    ("fields", "field", "why"), WRONG, ids=[f"{each[1]}-{each[2][:9]}" for each in WRONG]
)
def test_what_is_wrong_stands_at_its_field(
    client: Client, project: Project, fields: dict[str, str], field: str, why: str
) -> None:
    schedule = factories.schedule(project, factories.user("olga", project=project))
    sent = {**FORM, "project": project.pk, **fields}
    for address in (url(KIND, "add"), url(KIND, "change", schedule.pk)):
        errors = errors_of_form(client.post(address, sent))
        assert list(errors) == [field]
        assert why in errors[field][0]
    assert Schedule.objects.get().every == 60
    assert acts() == []


def test_a_new_one_needs_a_project_and_a_name_of_its_own(client: Client, project: Project) -> None:
    address = url(KIND, "add")
    for wrong in ("", "x", "99999999999999999999", "\0"):
        errors = errors_of_form(client.post(address, {**FORM, "project": wrong}))
        assert list(errors) == ["project"], wrong
    sent = {**FORM, "project": project.pk}
    assert list(errors_of_form(client.post(address, {**sent, "name": "No Label"}))) == ["name"]
    client.post(address, sent)
    errors = errors_of_form(client.post(address, sent))
    assert "has a schedule 'nightly' already" in errors["name"][0]
    assert Schedule.objects.count() == 1


def test_a_preview_of_what_cannot_be_says_why(client: Client, project: Project) -> None:
    sent = {**FORM, "project": project.pk, "cron": "61 * * * *", "preview": "1"}
    page = client.post(url(KIND, "add"), sent)
    assert list(errors_of_form(page)) == ["cron"]
    assert "Correct the fields above first." in text_of(page)


def test_one_is_deleted_after_a_question(client: Client, project: Project) -> None:
    schedule = factories.schedule(project, factories.user("olga", project=project))
    address = url(KIND, "delete", schedule.pk)
    assert "Are you sure" in text_of(client.get(address))
    assert client.post(address, {"post": "yes"}).status_code == 302
    assert not Schedule.objects.exists()
    assert acts() == [("schedule.delete", "root")]


def test_one_that_is_deleted_meanwhile_is_said_to_be_missing(
    client: Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = factories.schedule(project, factories.user("olga", project=project))
    monkeypatch.setattr("sessions_app.services.schedules.saving.lock_schedule", lambda _: None)
    done = client.post(url(KIND, "change", schedule.pk), FORM, follow=True)
    assert "Perhaps it was deleted?" in messages_of(done)[0]


def errors_of_form(page: Any) -> dict[str, list[str]]:
    assert page.status_code == 200
    return errors_of(page)
