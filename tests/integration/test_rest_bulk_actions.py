"""`bulk-retry` and `bulk-cancel`: by filter, an outcome each, within rights and storm limits."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.engine.decide import Mode
from retry.evidence.termination import Termination
from sessions_app.locks import database_now
from sessions_app.models import (
    AuditLog,
    Project,
    RetryDecision,
    RetrySettings,
    RetrySlots,
    Session,
    SessionEvent,
)
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import DispatchResult, retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.integration.test_storm_limits import due_again, limits
from tests.invariants import check_all
from tests.waiting import early_in_a_minute


@pytest.fixture
def ann(at: Project) -> User:
    return factories.user("ann", project=at)


@pytest.fixture
def api(ann: User) -> Api:
    return Api(factories.token(ann))


def failed(at: Project, owner: User, count: int = 1, **fields: Any) -> list[Session]:
    sessions = [factories.submit(at, owner=owner, **fields) for _ in range(count)]
    sessions_settle({session.pk: End(Termination(exit_code=1)) for session in sessions})
    return sessions


def call(api: Api, verb: str, **body: Any) -> dict[str, Any]:
    response = api.post(f"sessions/bulk-{verb}/", {"filter": {}} | body)
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    assert answer["dry_run"] == bool(body.get("dry_run"))
    return answer


def outcomes(answer: Mapping[str, Any]) -> dict[str, str]:
    return {each["session_id"]: each["outcome"] for each in answer["results"]}


def in_order(answer: Mapping[str, Any]) -> list[str]:
    return [each["outcome"] for each in answer["results"]]


def snapshot() -> list[list[Any]]:
    models = (Session, SessionEvent, RetryDecision, RetrySlots, AuditLog)
    return [list(model.objects.order_by("pk").values()) for model in models]


def tip(session: Session) -> Session:
    return factories.tip(session)


def test_each_newest_attempt_has_its_outcome(api: Api, at: Project, ann: User) -> None:
    over, retried = failed(at, ann, 2)
    api.post(f"sessions/{retried.pk}/retry/")
    good = factories.settle(factories.start(factories.submit(at, owner=ann)), status="terminated")
    (waiting,) = failed(at, ann, retry_policy=factories.policy(retry_delay=3600))

    answer = call(api, "retry")

    assert outcomes(answer) == {
        str(over.pk): "retried",
        str(tip(retried).pk): "refused",
        str(good.pk): "refused",
        str(waiting.pk): "retried",
    }
    by_id = {each["session_id"]: each for each in answer["results"]}
    assert by_id[str(over.pk)]["next_session_id"] == str(tip(over).pk)
    assert by_id[str(good.pk)]["problem"]["status"] == 409
    assert "succeeded" in by_id[str(good.pk)]["problem"]["detail"]
    assert tip(over).retry_counters == {"manual": 1}
    assert tip(waiting).retry_counters == {"inline/failure": 1}
    assert (answer["next"], answer["remaining"]) == (None, 0)
    assert audited_acts().filter(action="retry.dispatch", actor="ann").count() == 3
    assert check_all() == []


def test_a_dry_run_says_the_same_and_changes_nothing(api: Api, at: Project, ann: User) -> None:
    limits(cluster=2)
    failed(at, ann, 4)
    factories.submit(at, owner=ann)
    before = snapshot()
    tried = call(api, "retry", dry_run=True)
    assert snapshot() == before
    assert sorted(in_order(tried)) == ["refused", "retried", "retried", "scheduled", "scheduled"]
    assert [each["next_session_id"] for each in tried["results"]] == [None] * 5
    done = call(api, "retry")
    assert outcomes(done) == outcomes(tried)
    retried = snapshot()
    assert in_order(call(api, "cancel", dry_run=True)) == ["cancelled"] * 5
    assert snapshot() == retried
    assert in_order(call(api, "cancel")) == ["cancelled"] * 5
    assert check_all() == []


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"retry_cause": "oom_killed"}, 1),
        ({"status": "error"}, 3),
        ({"queue": "other", "status": "ERROR"}, 1),
        ({"exit_code": 137, "project": "acme/work"}, 1),
        ({"tip": False}, 0),
        ({"job_set": "night"}, 1),
    ],
)
def test_the_filters_are_those_of_the_list(
    api: Api, at: Project, ann: User, wanted: dict[str, Any], count: int
) -> None:
    factories.queue(at, "other")
    failed(at, ann, 1, queue="other")
    failed(at, ann, 1, job_set="night")
    killed = factories.submit(at, owner=ann)
    factories.settle(killed, exit_code=137, conditions=("OOMKilled",))
    assert in_order(call(api, "retry", filter=wanted)) == ["retried"] * count


def test_over_the_storm_limit_they_wait_for_their_slots(api: Api, at: Project, ann: User) -> None:
    limits(cluster=2)
    sessions = failed(at, ann, 5)
    answer = call(api, "retry", resources={"memory": "4Gi"})
    assert in_order(answer) == ["retried"] * 2 + ["scheduled"] * 3
    late = [each for each in answer["results"] if each["outcome"] == "scheduled"]
    shown = [api.read(f"sessions/{each['session_id']}/")["retry_state"] for each in late]
    assert [state["due_at"] for state in shown] == [each["due_at"] for each in late]
    assert {state["state"] for state in shown} == {"scheduled"}
    for decision in RetryDecision.objects.filter(state="scheduled"):
        facts = (decision.paid_by, decision.requested_by, decision.paced, decision.resources)
        assert facts == ("manual", "ann", True, {"memory": "4Gi"})
        assert (decision.used, decision.limit) == (0, None)
        body = api.read(f"sessions/{decision.pk}/retry-decision/")
        assert "ann asked for another attempt, which waits" in body["explanation"][-1]
        (line,) = api.read(f"sessions/{decision.pk}/attempts/")
        assert line["decision"] == "no retry: no_policy; ann asked for one, which waits"
    assert audited_acts().filter(action="retry.request", actor="ann").count() == 3
    assert retries_dispatch() == DispatchResult(0, 0, 0)
    assert check_all() == []

    due_again(*Session.objects.filter(pk__in=[each["session_id"] for each in late]))
    assert retries_dispatch() == DispatchResult(3, 3, 0)
    assert [tip(each).retry_counters for each in sessions] == [{"manual": 1}] * 5
    assert {tip(each).spec.resources["memory"] for each in sessions} == {"4Gi"}
    entries = audited_acts().filter(action="retry.dispatch")
    assert set(entries.values_list("actor", flat=True)) == {"ann"}
    assert set(RetryDecision.objects.values_list("dispatched_by", flat=True)) == {"ann"}
    assert check_all() == []


def test_asking_again_changes_no_slot(api: Api, at: Project, ann: User) -> None:
    early_in_a_minute()
    limits(cluster=1)
    failed(at, ann, 3)
    first = call(api, "retry", filter={"status": "ERROR"})
    before = snapshot()
    again = call(api, "retry", filter={"status": "ERROR"})
    waits = [each["due_at"] for each in first["results"] if each["due_at"]]
    assert [each["due_at"] for each in again["results"]] == waits
    assert snapshot() == before
    call(api, "retry", filter={"status": "ERROR"}, resources={"cpu": "2"})
    waiting = RetryDecision.objects.filter(state="scheduled")
    assert [decision.resources for decision in waiting] == [{"cpu": "2"}] * 2
    assert len(waits) == 2
    assert check_all() == []


def test_a_waiting_retry_over_the_limit_still_pays_its_own(
    api: Api, at: Project, ann: User
) -> None:
    limits(cluster=1)
    sessions = failed(at, ann, 2, retry_policy=factories.policy(retry_delay=3600))
    assert in_order(call(api, "retry")) == ["retried", "scheduled"]
    (waiting,) = RetryDecision.objects.filter(state="scheduled")
    assert (waiting.paid_by, waiting.requested_by) == ("inline/failure", "ann")
    assert waiting.due_at is not None
    assert (waiting.due_at - database_now()).total_seconds() <= 120
    due_again(sessions[0])
    retries_dispatch()
    assert [tip(each).retry_counters for each in sessions] == [{"inline/failure": 1}] * 2
    assert check_all() == []


def test_a_cancelled_chain_may_wait_for_another_attempt(api: Api, at: Project, ann: User) -> None:
    limits(cluster=1)
    sessions = [factories.submit(at, owner=ann) for _ in range(3)]
    for session in sessions:
        chain_cancel(session.pk, by="ann")
    assert in_order(call(api, "retry")) == ["retried", "scheduled", "scheduled"]
    assert check_all() == []
    # And be cancelled again before it comes.
    assert in_order(call(api, "cancel")) == ["cancelled"] * 3
    assert not RetryDecision.objects.filter(state="scheduled").exists()
    assert set(Session.objects.values_list("status", flat=True)) == {"CANCELLED"}
    assert check_all() == []


@pytest.mark.parametrize(("mode", "dispatched"), [(Mode.PAUSED, 1), (Mode.OFF, 0)])
def test_retries_by_hand_go_on_while_paused(
    api: Api, at: Project, ann: User, mode: Mode, dispatched: int
) -> None:
    limits(cluster=1)
    sessions = failed(at, ann, 2)
    call(api, "retry")
    RetrySettings.objects.update(mode=mode.value)
    due_again(sessions[0])
    assert retries_dispatch() == DispatchResult(1, dispatched, 1 - dispatched)
    assert check_all() == []


def test_switched_off_is_refused(api: Api, at: Project, ann: User) -> None:
    failed(at, ann, 2)
    RetrySettings.objects.create(project=at, mode="off")
    answer = call(api, "retry")
    assert in_order(answer) == ["refused", "refused"]
    assert "switched off" in answer["results"][0]["problem"]["detail"]


@pytest.mark.parametrize("verb", ["retry", "cancel"])
def test_forbidden_sessions_are_refused_and_hidden_ones_are_absent(
    at: Project, ann: User, verb: str
) -> None:
    bob = factories.user("bob", project=at)
    eve = factories.user("eve", project=at, role=Role.VIEWER)
    boss = factories.user("boss", project=at, role=Role.MAINTAINER)
    waits = factories.policy(retry_delay=3600)
    (mine,) = failed(at, ann, retry_policy=waits)
    (theirs,) = failed(at, bob, retry_policy=waits)
    far = factories.project("far", domain="globex")
    failed(far, factories.user("zoe", project=far), retry_policy=waits)
    done = "retried" if verb == "retry" else "cancelled"

    def seen(who: User, **token: Any) -> dict[str, str]:
        return outcomes(call(Api(factories.token(who, **token)), verb, dry_run=True))

    assert seen(ann) == {str(mine.pk): done, str(theirs.pk): "refused"}
    assert set(seen(eve).values()) == {"refused"}
    assert set(seen(boss).values()) == {done}
    assert set(seen(boss, read_only=True).values()) == {"refused"}
    answer = call(Api(factories.token(ann)), verb)
    refused = [each["problem"] for each in answer["results"] if each["problem"]]
    assert [problem["status"] for problem in refused] == [403]
    assert check_all() == []


@pytest.mark.parametrize("verb", ["retry", "cancel"])
def test_pages_come_to_all_once(api: Api, at: Project, ann: User, verb: str) -> None:
    sessions = failed(at, ann, 7, retry_policy=factories.policy(retry_delay=3600))
    listed: list[str] = []
    after, remaining = None, []
    while True:
        answer = call(api, verb, limit=3, after=after)
        listed += [each["session_id"] for each in answer["results"]]
        remaining.append(answer["remaining"])
        after = answer["next"]
        if after is None:
            break
    assert listed == [str(session.pk) for session in sessions[::-1]]
    assert remaining == [4, 1, 0]
    assert check_all() == []


@pytest.mark.parametrize("verb", ["retry", "cancel", "preempt"])
@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "filter"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"status": "sometimes"}}, "filter.status"),
        ({"filter": {"page_size": 5}}, "filter.page_size"),
        ({"filter": []}, "filter"),
        ({"filter": {}, "dry_run": "yes"}, "dry_run"),
        ({"filter": {}, "limit": 1001}, "limit"),
        ({"filter": {}, "limit": 0}, "limit"),
        ({"filter": {}, "after": "x"}, "after"),
        ({"filter": {}, "all": True}, "all"),
    ],
)
def test_a_wrong_body_changes_nothing(
    api: Api, at: Project, ann: User, verb: str, sent: dict[str, Any], field: str
) -> None:
    failed(at, ann)
    before = snapshot()
    response = api.post(f"sessions/bulk-{verb}/", sent)
    assert response.status_code == 400
    assert list(response.json()["errors"]) == [field]
    assert snapshot() == before


def test_wrong_resources_name_the_field(api: Api) -> None:
    response = api.post("sessions/bulk-retry/", {"filter": {}, "resources": {"memory": "lots"}})
    assert response.status_code == 400
    assert list(response.json()["errors"]) == ["resources"]
    response = api.post("sessions/bulk-cancel/", {"filter": {}, "resources": {}})
    assert list(response.json()["errors"]) == ["resources"]


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("verb", ["retry", "cancel"])
def test_many_cost_as_many_statements_as_few(
    api: Api, at: Project, ann: User, verb: str, limited: bool
) -> None:
    if limited:
        limits(cluster=3, queue=3)

    def statements(count: int) -> int:
        failed(at, ann, count, job_set=f"set-{count}")
        failed(
            at, ann, count, job_set=f"set-{count}", retry_policy=factories.policy(retry_delay=60)
        )
        with CaptureQueriesContext(connection) as queries:
            call(api, verb, filter={"job_set": f"set-{count}"}, **changes)
        return len(queries)

    changes = {"resources": {"cpu": "2"}} if verb == "retry" else {}
    statements(4)  # also notes that the token was used
    assert statements(5) == statements(60) <= 32
