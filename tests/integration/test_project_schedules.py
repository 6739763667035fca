"""The schedules of a project on its pages and in the admin."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sessions_app.models import Project, Schedule, Session
from tests import factories
from tests.audit import audited_acts
from tests.integration.test_project_pages import statements
from tests.pages import lead, project, read, signed_in, viewer, words

__all__ = ["lead", "project", "viewer"]
pytestmark = pytest.mark.django_db
AT = "/projects/acme/work/schedules/"
FORM = {
    "name": "nightly",
    "cron": "30 3 * * *",
    "time_zone": "Europe/Berlin",
    "template": "command: [backup]\nenviron: {KIND: full}\n",
    "overlap": "skip",
}


@pytest.fixture
def member(project: Project) -> Client:
    return signed_in(factories.user("mia", project=project))


def act(client: Client, schedule: Schedule, name: str, **more: str) -> str:
    response = client.post(f"{AT}{schedule.pk}/act/", {"act": name, **more}, follow=True)
    assert response.status_code == 200
    return words(response)


def test_a_member_makes_changes_pauses_triggers_and_deletes_one(member: Client) -> None:
    assert "There are no schedules." in read(member, AT)
    assert "Choose “Show the next times”." in read(member, f"{AT}new/")
    response = member.post(f"{AT}new/", FORM, follow=True)
    assert "The schedule nightly is saved." in words(response)
    found = Schedule.objects.get()
    assert (found.cron, found.overlap, found.catch_up) == ("30 3 * * *", "skip", 60)
    assert found.template == {"command": ["backup"], "environ": {"KIND": "full"}}
    path = f"{AT}{found.pk}/"
    changed = {**FORM, "cron": "", "every": "90", "pause_after": "3"}
    assert "You are its owner." in words(member.post(path, changed, follow=True))
    found.refresh_from_db()
    assert (found.cron, found.every, found.pause_after) == ("", 90, 3)
    assert "every 90 s" in read(member, AT)
    assert "Paused." in act(member, found, "pause", reason="moving")
    assert "moving" in read(member, AT)
    assert "is submitted." in act(member, found, "trigger")
    made = Session.objects.get()
    assert str(made.pk) in read(member, path)
    member.post(path, changed)
    found.refresh_from_db()
    assert found.paused_reason == "moving"
    assert "Resumed." in act(member, found, "resume")
    assert "Nothing was done." in act(member, found, "fly")
    assert "makes no more sessions" in read(member, f"{path}delete/")
    assert "is deleted." in words(member.post(f"{path}delete/", follow=True))
    assert not Schedule.objects.exists()


def test_the_next_times_are_shown_before_it_is_saved(member: Client) -> None:
    asked = {"cron": "0 12 1 1 *", "time_zone": "Asia/Tokyo", "from": "2100-06-01T00:00"}
    shown = words(member.post(f"{AT}times/", {**FORM, **asked}))
    assert "2101-01-01 03:00" in shown
    assert shown.count("-01-01 03:00") == 5
    assert "cron: must be five fields" in words(member.post(f"{AT}times/", {"cron": "x"}))
    assert "cron: give either this or every" in words(member.post(f"{AT}times/", {}))
    assert not Schedule.objects.exists()


WRONG: list[tuple[dict[str, str], str]] = [
    ({"cron": "99 * * * *"}, "cannot be read: bad minute"),
    ({"time_zone": "Mars"}, "must be a time zone"),
    ({"every": "60"}, "give either this or every"),
    ({"template": "command: 7"}, "command: "),
    ({"template": "a: b: c"}, "is not valid YAML"),
    ({"queue": "none"}, "no queue none"),
    ({"name": "Not a label"}, "must be an RFC 1123 label"),
    ({"jitter": "99999"}, "less than or equal to 3600"),
]


@pytest.mark.parametrize(("fields", "why"), WRONG, ids=[next(iter(each)) for each, _ in WRONG])
def test_what_is_wrong_stands_at_its_field(
    member: Client, fields: dict[str, str], why: str
) -> None:
    response = member.post(f"{AT}new/", {**FORM, **fields})
    assert response.status_code == 400
    assert why in words(response)
    assert not Schedule.objects.exists()


def test_a_taken_name_is_refused(member: Client) -> None:
    member.post(f"{AT}new/", FORM)
    response = member.post(f"{AT}new/", FORM)
    assert (response.status_code, "has a schedule 'nightly' already" in words(response)) == (
        400,
        True,
    )


def test_who_may_not_gets_no_page(project: Project, viewer: Client, member: Client) -> None:
    owner = factories.user(project=project)
    schedule = factories.schedule(project, owner)
    path = f"{AT}{schedule.pk}/"
    assert viewer.get(AT).status_code == viewer.get(path).status_code == 403
    assert "Schedules" not in read(viewer, "/projects/acme/work/queues/")
    page: Any = member.get(path)
    assert (page.status_code, "Save" in words(page)) == (200, False)
    assert member.post(path, FORM).status_code == 403
    assert member.post(f"{path}act/", {"act": "trigger"}).status_code == 403
    assert member.post(f"{path}delete/").status_code == 403
    far = factories.schedule(factories.project(), owner)
    assert member.get(f"{AT}{far.pk}/").status_code == 404


def test_the_pages_take_as_many_statements_for_many_as_for_few(
    project: Project, lead: Client
) -> None:
    owner = factories.user(project=project)
    first = factories.schedule(project, owner)
    few = statements(lead, AT)
    for _ in range(12):
        factories.schedule(project, owner)
    assert statements(lead, AT) == few <= 7
    assert statements(lead, f"{AT}{first.pk}/") <= 9


def test_operators_act_on_many_in_the_admin(project: Project) -> None:
    root = factories.user("root", superuser=True)
    operator = signed_in(root)
    ids = [str(factories.schedule(project, root).pk) for _ in range(2)]
    address = "/admin/sessions_app/schedule/"
    assert "every 60 s" in read(operator, address)
    assert "Submit one session now" in read(operator, address)

    def does(action: str) -> str:
        sent = {"action": action, "_selected_action": ids}
        return words(operator.post(address, sent, follow=True))

    assert "Paused." in does("pause")
    assert set(Schedule.objects.values_list("paused_reason", flat=True)) == {
        "paused by an operator"
    }
    assert "Resumed." in does("resume")
    assert "is submitted." in does("trigger")
    assert Session.objects.count() == 2
    assert "Deleted." in does("remove")
    assert not Schedule.objects.exists()
    assert User.objects.filter(pk=root.pk).exists()


class Backfills:
    """An operator at the admin's form of backfills, for some schedules."""

    def __init__(self, *schedules: Schedule):
        self._ids = [str(each.pk) for each in schedules]
        self.who = factories.user(superuser=True)
        self._operator = signed_in(self.who)

    def send(self, begin: str | None = None, end: str = "", confirmed: str | None = None) -> Any:
        """Send the form; without a time it is asked for."""
        times = {} if begin is None else {"from": begin, "to": end}
        sent = {"action": "backfill", "_selected_action": self._ids, **times}
        sent |= {} if confirmed is None else {"confirmed": confirmed}
        return self._operator.post("/admin/sessions_app/schedule/", sent, follow=True)


