"""The priority of sessions that wait is changed: one, and many by filter."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.core.states import Phase
from sessions_app.models import AuditLog, PriorityClass, Project, Session, SessionEvent
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.priority import sessions_set_priority
from tests import factories
from tests.agent import Agent, Api, failed, running
from tests.audit import audited_acts
from tests.factories import policy, reread, submit

CHANGED = "session.priority_changed"
pytestmark = pytest.mark.usefixtures("all_invariants_hold")


@pytest.fixture
def ann(at: Project) -> User:
    return factories.user("ann", project=at)


@pytest.fixture
def api(ann: User) -> Api:
    return Api(factories.token(ann))


def patch(api: Api, session: Session, body: Any) -> Any:
    return api.call("PATCH", f"sessions/{session.pk}/", body)


def told(session: Session) -> list[dict[str, Any]]:
    rows = SessionEvent.objects.filter(session_id=session.pk, type=CHANGED)
    return [event.data for event in rows.order_by("seq")]


def written() -> list[list[Any]]:
    return [list(model.objects.order_by("pk").values()) for model in (Session, SessionEvent)] + [
        list(audited_acts().order_by("pk").values())
    ]


def bulk(api: Api, **body: Any) -> dict[str, Any]:
    response = api.post("sessions/bulk-update/", {"filter": {}, **body})
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    return {each["session_id"]: each["outcome"] for each in answer["results"]}


def test_the_next_round_follows_the_new_order(
    api: Api, at: Project, ann: User, played: Agent
) -> None:
    first, second, third = (submit(at, owner=ann) for _ in range(3))
    answer = patch(api, third, {"priority": 5})
    assert answer.status_code == 200, answer.content
    assert answer.json()["priority"] == 5
    assert patch(api, first, {"priority": -5}).status_code == 200
    got = [played.lease(limits={"max_sessions": room}) for room in (1, 2, 3)]
    assert got == [[third.pk], [second.pk], [first.pk]]


def test_who_changed_it_from_what_to_what_is_told(api: Api, at: Project, ann: User) -> None:
    session = submit(at, owner=ann, priority=3)
    for priority in (7, 7, -2):
        assert patch(api, session, {"priority": priority}).status_code == 200
    assert told(session) == [
        {"priority": 7, "before": 3, "by": "ann"},
        {"priority": -2, "before": 7, "by": "ann"},
    ]
    entries = audited_acts().filter(action="session.priority").order_by("pk")
    assert [(each.actor, each.door, each.object_id, each.data) for each in entries] == [
        ("ann", "rest", str(session.pk), {"before": {"priority": 3}, "after": {"priority": 7}}),
        ("ann", "rest", str(session.pk), {"before": {"priority": 7}, "after": {"priority": -2}}),
    ]


def test_the_class_stays_and_retries_keep_the_priority(
    api: Api, at: Project, ann: User, played: Agent
) -> None:
    PriorityClass.objects.create(name="low", value=-7, projects=[at.address])
    session = submit(at, owner=ann, priority_class="low", priority=4, retry_policy=policy())
    assert patch(api, session, {"priority": -1_000_000}).status_code == 200
    assert (reread(session).rank, reread(session).priority) == (-7, -1_000_000)
    failed(played, session)
    retries_dispatch()
    child = Session.objects.get(parent=session)
    assert (child.rank, child.priority) == (-7, -1_000_000)
    assert patch(api, child, {"priority": 1_000_000}).status_code == 200
    assert (reread(child).rank, reread(child).priority) == (-7, 1_000_000)
    assert reread(session).priority == -1_000_000


def test_what_waits_for_others_waits_too(api: Api, at: Project, ann: User) -> None:
    first = submit(at, owner=ann)
    later = submit(at, owner=ann, depends_on=[{"session": str(first.pk), "when": "succeeded"}])
    assert reread(later).phase == Phase.BLOCKED
    assert patch(api, later, {"priority": 5}).status_code == 200
    assert reread(later).priority == 5


def test_only_what_waits_can_be_changed(api: Api, at: Project, ann: User, played: Agent) -> None:
    runs = running(played, submit(at, owner=ann))
    over = failed(played, submit(at, owner=ann, retry_policy=policy(retry_delay=3600)))
    before = written()
    for session, status in ((runs, "RUNNING"), (over, "ERROR")):
        answer = patch(api, session, {"priority": 5})
        assert answer.status_code == 409
        assert answer.json()["detail"] == (
            f"the priority can only be changed while the session waits; it is {status}"
        )
    assert written() == before


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        ({}, "priority", "is required"),
        ({"priority": None}, "priority", "integer"),
        ({"priority": "5"}, "priority", "integer"),
        ({"priority": 1.5}, "priority", "integer"),
        ({"priority": True}, "priority", "integer"),
        ({"priority": 1_000_001}, "priority", "less than or equal to 1000000"),
        ({"priority": -1_000_001}, "priority", "greater than or equal to -1000000"),
        ({"priority": 5, "name": "x"}, "name", "cannot be changed: only the priority can"),
        ({"queue": "night"}, "queue", "cannot be changed: only the priority can"),
    ],
)
def test_bad_input_names_the_field_and_changes_nothing(
    api: Api, at: Project, ann: User, body: Any, field: str, text: str
) -> None:
    session = submit(at, owner=ann)
    before = written()
    answer = patch(api, session, body)
    assert answer.status_code == 400
    (why,) = answer.json()["errors"][field]
    assert text in why
    assert written() == before


def test_many_by_filter_have_an_outcome_each(
    api: Api, at: Project, ann: User, played: Agent
) -> None:
    runs = running(played, submit(at, owner=ann))
    mine = [submit(at, owner=ann, job_set="night") for _ in range(2)]
    theirs = submit(at)
    before = written()
    tried = bulk(api, priority=5, dry_run=True)
    assert written() == before
    done = bulk(api, priority=5)
    assert outcomes(done) == outcomes(tried)
    assert outcomes(done) == {
        **{str(each.pk): "updated" for each in mine},
        **{str(each.pk): "refused" for each in (runs, theirs)},
    }
    problems = {each["session_id"]: each["problem"] for each in done["results"]}
    assert problems[str(runs.pk)]["status"] == 409
    assert problems[str(theirs.pk)]["status"] == 403
    assert problems[str(mine[0].pk)] is None
    everyone = Session.objects.in_bulk()
    assert {pk for pk, each in everyone.items() if each.priority == 5} == {e.pk for e in mine}
    assert AuditLog.objects.filter(action="session.priority", actor="ann").count() == 2


def test_a_filter_and_a_limit_hold(api: Api, at: Project, ann: User) -> None:
    night = [submit(at, owner=ann, job_set="night") for _ in range(3)]
    other = submit(at, owner=ann)
    page = bulk(api, filter={"job_set": "night"}, priority=9, limit=2)
    assert len(page["results"]) == 2
    assert page["remaining"] == 1
    rest = bulk(api, filter={"job_set": "night"}, priority=9, after=page["next"])
    assert (len(rest["results"]), rest["next"]) == (1, None)
    assert [reread(each).priority for each in (*night, other)] == [9, 9, 9, 0]


@pytest.mark.parametrize("body", [{}, {"priority": None}, {"priority": 1_000_001}])
def test_bulk_needs_a_priority(api: Api, at: Project, ann: User, body: Any) -> None:
    session = submit(at, owner=ann)
    answer = api.post("sessions/bulk-update/", {"filter": {}, **body})
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["priority"]
    assert reread(session).priority == 0


def test_many_cost_as_many_statements_as_one(at: Project, ann: User) -> None:
    def cost(count: int) -> int:
        ids = [submit(at, owner=ann).pk for _ in range(count)]
        with CaptureQueriesContext(connection) as captured:
            assert set(sessions_set_priority(ids, 5, by="ann").values()) == {None}
        return sum("SAVEPOINT" not in query["sql"] for query in captured)

    # Below the number from which on events are copied.
    assert cost(10) == cost(1) == 4
