"""A retry by hand may change what runs; later attempts of the chain keep the changes."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from sessions_app.models import (
    AuditEntry,
    Project,
    RetryDefaults,
    RetrySettings,
    Session,
    SessionEvent,
)
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api
from tests.invariants import check_all

CHANGES: dict[str, Any] = {
    "image": "train:2",
    "command": ["python", "train.py", "--resume"],
    "environ": {"MODE": "safe", "OLD": None},
    "resources": {"memory": "4Gi"},
    "priority": 7,
    "batch_timeout": 60,
    "retry_policy": {"max_retries": 5},
}


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("ann", project=at, role=Role.MAINTAINER)))


def failed(at: Project, **fields: Any) -> Session:
    asked = {"image": "train:1", "environ": {"OLD": "1", "KEPT": "2"}, **fields}
    policy = factories.policy(max_retries=0)
    session = factories.submit(at, **{"retry_policy": policy, **asked})
    return factories.settle(factories.start(session))


def retried(api: Api, session: Session, **body: Any) -> dict[str, Any]:
    answer = api.post(f"sessions/{session.pk}/retry/", body)
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_the_next_attempt_runs_what_was_asked_for(at: Project, api: Api) -> None:
    session = failed(at, resources={"cpu": "1", "memory": "1Gi"})
    child = retried(api, session, changes=CHANGES, reason="the new image is fixed")
    names = ("image", "command", "priority", "batch_timeout", "max_retries")
    assert {name: child[name] for name in names} == {
        "image": "train:2",
        "command": ["python", "train.py", "--resume"],
        "priority": 7,
        "batch_timeout": 60.0,
        "max_retries": 5,
    }
    assert child["environ"] == {"KEPT": "2", "MODE": "safe"}
    assert child["resources"] == {"cpu": "1", "memory": "4Gi"}
    assert child["retry_policy"]["max_retries"] == 5
    assert child["retry_policy"]["retry_delay"] == 1e-6
    assert child["retry_counters"] == {"manual": 1}
    first = api.read(f"sessions/{session.pk}/")
    assert (first["image"], first["priority"], first["max_retries"]) == ("train:1", 0, 0)
    before, after = api.read(f"sessions/{session.pk}/attempts/")
    assert before["changes"] is None
    assert after["changes"] == {
        **CHANGES, "environ": ["MODE", "OLD"], "reason": "the new image is fixed",
    }  # fmt: skip
    assert "safe" not in json.dumps(after)
    entry = AuditEntry.objects.get(action="retry.dispatch")
    assert entry.data["changes"]["reason"] == "the new image is fixed"
    assert check_all() == []


def test_later_attempts_keep_the_changes(at: Project, api: Api) -> None:
    child = retried(api, failed(at), changes=CHANGES)
    factories.settle(factories.start(Session.objects.get(pk=child["id"])))
    assert retries_dispatch().dispatched == 1
    third = api.read(f"sessions/{child['id']}/")["retry_state"]["next_session_id"]
    found = api.read(f"sessions/{third}/")
    assert (found["image"], found["priority"], found["max_retries"]) == ("train:2", 7, 5)
    assert found["retry_counters"] == {"manual": 1, "inline/failure": 1}
    assert [each["changes"] is None for each in api.read(f"sessions/{third}/attempts/")] == [
        *(True, False, True),
    ]
    assert check_all() == []


def test_the_audit_log_tells_how_many_attempts_the_changed_policy_allows(
    at: Project, api: Api
) -> None:
    retried(api, failed(at), changes={"retry_policy": {"max_retries": 5}})
    retried(api, failed(at))
    entries = AuditEntry.objects.filter(action="retry.dispatch").order_by("pk")
    # The first attempt, the one by hand, and what the policy pays.
    assert [each.data["max_attempts"] for each in entries] == [7, 2]


def test_in_bulk_those_that_wait_get_the_changes_later(at: Project, api: Api) -> None:
    RetrySettings.objects.create(retries_per_minute=1)
    sessions = [failed(at) for _ in range(2)]
    body = {"filter": {"status": "ERROR"}, "changes": {"image": "train:2"}, "reason": "try"}
    done = api.post("sessions/bulk-retry/", body).json()
    assert sorted(each["outcome"] for each in done["results"]) == ["retried", "scheduled"]
    RetrySettings.objects.update(retries_per_minute=None)
    waiting = next(each for each in done["results"] if each["outcome"] == "scheduled")
    child = retried(api, next(s for s in sessions if str(s.pk) == waiting["session_id"]))
    assert child["image"] == "train:2"
    shown = api.read(f"sessions/{child['id']}/attempts/")[-1]["changes"]
    assert shown == {"image": "train:2", "reason": "try"}
    assert check_all() == []


def test_a_new_request_stays_below_the_limit_that_is_kept(at: Project, api: Api) -> None:
    had = {"requests": {"memory": "1Gi"}, "limits": {"memory": "4Gi"}}
    session = failed(at, resources=had)
    body = {"changes": {"resources": {"requests": {"memory": "8Gi"}}}}
    refused = api.post(f"sessions/{session.pk}/retry/", body)
    assert refused.status_code == 400
    (why,) = refused.json()["errors"]["changes.resources"]
    assert why == "memory: the request of 8Gi is above its limit of 4Gi"
    assert not Session.objects.filter(parent=session).exists()
    body["changes"]["resources"]["limits"] = {"memory": "8Gi"}
    assert retried(api, session, **body)["resources"] == body["changes"]["resources"]


def test_changes_of_two_requests_are_told_as_the_attempt_gets_them(at: Project, api: Api) -> None:
    RetrySettings.objects.create(retries_per_minute=1)
    had = {"cpu": "1", "memory": "1Gi"}
    sessions = {str(each.pk): each for each in (failed(at, resources=had) for _ in range(2))}
    more = {"resources": {"memory": "16Gi"}}
    done = api.post("sessions/bulk-retry/", {"filter": {"status": "ERROR"}, "changes": more}).json()
    (waiting,) = (each for each in done["results"] if each["outcome"] == "scheduled")
    RetrySettings.objects.update(retries_per_minute=None)
    session = sessions[waiting["session_id"]]
    child = retried(api, session, changes={"resources": {"cpu": "4"}})
    both = {"cpu": "4", "memory": "16Gi"}
    assert child["resources"] == both
    shown = api.read(f"sessions/{child['id']}/attempts/")[-1]["changes"]
    assert shown["resources"] == both
    told = SessionEvent.objects.get(type="session.retry_dispatched", session_id=session.pk)
    assert told.data["changes"]["resources"] == both
    acts = AuditEntry.objects.filter(action="retry.dispatch", object_id=str(session.pk))
    assert [each.data["changes"]["resources"] for each in acts][-1] == both
    assert check_all() == []


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"image": ""}, "changes.image", "at least 1"),
        ({"command": []}, "changes.command", "at least 1"),
        ({"priority": 1e9}, "changes.priority", "1000000"),
        ({"queue": "x"}, "changes.queue", ""),
        ({"batch_timeout": -1}, "changes.batch_timeout", "between 0"),
        ({"retry_policy": {"max_retries": -1}}, "changes.retry_policy.max_retries", "between 0"),
        ({"retry_policy": {"max_retries": 9}}, "changes.retry_policy.max_retries", "bound of 3"),
        ({"environ": {"KEY": "x"}}, "changes.environ", "secret_environ"),
        ({"environ": {"A=B": "x"}}, "changes.environ", ""),
        ({"resources": {"memory": "x"}}, "changes.resources", ""),
    ],
)
def test_bad_changes_are_refused_and_change_nothing(
    at: Project, api: Api, changes: dict[str, Any], field: str, text: str
) -> None:
    RetryDefaults.objects.create(bounds={"max_retries": 3})
    session = failed(at, owner=User.objects.get(username="ann"), secret_environ={"KEY": "secret"})
    answer = api.post(f"sessions/{session.pk}/retry/", {"changes": changes})
    assert answer.status_code == 400, answer.content
    errors = answer.json()["errors"]
    (name,) = errors
    assert name.startswith(field)
    assert text in errors[name][0]
    assert Session.objects.count() == 1


def test_resources_are_given_once(at: Project, api: Api) -> None:
    body = {"resources": {"cpu": "1"}, "changes": {"resources": {"cpu": "2"}}}
    answer = api.post(f"sessions/{failed(at).pk}/retry/", body)
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["changes"]


def test_secrets_stay_with_the_chain(at: Project, api: Api) -> None:
    session = failed(at, owner=User.objects.get(username="ann"), secret_environ={"KEY": "secret"})
    child = retried(api, session, changes={"image": "train:2"})
    assert child["secret_environ"] == ["KEY"]
    kept = Session.objects.select_related("spec").order_by("retry_count")
    first, second = (each.spec for each in kept)
    assert first.secret_environ == second.secret_environ
    assert first.pk != second.pk
