"""Tests of the overview: shown to those whom it concerns, counted in a fixed number of
statements."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler import overview as overviews
from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.models import Executor
from sessions_app.models import Project, Queue, Session
from sessions_app.selectors import counts, throughput
from sessions_app.services.chains.dispatch import retries_dispatch
from tests.agent import Api, admin, agent
from tests.factories import executor, policy, project, queue, settle, start, submit, token, user

PATH = "overview/"
NODE = {"name": "n", "allocatable": {"cpu": "8"}, "free": {"cpu": "8"}}
LATER = policy(retry_delay=3600)


@pytest.fixture
def at() -> Project:
    return project("work")


def failed(at: Project, count: int = 1, **fields: Any) -> list[Session]:
    """Sessions that failed once, each with a retry that waits for an hour."""
    owner = user(superuser=True)
    return [
        settle(submit(at, owner=owner, retry_policy=LATER, **fields), exit_code=3)
        for _ in range(count)
    ]


def counted(value: int, *, more: bool = False) -> dict[str, Any]:
    return {"value": value, "more": more}


def test_nothing_goes_on(at: Project) -> None:
    seen = admin().read(PATH)
    assert seen.pop("at")
    assert seen == {
        "waiting": counted(0),
        "live": 0,
        "retries": {"scheduled": counted(0), "held": counted(0)},
        "pace": {
            "window": 10.0,
            **dict.fromkeys(("submitted", "settled", "succeeded", "failed", "retried"), 0),
            "cause_window": 60.0,
            "causes": {},
        },
        "queues": [],
        "more_queues": 0,
        "executors": [],
    }


def test_waiting_running_and_failed_sessions_are_shown(at: Project) -> None:
    night = queue(at, "night", priority_factor=4)
    owner = user(superuser=True)
    for _ in range(3):
        submit(at, owner=owner, queue="night", resources={"cpu": "1"})
    played = agent("one")
    played.nodes = [NODE]
    played.lease(limits={"max_sessions": 2})
    queue_usage_refresh()
    settle(start(submit(at, owner=owner)), exit_code=0, status="terminated")
    failed(at, 2)
    (child,) = failed(at)
    child.decision.due_at = timezone.now() - timedelta(seconds=1)
    child.decision.save()
    retries_dispatch()
    seen = admin().read(PATH)
    assert (seen["waiting"], seen["live"]) == (counted(2), 2)
    assert seen["retries"] == {"scheduled": counted(2), "held": counted(0)}
    assert seen["pace"] == {
        "window": 10.0,
        "submitted": 7,
        "settled": 4,
        "succeeded": 1,
        "failed": 3,
        "retried": 1,
        "cause_window": 60.0,
        "causes": {"kernel_nonzero_exit": 3},
    }
    first, second = seen["queues"]
    assert first == {
        "project": "acme/work",
        "name": night.name,
        "priority_factor": 4.0,
        "cordoned": False,
        "waiting": counted(1),
        "live": 2,
        # Of the two sessions that the executor takes at once.
        "share": 1.0,
        "effective_priority": 4.0,
    }
    assert (second["name"], second["waiting"], second["live"]) == ("default", counted(1), 0)
    (one,) = seen["executors"]
    # As the registry tells it.
    assert one.pop("heartbeat_age") >= 0
    listed = admin().read("executors/one/")
    assert one.items() <= listed.items()
    assert (one["health"], one["lease_count"], one["max_sessions"]) == ("alive", 2, 2)


def test_everybody_sees_their_own_projects(at: Project) -> None:
    other = project("other")
    failed(at, 2)
    failed(other, 3)
    submit(other)
    executor("one")
    member = Api(token(user(project=at)))
    mine, narrowed = member.read(PATH), admin().read(f"{PATH}?project=acme/work")
    for seen in (mine, narrowed):
        assert (seen["waiting"]["value"], seen["queues"]) == (0, [])
        assert seen["retries"]["scheduled"] == counted(2)
        assert seen["pace"]["failed"] == 2
    # The executors are the cluster's.
    assert mine["executors"] is None
    assert [each["health"] for each in narrowed["executors"]] == ["never_heard"]
    assert admin().read(PATH)["retries"]["scheduled"] == counted(5)
    # A project that one may not see is told like one that is not there.
    for address in ("acme/other", "acme/nowhere"):
        answer = member.get(f"{PATH}?project={address}")
        assert answer.status_code == 400
        assert answer.json()["errors"] == {"project": [f"no project {address} that you may see"]}


def test_a_silent_executor_is_marked(at: Project) -> None:
    Executor.objects.create(name="one", last_seen_at=timezone.now() - timedelta(seconds=90))
    (one,) = admin().read(PATH)["executors"]
    assert one["health"] == "silent"
    assert one["heartbeat_age"] == pytest.approx(90, abs=30)


def test_wrong_parameters_are_named(at: Project) -> None:
    for query, field in (("project=%00", "project"), ("colour=red", "colour")):
        response = admin().get(f"{PATH}?{query}")
        assert response.status_code == 400
        assert list(response.json()["errors"]) == [field]


def test_large_counts_stop_at_a_bound(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(counts, "COUNTED_OF_A_QUEUE", (2, 2))
    monkeypatch.setattr(overviews, "LISTED", 1)
    owner = user(superuser=True)
    queue(at, "night")
    for name in ("default", "default", "default", "night", "night"):
        submit(at, owner=owner, queue=name)
    seen = admin().read(PATH)
    assert seen["waiting"] == counted(4, more=True)
    assert [each["waiting"] for each in seen["queues"]] == [counted(2, more=True)]
    assert seen["more_queues"] == 1


def test_a_crowded_log_is_read_for_a_shorter_while(at: Project, monkeypatch: Any) -> None:
    failed(at, 5)
    monkeypatch.setattr(throughput, "READ", 6)
    seen = admin().read(PATH)["pace"]
    assert 0 < seen["cause_window"] < 60
    assert 1 <= sum(seen["causes"].values()) < 5


def test_the_number_of_statements_is_fixed(at: Project) -> None:
    api = admin()
    member = Api(token(user(project=at)))

    def statements(who: Api) -> int:
        who.read(PATH)  # the first use of a token is written down
        with CaptureQueriesContext(connection) as captured:
            who.read(PATH)
        return len(captured)

    submit(at)
    agent("one").lease(limits={"max_sessions": 1})
    before = statements(api), statements(member)
    owner = user(superuser=True)
    for number in range(5):
        made = queue(at, f"queue-{number}")
        failed(at, 3, queue=made.name)
        for _ in range(3):
            submit(at, owner=owner, queue=made.name)
        agent(f"executor-{number}").lease(limits={"max_sessions": 2})
    queue_usage_refresh()
    assert Queue.objects.count() > 5
    assert (statements(api), statements(member)) == before
    assert max(before) <= 16
