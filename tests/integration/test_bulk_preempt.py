"""`bulk-preempt`: the newest attempts that match a filter and run, with an outcome for each."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Project, Session, SessionEvent
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Agent, Api, failed, running
from tests.audit import audited_acts
from tests.factories import policy, reread, submit, tip

STOPPED: dict[str, Any] = {"exit_code": 143, "reason": "Preempted"}
STOPPING = "session.terminating"
pytestmark = pytest.mark.usefixtures("all_invariants_hold")


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("mia", project=at, role=Role.MAINTAINER)))


def preempt(api: Api, **body: Any) -> dict[str, Any]:
    response = api.post("sessions/bulk-preempt/", {"filter": {}, **body})
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    assert answer["dry_run"] == bool(body.get("dry_run"))
    return answer


def outcomes(answer: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the outcome of each session and why it was refused."""
    return {
        each["session_id"]: (each["outcome"], (each["problem"] or {"detail": ""})["detail"])
        for each in answer["results"]
    }


def written() -> list[list[Any]]:
    return [list(model.objects.order_by("pk").values()) for model in (Session, SessionEvent)] + [
        list(audited_acts().order_by("pk").values())
    ]


def preempted_by_audit() -> list[tuple[str, str]]:
    entries = audited_acts().filter(action="session.preempt").order_by("pk")
    return [(each.actor, each.object_id) for each in entries]


def test_what_runs_is_stopped_and_the_rest_is_refused(api: Api, at: Project, played: Agent) -> None:
    over = failed(played, submit(at))
    stopping = running(played, submit(at))
    chain_cancel(stopping.pk, by="ann")
    leaving = running(played, submit(at))
    played.report(leaving.pk, "TERMINATING")
    runs = running(played, submit(at, retry_policy=policy()))
    leased = submit(at)
    assert played.lease() == [leased.pk]
    waiting = submit(at)
    before = written()

    tried = preempt(api, reason="room", dry_run=True)
    assert written() == before
    done = preempt(api, reason="room")

    assert outcomes(done) == outcomes(tried)
    assert outcomes(done) == {
        str(over.pk): ("refused", "the session has ended: it is ERROR"),
        str(stopping.pk): ("refused", "its chain was cancelled"),
        str(leaving.pk): ("refused", "the session is being stopped already"),
        str(runs.pk): ("preempted", ""),
        str(leased.pk): ("preempted", ""),
        str(waiting.pk): (
            "refused",
            "the session waits in its queue: there is no run to preempt",
        ),
    }
    problems = {each["problem"]["status"] for each in done["results"] if each["problem"]}
    assert problems == {409}
    stopped = reread(runs)
    assert (stopped.status, stopped.status_message) == (
        "TERMINATING",
        "preempted by mia: room",
    )
    back = reread(leased)
    assert (back.status, back.lease_returns, back.retry_counters) == ("PENDING", 0, {})
    assert sorted(preempted_by_audit()) == sorted([("mia", str(runs.pk)), ("mia", str(leased.pk))])
    entry = audited_acts().filter(object_id=str(runs.pk), action="session.preempt").get()
    assert (entry.door, entry.data) == ("rest", {"reason": "room"})
    played.lease()
    assert {(each["session_id"], each["reason"]) for each in played.answer["stops"]} >= {
        (str(runs.pk), "preempted")
    }


def test_only_newest_attempts_are_considered(api: Api, at: Project, played: Agent) -> None:
    first = failed(played, submit(at, retry_policy=policy()))
    assert retries_dispatch().dispatched == 1
    second = running(played, tip(first))
    assert outcomes(preempt(api)) == {str(second.pk): ("preempted", "")}
    assert reread(first).status == "ERROR"
    assert preempt(api, filter={"tip": False})["results"] == []


def test_repeating_it_changes_nothing_until_another_attempt_runs(
    api: Api, at: Project, played: Agent
) -> None:
    session = running(played, submit(at, retry_policy=policy(max_retries=5)))
    preempt(api)
    before = written()
    assert outcomes(preempt(api)) == {str(session.pk): ("preempted", "")}
    assert written() == before
    played.fail(session.pk, **STOPPED)
    before = written()
    ended = {str(session.pk): ("refused", "the session has ended: it is ERROR")}
    assert outcomes(preempt(api, dry_run=True)) == ended
    assert outcomes(preempt(api)) == ended
    assert written() == before
    assert retries_dispatch().dispatched == 1
    child = running(played, tip(session))
    assert outcomes(preempt(api)) == {str(child.pk): ("preempted", "")}
    assert preempted_by_audit() == [("mia", str(session.pk)), ("mia", str(child.pk))]


def test_a_filter_and_a_limit_hold(api: Api, at: Project, played: Agent) -> None:
    night = [running(played, submit(at, job_set="night")) for _ in range(3)]
    other = running(played, submit(at))
    page = preempt(api, filter={"job_set": "night"}, limit=2)
    assert len(page["results"]) == 2
    assert page["remaining"] == 1
    rest = preempt(api, filter={"job_set": "night"}, after=page["next"])
    assert (len(rest["results"]), rest["next"], rest["remaining"]) == (1, None, 0)
    assert {reread(each).status for each in night} == {"TERMINATING"}
    assert reread(other).status == "RUNNING"


def test_it_is_for_maintainers_also_for_one_s_own(at: Project, played: Agent) -> None:
    ann = factories.user("ann", project=at)
    boss = factories.user("boss", project=at, role=Role.MAINTAINER)
    far = factories.project("far", domain="globex")
    mine = running(played, submit(at, owner=ann))
    hidden = running(played, submit(far))
    before = written()
    for token in (factories.token(ann), factories.token(boss, read_only=True)):
        answer = preempt(Api(token))
        assert [(each["outcome"], each["session_id"]) for each in answer["results"]] == [
            ("refused", str(mine.pk))
        ]
        assert answer["results"][0]["problem"]["status"] == 403
    assert written() == before
    assert outcomes(preempt(Api(factories.token(boss)))) == {str(mine.pk): ("preempted", "")}
    assert reread(hidden).status == "RUNNING"


@pytest.mark.parametrize("reason", [None, 5, "x" * 257])
def test_a_wrong_reason_names_the_field(api: Api, at: Project, played: Agent, reason: Any) -> None:
    running(played, submit(at))
    before = written()
    answer = api.post("sessions/bulk-preempt/", {"filter": {}, "reason": reason})
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["reason"]
    assert written() == before


def test_many_cost_as_many_statements_as_few(api: Api, at: Project, played: Agent) -> None:
    def statements(count: int) -> int:
        name = f"set-{count}"
        sessions = [submit(at, job_set=name) for _ in range(count)]
        played.lease()
        played.start(*[each.pk for each in sessions])
        for _ in range(count):
            submit(at, job_set=name)
        played.lease()
        for _ in range(count):
            submit(at, job_set=name)
        with CaptureQueriesContext(connection) as captured:
            answer = preempt(api, filter={"job_set": name})
        found = [each["outcome"] for each in answer["results"]]
        assert (found.count("preempted"), found.count("refused")) == (2 * count, count)
        return len(captured)

    statements(2)  # also notes that the token was used
    # Below the number from which on events are copied.
    assert statements(3) == statements(10) <= 12