def confirmation(page: Any) -> str:
    """The value of the button that confirms; "" if there is none."""
    found = re.search(r'name="confirmed"\s+value="([^"]+)"', page.content.decode())
    return found[1] if found else ""


FIRST, LAST = "2020-01-01T00:00", "2020-01-01T02:00"


def test_operators_backfill_in_the_admin_after_a_dry_run(project: Project) -> None:
    owner = factories.user("olga", project=project)
    hourly = factories.schedule(project, owner, name="hourly", cron="0 * * * *", every=None)
    orphan = factories.schedule(project, owner, name="orphan", cron="0 * * * *", every=None)
    Schedule.objects.filter(pk=orphan.pk).update(owner=None)
    form = Backfills(hourly, orphan)
    asked = form.send()
    assert ("From, in UTC" in words(asked), confirmation(asked)) == (True, "")
    incomplete = form.send(FIRST, "")
    assert "To, in UTC: is required" in words(incomplete)
    shown = form.send(FIRST, LAST)
    assert "hourly 3 2020-01-01 00:00:00 UTC to 2020-01-01 02:00:00 UTC" in words(shown)
    assert "Yes, submit 3 sessions" in words(shown)
    yes = confirmation(shown)
    another = form.send(FIRST, "2020-01-01T01:00", confirmed=yes)
    assert "Yes, submit 2 sessions" in words(another), "its dry run was not shown"
    assert not Session.objects.exists()
    done = words(form.send(FIRST, LAST, confirmed=yes))
    assert "acme/work/hourly: 3 of 3 sessions are submitted." in done
    assert "acme/work/orphan: " in done
    made = Session.objects.all()
    assert {each.owner for each in made} == {owner}
    assert {each.creation_id.rpartition(":")[2] for each in made} == {"backfill-1"}
    assert audited_acts().get(action="schedule.backfill").actor == form.who.username


def test_a_backfill_of_too_many_is_not_offered(project: Project) -> None:
    owner = factories.user("olga", project=project)
    both = [
        factories.schedule(project, owner, cron="* * * * *", every=None, name=name)
        for name in ("one", "two")
    ]
    form, stretch = Backfills(*both), ("2020-01-01T00:00", "2020-01-01T10:00")
    page = form.send(*stretch)
    assert "More than 1000 sessions at once are refused" in words(page)
    assert confirmation(page) == ""
    alone = confirmation(Backfills(both[0]).send(*stretch))
    form.send(*stretch, confirmed=alone)
    assert not Session.objects.exists()
    assert "more than 1,000 times" in words(form.send("2019-01-01T00:00", "2020-01-01T00:00"))
    assert "must not be before from" in words(form.send(LAST, FIRST))


def test_a_lead_takes_over_what_others_own(project: Project, lead: Client) -> None:
    schedule = factories.schedule(project, factories.user(project=project))
    fields = {**FORM, "cron": "", "every": "60", "time_zone": "UTC"}
    assert "You are its owner." in words(lead.post(f"{AT}{schedule.pk}/", fields, follow=True))
    schedule.refresh_from_db()
    assert schedule.owner
    assert schedule.owner.username == "lea"
