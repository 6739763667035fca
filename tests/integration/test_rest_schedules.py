"""Schedules over REST, with the SDK's and the command's words for them."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.locks import database_now
from sessions_app.models import AuditEntry, Project, Schedule, Session, SessionSpec
from sessions_app.models.tenants import Role
from tests import factories
from tests.agent import Api, agent

DOCS = Path(__file__).parents[2] / "docs" / "schedules.md"


def body(at: Project, **fields: Any) -> dict[str, Any]:
    usual = {"project": at.address, "name": "nightly", "template": {"command": ["true"]}}
    return usual | ({} if "cron" in fields or "every" in fields else {"every": 60}) | fields


def made(api: Api, at: Project, **fields: Any) -> dict[str, Any]:
    response = api.post("schedules/", body(at, **fields))
    assert response.status_code == 201, response.content
    answer: dict[str, Any] = response.json()
    assert response["Location"].endswith(f"/api/v2/schedules/{answer['id']}/")
    return answer


def refused(response: Any, status: int = 400) -> dict[str, list[str]]:
    assert response.status_code == status, response.content
    errors: dict[str, list[str]] = response.json()["errors"]
    return errors


def test_the_example_of_the_docs_is_what_the_api_takes(api: Api, at: Project) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    document = yaml.safe_load(example)
    answer = made(api, at, name=document["metadata"]["name"], **document["spec"])
    assert {name: answer[name] for name in document["spec"]} == document["spec"]
    first, *_ = answer["next_times"]
    at_night = datetime.fromisoformat(first)
    assert (at_night.minute, at_night.hour in {1, 2}) == (30, True)
    assert len(answer["next_times"]) == 5
    assert answer["next_at"] == first
    triggered = api.post(f"schedules/{answer['id']}/trigger/").json()
    session = Session.objects.get(pk=triggered["id"])
    assert session.creation_id.endswith(":trigger-1")
    assert session.max_retries == 3


def test_it_is_read_changed_and_deleted(api: Api, at: Project) -> None:
    agent().lease()
    one = made(api, at, cron="@daily", queue="default", jitter=30)
    path = f"schedules/{one['id']}/"
    assert api.read(path) == one
    assert [each["id"] for each in api.read(f"schedules/?project={at.address}")["results"]] == [
        one["id"]
    ]
    assert api.read("schedules/?name=other")["results"] == []
    assert api.read("schedules/?paused=true")["results"] == []
    changed = api.call("PATCH", path, {"every": 90, "from": "2199-01-01T00:00:00+01:00"}).json()
    assert (changed["cron"], changed["every"], changed["queue"]) == (None, 90, "default")
    assert changed["from"] == changed["next_at"] == "2198-12-31T23:00:00Z"
    whole = api.call("PUT", path, {"every": 60, "template": {"image": "a"}, "paused": True}).json()
    assert (whole["queue"], whole["jitter"], whole["from"], whole["paused"]) == (
        None,
        0,
        None,
        True,
    )
    assert whole["template"] == {"image": "a"}
    assert api.call("DELETE", path).status_code == 204
    assert api.get(path).status_code == 404
    actions = AuditEntry.objects.filter(object_type="schedule").values_list("action", flat=True)
    assert {*actions} == {"schedule.create", "schedule.change", "schedule.delete"}


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"cron": "0 0 * *"}, "cron", "five fields"),
    ({"cron": "@daily", "every": 5}, "cron", "either this or every"),
    ({"cron": None}, "cron", "either this or every"),
    ({"every": 0}, "every", "greater than or equal to 1"),
    ({"cron": "@daily", "time_zone": "Mars"}, "time_zone", "IANA"),
    ({"until": "2020-01-01T00:00:00Z"}, "until", "never fire"),
    ({"from": "2300-01-01T00:00:00Z"}, "from", "before the year 2200"),
    ({"cron": "0 0 31 2 *"}, "cron", "bad day-of-month"),
    ({"queue": "none"}, "queue", "no queue none"),
    ({"overlap": "alow"}, "overlap", "did you mean allow"),
    ({"template": {}}, "template.command", "give a command"),
    ({"template": {"command": ["a"], "queue": "b"}}, "template.queue", "not a known field"),
    ({"template": {"command": 7}}, "template.command", "list"),
    ({"name": "Bad_Name"}, "name", ""),
    ({"catch_up": -1}, "catch_up", "greater than or equal to 0"),
    ({"pause_after": 51}, "pause_after", "less than or equal to 50"),
    ({"mystery": 1}, "mystery", "not a known field"),
]


@pytest.mark.parametrize(("fields", "name", "why"), BAD, ids=[each[1] for each in BAD])
def test_bad_input_names_the_field(
    api: Api, at: Project, fields: dict[str, Any], name: str, why: str
) -> None:
    errors = refused(api.post("schedules/", body(at, **fields)))
    assert why in " ".join(errors[name])
    assert not Schedule.objects.exists()


def test_a_name_is_taken_once(api: Api, at: Project) -> None:
    made(api, at)
    assert refused(api.post("schedules/", body(at)), 409) == {"name": ["is taken"]}


def test_the_next_times_are_shown_before_anything_is_saved(api: Api) -> None:
    asked = {"cron": "0 12 1 1 *", "time_zone": "Asia/Tokyo", "from": "2100-06-01T00:00:00Z"}
    times = api.post("schedules/preview/", asked).json()["times"]
    assert times == [f"{year}-01-01T03:00:00Z" for year in range(2101, 2106)]
    assert refused(api.post("schedules/preview/", {"cron": "x"}))["cron"]
    assert not Schedule.objects.exists()


def test_users_may_not_begin_an_id_with_schedule(api: Api, at: Project) -> None:
    one = {"project": at.address, "command": ["true"]}
    for given in ({"creation_id": "schedule:x"}, {"creation_id": "schedule:"}):
        errors = refused(api.post("sessions/", one | given))
        assert "must not begin with 'schedule:'" in errors["creation_id"][0]
    key = api.post("sessions/", one, headers={
        "Authorization": f"Bearer {api.token}", "Idempotency-Key": "schedule:x",
    })  # fmt: skip
    assert "must not begin with" in refused(key)["Idempotency-Key"][0]
    bulk = api.post("sessions/bulk/", {"sessions": [one | {"creation_id": "schedule:x"}]}).json()
    assert bulk["results"][0]["outcome"] == "refused"


def test_it_is_paused_and_resumed(api: Api, at: Project) -> None:
    one = made(api, at)
    path = f"schedules/{one['id']}/"
    paused = api.post(f"{path}pause/", {"reason": "moving"}).json()
    assert (paused["paused"], paused["paused_reason"]) == (True, "moving")
    assert api.post(f"{path}pause/", {"reason": "again"}).json()["paused_reason"] == "moving"
    resumed = api.post(f"{path}resume/").json()
    assert (resumed["paused"], resumed["paused_reason"], resumed["paused_at"]) == (False, "", None)
    assert datetime.fromisoformat(resumed["next_at"]) > database_now()
    assert refused(api.post(f"{path}resume/", {"a": 1})) == {"a": ["is not a known field"]}
    actions = AuditEntry.objects.filter(object_type="schedule").values_list("action", flat=True)
    assert {*actions} == {"schedule.create", "schedule.pause", "schedule.resume"}


def test_whoever_changes_it_owns_it(api: Api, at: Project) -> None:
    one = made(api, at)
    assert one["owner"] == "ann"
    lead = Api(factories.token(factories.user("lea", project=at, role=Role.MAINTAINER)))
    changed = lead.call("PATCH", f"schedules/{one['id']}/", {"jitter": 5}).json()
    assert changed["owner"] == "lea"
    assert api.call("PATCH", f"schedules/{one['id']}/", {"jitter": 6}).status_code == 403


class TestBackfill:
    SPAN = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-01T03:00:00Z"}

    def test_a_dry_run_shows_the_times_and_makes_nothing(self, api: Api, at: Project) -> None:
        one = made(api, at, cron="@hourly")
        path = f"schedules/{one['id']}/backfill/"
        found = api.post(path, {**self.SPAN, "dry_run": True}).json()
        assert (found["dry_run"], found["made"], len(found["results"])) == (True, 0, 4)
        assert found["results"][0] == {
            "time": "2020-01-01T00:00:00Z",
            "creation_id": f"schedule:{one['id']}:2020-01-01T00:00:00Z:backfill-1",
            "session_id": None,
            "error": None,
        }
        assert not Session.objects.exists()

    def test_each_backfill_makes_the_sessions_of_its_times(self, api: Api, at: Project) -> None:
        one = made(api, at, cron="@hourly")
        path = f"schedules/{one['id']}/backfill/"
        for number in (1, 2):
            done = api.post(path, self.SPAN).json()
            assert done["made"] == 4
            ids = [each["creation_id"] for each in done["results"]]
            assert all(each.endswith(f":backfill-{number}") for each in ids)
        assert Session.objects.count() == 8
        spec = SessionSpec.objects.order_by("sessions__creation_id").first()
        assert spec
        assert spec.environ == {"REPRISE_SCHEDULED_TIME": "2020-01-01T00:00:00Z"}
        entry = AuditEntry.objects.filter(action="schedule.backfill").latest("pk")
        assert (entry.actor, entry.data["chains"]) == ("ann", "4")
        assert api.read(f"schedules/{one['id']}/")["recent"] == []

    def test_too_many_times_and_wrong_ones_are_refused(self, api: Api, at: Project) -> None:
        one = made(api, at)
        path = f"schedules/{one['id']}/backfill/"
        Schedule.objects.update(created_at=datetime(2019, 1, 1, tzinfo=UTC))
        assert api.post(path, {**self.SPAN, "to": "2020-02-01T00:00:00Z"}).status_code == 413
        wrong = {"from": self.SPAN["to"], "to": self.SPAN["from"]}
        assert refused(api.post(path, wrong)) == {"to": ["must not be before from"]}
        late = {**self.SPAN, "to": (database_now() + timedelta(days=1)).isoformat()}
        assert "must not be in the future" in refused(api.post(path, late))["to"][0]
        assert not Session.objects.exists()


def test_a_list_takes_as_many_statements_for_many_as_for_few(
    api: Api, at: Project, django_assert_num_queries: Any
) -> None:
    owner = factories.user("planner", project=at)

    def listed() -> int:
        return len(api.read("schedules/?page_size=500")["results"])

    factories.schedule(at, owner)
    listed()

    with CaptureQueriesContext(connection) as few:
        assert listed() == 1
    for _ in range(20):
        factories.schedule(at, owner)
    with django_assert_num_queries(len(few)):
        assert listed() == 21
