"""What operators are told: problems with the act that helps, switches, the last 24 hours; the page
and REST say the same, in a fixed number of statements."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from reprise.beat.periodic import ensure_periodic_tasks
from reprise.models import EventCursor, Heartbeat, HourCount, ParkedTask, PeriodicRun
from reprise.monitoring.metrics import events_count
from retry.engine.decide import Mode
from retry.policies.shared_budget import SharedBudget
from scheduler.models import Executor, Node
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import (
    Project,
    Queue,
    RetryBudgetState,
    RetryDecision,
    RetrySettings,
    RetrySlots,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.services.budgets.sweep import budgets_sweep
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.services.schedules.saving import schedule_pause
from tests import factories
from tests.agent import Api, admin
from tests.audit import audited_acts
from tests.integration.admin import World, operator

pytestmark = pytest.mark.django_db
LATER = {"max_retries": 3, "retry_delay": 3600.0, "jitter": "none"}
MOST = 33
"""The most statements of the page, with those of the sign-in."""
PARTS = tuple(f"/operations/{part}" for part in ("", "now/", "room/", "timetable/", "trends/"))
"""The page, and its parts with addresses of their own."""


@pytest.fixture
def at() -> Project:
    return factories.project("work")


@pytest.fixture
def calm() -> None:
    """A worker and beat that live, and an executor that was just heard."""
    now = timezone.now()
    for part in ("worker", "beat"):
        Heartbeat.objects.create(part=part, name=f"{part}-1", started_at=now, seen_at=now)
    factories.executor("east")
    Executor.objects.update(last_seen_at=now)


def problems() -> dict[str, dict[str, Any]]:
    """What REST tells of, by kind."""
    return {each["kind"]: each for each in admin().read("operations/")["problems"]}


def prose(response: Any) -> str:
    assert response.status_code == 200, response
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", response.content.decode())).split())


def at_minutes(minutes: float) -> Any:
    return timezone.now() - timedelta(minutes=minutes)


def test_nothing_is_wrong(calm: None) -> None:
    assert problems() == {}
    text = prose(operator().get("/operations/"))
    assert "Nothing is wrong" in text
    assert "The last 24 hours" in text


def test_schedules_are_told_with_their_next_times(at: Project) -> None:
    client, owner = operator(), factories.user(project=at)
    empty = prose(client.get("/operations/timetable/"))
    assert "No schedule has a time to come." in empty
    assert "No schedule is paused." in empty
    made = {
        name: factories.schedule(at, owner, name=name, every=every)
        for name, every in (("later", 7_200), ("sooner", 3_600), ("stopped", 60))
    }
    schedule_pause(made["stopped"], reason="its owner is gone", by="reprise")
    text = prose(client.get("/operations/timetable/"))
    assert text.index("acme/work/sooner") < text.index("acme/work/later")
    assert f"{made['sooner'].next_at:%Y-%m-%d %H:%M}" in text
    assert "its owner is gone" in text
    page = client.get("/operations/").content.decode()
    assert f'href="/projects/acme/work/schedules/{made["stopped"].pk}/"' in page
    assert 'hx-get="/operations/timetable/"' in page
    told = admin().read("operations/")["schedules"]
    assert [each["name"] for each in told["coming"]] == ["sooner", "later"]
    assert told["coming"][0]["every"] == 3_600
    (stopped,) = told["paused"]
    assert (stopped["project"], stopped["owner"]) == ("acme/work", owner.username)
    assert (stopped["paused_reason"], stopped["cron"]) == ("its owner is gone", None)


def test_many_schedules_are_the_same_statements(at: Project) -> None:
    client, api, owner = operator(), admin(), factories.user(project=at)
    api.read("operations/")

    def spent(count: int) -> int:
        for number in range(count):
            made = factories.schedule(at, owner)
            if number % 2:
                schedule_pause(made, reason="because", by="ann")
        with CaptureQueriesContext(connection) as done:
            assert client.get("/operations/timetable/").status_code == 200
            api.read("operations/")
        return len(done)

    assert spent(2) == spent(10)


def test_a_machinery_that_stands_still_is_the_worst(at: Project) -> None:
    factories.submit(at)
    now = timezone.now()
    Heartbeat.objects.create(part="beat", name="b", started_at=now, seen_at=at_minutes(10))
    seen = admin().read("operations/")["problems"]
    assert [(each["kind"], each["severity"]) for each in seen] == [
        ("no_executor", "critical"),
        ("no_beat", "critical"),
        ("no_worker", "critical"),
    ]
    assert seen[0]["affected"] == {"value": 1, "more": False}
    assert seen[1]["since"] is not None


def test_processes_that_died_and_tasks_that_fail(calm: None) -> None:
    now = timezone.now()
    Heartbeat.objects.create(part="worker", name="w", started_at=now, seen_at=at_minutes(5))
    Heartbeat.objects.create(part="worker", name="old", started_at=now, seen_at=at_minutes(90))
    Heartbeat.objects.filter(part="beat").update(doing="runs the sweeps of deadlines itself")
    ensure_periodic_tasks()
    PeriodicTask.objects.filter(name="deliver webhooks").update(enabled=False)
    for name, minutes, error in (("metrics snapshot", 30, ""), ("expire leases", 0, "no such")):
        started = at_minutes(minutes)
        PeriodicRun.objects.create(name=name, started_at=started, duration=1, error=error)
    message = {"first_parked_at": now, "parked_at": now, "message": b"{}", "queue": "retry"}
    ParkedTask.objects.create(task_id="one", name="a.task", reason="rejected", **message)
    seen = problems()
    assert {kind: each["subject"] for kind, each in seen.items()} == {
        "dead_worker": "w",
        "beat_standby": "beat-1",
        "periodic_off": "deliver webhooks",
        "periodic_failed": "expire leases",
        "periodic_late": "metrics snapshot",
        "parked": "a.task",
    }
    assert seen["parked"]["acts"] == [{"name": "parked_send", "of": "a.task"}]


def test_executors_that_need_somebody(at: Project, calm: None) -> None:
    factories.executor("new")
    said = {
        "silent": {"last_seen_at": at_minutes(60)},
        "broken": {"trouble": "no quota", "last_seen_at": timezone.now()},
        "closed": {"cordoned": True, "cordon_reason": "moves", "last_seen_at": timezone.now()},
        "part": {
            "project_troubles": {at.pk: {"project": "acme/work", "trouble": "no namespace"}},
            "last_seen_at": timezone.now(),
        },
    }
    for name, fields in said.items():
        factories.executor(name)
        Executor.objects.filter(name=name).update(**fields)
    seen = problems()
    assert {kind: (each["subject"], each["severity"]) for kind, each in seen.items()} == {
        "executor_never_heard": ("new", "notice"),
        "executor_silent": ("silent", "warning"),
        "executor_trouble": ("broken", "warning"),
        "executor_cordoned": ("closed", "notice"),
        "project_trouble": ("part", "warning"),
    }
    assert "no namespace" in seen["project_trouble"]["sentence"]
    assert [act["name"] for act in seen["executor_cordoned"]["acts"]] == [
        "executor_uncordon",
        "executor_drain",
    ]


def test_nodes_that_are_out_have_their_buttons(at: Project, calm: None) -> None:
    rack = factories.executor("rack")
    now = timezone.now()
    Executor.objects.update(last_seen_at=now, avoid_suspects="retries")
    until = now + timedelta(minutes=30)
    suspect = {"suspected_at": now, "suspected_until": until, "reason": "6 of 6 attempts failed"}
    Node.objects.create(executor=rack, name="n1", address="rack/n1", **suspect)
    Node.objects.create(executor=rack, name="n2", address="rack/n2")
    seen = problems()
    assert seen.keys() == {"node_suspect"}
    assert "6 of 6 attempts failed." in seen["node_suspect"]["sentence"]
    assert [act["name"] for act in seen["node_suspect"]["acts"]] == [
        "node_quarantine",
        "node_release",
    ]
    client = operator()
    address = "/operations/node_quarantine/?of=rack/n1"
    assert client.post(address).status_code == 400  # without a reason
    assert "is in quarantine." in prose(client.post(address, {"reason": "disk"}, follow=True))
    (closed,) = problems().values()
    assert (closed["kind"], closed["severity"]) == ("node_quarantined", "notice")
    release = "/operations/node_release/?of=rack/n1"
    assert "Yes, " in prose(client.get(release))
    assert "gets leases again." in prose(client.post(release, follow=True))
    assert problems() == {}


def test_an_open_breaker_is_closed_with_its_button(at: Project, calm: None) -> None:
    failed = factories.settle(factories.start(factories.submit(at)), message="no licence")
    factories.failure(failed)
    key = failed.failure_signature
    breaker = factories.breaker(at, signature=key, reason="the licence server is down")
    waits = factories.settle(
        factories.start(factories.submit(at, retry_policy=factories.policy())), exit_code=7
    )
    RetryDecision.objects.filter(session=waits).update(
        state="held", held_for="breaker", held_key=str(breaker)
    )
    (seen,) = problems().values()
    assert (seen["kind"], seen["subject"]) == ("breaker_open", str(breaker.pk))
    assert seen["acts"] == [{"name": "breaker_close", "of": str(breaker.pk)}]
    told = f"The breaker of acme/work is open for no licence ({key}), so retries"
    assert seen["sentence"].startswith(told)
    assert (seen["affected"]["value"], seen["unit"]) == (1, "held retries")
    client, address = operator(), f"/operations/breaker_close/?of={breaker.pk}"
    assert address in client.get("/operations/").content.decode()
    assert f"Close the breaker of {breaker.signature}?" in prose(client.get(address))
    told = prose(client.post(address, {"reason": "it is up again"}, follow=True))
    assert f"The breaker of {breaker.signature} (acme/work) is closed." in told
    assert problems() == {}
    (entry,) = audited_acts().filter(action="breaker.close")
    assert (entry.actor, entry.data["reason"]) == ("root", "it is up again")
    for gone in ("no id", "00000000-0000-4000-8000-000000000000"):
        assert client.get(f"/operations/breaker_close/?of={gone}").status_code == 404


def test_spent_budgets_tell_what_they_hold_and_lead_to_their_forms(at: Project, calm: None) -> None:
    queue = factories.queue(at, "one")
    keys = {}
    for scope, name in ((None, "cluster"), (at, "acme/work"), (queue, "acme/work/one")):
        keys[name] = factories.spent_budget(scope).scope
    RetryBudgetState.objects.create(scope="project:0", spent_since=None, judged_at=timezone.now())
    Queue.objects.filter(pk=queue.pk).update(retry_budget={"over": "fail"})
    held = factories.settle(factories.submit(at, retry_policy=LATER))
    RetryDecision.objects.filter(session=held).update(
        state="held", held_for="shared_budget", held_key=keys["acme/work"], held_order=at_minutes(1)
    )
    seen = {
        each["subject"]: each
        for each in admin().read("operations/")["problems"]
        if each["kind"] == "budget_spent"
    }
    assert {name: each["affected"]["value"] for name, each in seen.items()} == {
        "cluster": 0,
        "acme/work": 1,
        "acme/work/one": 0,
    }
    said = "The shared retry budget of {} is spent: {}."
    waits, ends = "retries over it wait for room", "chains that fail there end"
    assert {name: each["sentence"] for name, each in seen.items()} == {
        "cluster": said.format("the cluster", waits),
        "acme/work": said.format("acme/work", waits),
        "acme/work/one": said.format("acme/work/one", ends),
    }
    # Only what holds or ends something is a warning.
    assert {name: each["severity"] for name, each in seen.items()} == {
        "cluster": "notice",
        "acme/work": "warning",
        "acme/work/one": "warning",
    }
    assert all(each["since"] for each in seen.values())
    client = operator()
    page = client.get("/operations/").content.decode()
    links = {
        name: link for link, name in re.findall(r'<a href="([^"]+)">Form of ([^<]+)</a>', page)
    }
    cluster, own = (RetrySettings.objects.get(project=scope).pk for scope in (None, at))
    assert links == {
        "cluster": f"/admin/sessions_app/retrysettings/{cluster}/change/",
        "acme/work": f"/admin/sessions_app/retrysettings/{own}/change/",
        "acme/work/one": f"/admin/sessions_app/queue/{queue.pk}/change/",
    }
    for link in links.values():
        assert 'name="retry_budget"' in client.get(link).content.decode()
    assert {name: each["acts"] for name, each in seen.items()} == {
        "cluster": [{"name": "budget_raise", "of": ""}],
        "acme/work": [{"name": "budget_raise", "of": "acme/work"}],
        "acme/work/one": [{"name": "budget_raise", "of": "acme/work/one"}],
    }


def test_a_spent_budget_is_raised_with_its_button(at: Project, calm: None) -> None:
    queue = factories.queue(at, "one")
    key = factories.spent_budget(at).scope
    factories.spent_budget(queue)
    factories.spent_budget(None)
    held = [factories.settle(factories.submit(at, retry_policy=LATER)) for _ in range(12)]
    RetryDecision.objects.filter(session__in=held).update(
        state="held", held_for="shared_budget", held_key=key, held_order=at_minutes(1)
    )
    client, address = operator(), "/operations/budget_raise/?of=acme%2Fwork"
    assert address in client.get("/operations/").content.decode()
    asked = client.get(address)
    assert "Raise the shared retry budget of acme/work?" in prose(asked)
    assert "so many retries within 1 h, and 0.2 more" in prose(asked)
    assert "held retries 12" in prose(asked)
    assert 'name="burst" value="12"' in asked.content.decode()
    for wrong in ("", "0", "-3", "much", "1000001"):
        answer = client.post(address, {"burst": wrong})
        assert (answer.status_code, b"field-burst-error" in answer.content) == (400, True), wrong
    told = prose(client.post(address, {"burst": "12"}, follow=True))
    assert "The shared retry budget of acme/work has a burst of 12." in told
    settings = RetrySettings.objects.get(project=at)
    assert settings.retry_budget == SharedBudget(burst=12).stored()
    assert audited_acts().filter(actor="root", object_id=at.address).exists()
    budgets_sweep()
    assert "acme/work" not in [each["subject"] for each in listed("budget_spent")]
    for of, whose in (("", "the cluster"), ("acme/work/one", "acme/work/one")):
        asked = client.get(f"/operations/budget_raise/?of={of}")
        assert 'name="burst" value="10"' in asked.content.decode()
        told = prose(client.post(f"/operations/budget_raise/?of={of}", {"burst": "7"}, follow=True))
        assert f"The shared retry budget of {whose} has a burst of 7." in told
    assert Queue.objects.get(pk=queue.pk).retry_budget == SharedBudget(burst=7).stored()
    for none in ("acme/work/default", "acme", "acme/work/no", "no/where"):
        assert client.get(f"/operations/budget_raise/?of={none}").status_code == 404, none


def listed(kind: str) -> list[dict[str, Any]]:
    return [each for each in admin().read("operations/")["problems"] if each["kind"] == kind]


def test_parked_chains_are_all_retried_or_given_up_with_their_buttons(
    at: Project, calm: None
) -> None:
    first, client = [factories.parked(at) for _ in range(2)], operator()
    (seen,) = listed("parked_chains")
    names = ["chains_retry", "chains_give_up"]
    assert seen["acts"] == [{"name": name, "of": ""} for name in names]
    html = client.get("/operations/").content.decode()
    assert all(f'href="/operations/{name}/"' in html for name in names)
    asked = prose(client.get("/operations/chains_give_up/"))
    assert "Give up all parked chains?" in asked
    assert "parked chains 2" in asked
    told = prose(client.post("/operations/chains_give_up/", follow=True))
    assert "2 of 2 given up" in told
    assert {factories.reread(each).retry_state for each in first} == {"exhausted"}
    assert audited_acts().filter(action="retry.give_up", actor="root").count() == 2
    again = [factories.parked(at) for _ in range(2)]
    assert "Retry all parked chains?" in prose(client.get("/operations/chains_retry/"))
    assert "2 of 2 retried" in prose(client.post("/operations/chains_retry/", follow=True))
    assert Session.objects.filter(parent__in=again).count() == 2
    for name in names:
        told = prose(client.post(f"/operations/{name}/", follow=True))
        assert "Not done: no chain is parked any more." in told


def test_work_that_is_late_or_held(at: Project, calm: None) -> None:
    factories.queue(at, "shut", cordoned=True, cordon_reason="moving")
    waits = factories.submit(at, queue="shut")
    Session.objects.filter(pk=waits.pk).update(created_at=at_minutes(120))
    due, held = (factories.settle(factories.submit(at, retry_policy=LATER)) for _ in range(2))
    RetryDecision.objects.filter(session=due).update(due_at=at_minutes(2))
    Session.objects.filter(pk=held.pk).update(resting="held", retry_state="held")
    RetryDecision.objects.filter(session=held).update(state="held")
    retry_settings_put(ConfigScope(project=at), by="root", mode=Mode.PAUSED)
    minute = timezone.now().replace(second=0, microsecond=0) + timedelta(minutes=3)
    RetrySlots.objects.create(queue=None, minute=minute, taken=70)
    seen = problems()
    assert seen.keys() == {
        *("late_retry", "retries_paused", "storm", "queue_cordoned", "oldest_waiting")
    }
    assert seen["late_retry"]["affected"]["value"] == 1
    assert seen["retries_paused"]["acts"] == [{"name": "retries_on", "of": "acme/work"}]
    assert (seen["storm"]["affected"]["value"], seen["storm"]["severity"]) == (70, "warning")
    assert seen["oldest_waiting"]["subject"] == str(waits.pk)
    assert "cordoned" in seen["oldest_waiting"]["sentence"]
    (cluster, own) = (
        each for each in admin().read("operations/")["switches"] if each["kind"] == "retries"
    )
    assert (cluster["name"], cluster["state"], cluster["would_hold"]["value"]) == ("", "on", 1)
    assert (own["name"], own["state"], own["holds"]["value"]) == ("acme/work", "paused", 1)
    text = prose(operator().get("/operations/now/"))
    assert all(each["sentence"] in text for each in seen.values())


def test_it_is_for_operators_only(at: Project) -> None:
    member = Client()
    member.force_login(factories.user("mia", domain=at.domain, role=Role.DOMAIN_ADMIN))
    factories.spent_budget(at)
    acts = [
        *(f"/operations/{name}/?of={at.address}" for name in ("retries_pause", "budget_raise")),
        *("/operations/chains_retry/", "/operations/chains_give_up/"),
    ]
    for path in (*PARTS, *acts):
        assert member.get(path).status_code == 404, path
        assert Client().get(path).status_code == 302, path
    assert {member.post(act, {"burst": "9"}).status_code for act in acts} == {404}
    assert RetrySettings.objects.get().retry_budget == SharedBudget(burst=0).stored()
    assert b"/operations/" not in member.get("/").content
    assert b'href="/operations/"' in operator().get("/").content
    assert RetrySettings.objects.get().mode == "on"


def test_an_act_is_asked_about_and_then_done(at: Project, calm: None) -> None:
    factories.settle(factories.submit(at, retry_policy=LATER))
    client = operator()
    address = "/operations/retries_pause/"
    asked = prose(client.get(address))
    assert "Pause the retries of the whole cluster?" in asked
    assert "1 scheduled retry will be held when due." in asked
    assert not RetrySettings.objects.exists()
    assert "Retries of the whole cluster are paused." in prose(client.post(address, follow=True))
    assert RetrySettings.objects.get().mode == "paused"
    assert audited_acts().filter(actor="root", object_id="cluster").exists()
    assert client.get("/operations/retries_pause/?of=no/where").status_code == 404
    assert client.get("/operations/nothing/").status_code == 404


def test_a_cordon_needs_a_reason(at: Project, calm: None) -> None:
    client = operator()
    for address in (
        "/operations/executor_cordon/?of=east",
        f"/operations/queue_cordon/?of={QUEUE}",
    ):
        assert client.post(address).status_code == 400, address
        assert "is cordoned." in prose(client.post(address, {"reason": "moves"}, follow=True))
    assert Executor.objects.get().cordon_reason == "moves"
    for address in (
        "/operations/executor_drain/?of=east",
        "/operations/executor_uncordon/?of=east",
    ):
        assert "Yes, " in prose(client.get(address))
        client.post(address)
    executor = Executor.objects.get()
    assert (executor.cordoned, executor.draining_since) == (False, None)
    assert "is open." in prose(client.post(f"/operations/queue_uncordon/?of={QUEUE}", follow=True))


QUEUE = "acme/work/default"


def test_parked_tasks_are_sent_again_only_if_there_are_any() -> None:
    told = prose(operator().post("/operations/parked_send/?of=a.task", follow=True))
    assert "Not done: no task a.task is parked." in told


def test_the_page_takes_as_many_statements_for_20_rows_as_for_2() -> None:
    world, client = World(2), operator()

    def statements(path: str) -> int:
        client.get(path)
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200
        return len(captured)

    act = "/operations/retries_pause/"
    pages = (*PARTS, act)
    few = {path: statements(path) for path in pages}
    world.grow(18)
    assert {path: statements(path) for path in pages} == few
    assert few["/operations/"] <= MOST
    assert few[act] <= 20


def test_the_last_hours_are_the_same_before_and_after_they_are_counted(at: Project) -> None:
    once = {"max_retries": 0}
    for code in (3, 137):
        factories.settle(factories.start(factories.submit(at, retry_policy=once)), exit_code=code)
    ended = factories.start(factories.submit(at))
    factories.settle(ended, status="terminated", exit_code=0)
    before = hours()
    assert sum(each["submitted"] for each in before) == 3
    assert sum(each["failed"] for each in before) == 2
    assert sum(each["succeeded"] for each in before) == 1
    assert sum(sum(each["causes"].values()) for each in before) == 2
    assert events_count() == 0  # the first mark
    EventCursor.objects.update(fence_xid=0, fence_at=at_minutes(5))
    HourCount.objects.create(hour=at_minutes(60 * 50), type="session.error", value=7)
    assert events_count() > 0
    assert HourCount.objects.exclude(value=7).exists()
    assert not HourCount.objects.filter(value=7).exists(), "nobody is shown it"
    assert hours() == before
    text = prose(operator().get("/operations/"))
    assert "Ends of attempts" in text


def hours() -> list[dict[str, Any]]:
    found = admin().read("operations/trends/")["hours"]
    assert len(found) == 24
    return list(found)


def test_a_token_of_one_project_is_told_nothing(at: Project) -> None:
    narrow = Api(factories.token(factories.user(superuser=True), project=at))
    assert narrow.get("operations/").status_code == 403
