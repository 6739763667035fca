"""`bulk-give-up`: the parked chains that match a filter, with an outcome for each."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from sessions_app.models.tenants import Role
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api
from tests.audit import audited_acts
from tests.factories import parked, reread

pytestmark = pytest.mark.usefixtures("all_invariants_hold")


@pytest.fixture
def ann(at: Project) -> User:
    return factories.user("ann", project=at)


@pytest.fixture
def api(ann: User) -> Api:
    return Api(factories.token(ann))


def give_up(api: Api, **body: Any) -> dict[str, Any]:
    response = api.post("sessions/bulk-give-up/", {"filter": {}, **body})
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    assert answer["dry_run"] == bool(body.get("dry_run"))
    return answer


def outcomes(answer: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    """Return the outcome of each session and the status of its refusal."""
    return {
        each["session_id"]: (each["outcome"], (each["problem"] or {"status": None})["status"])
        for each in answer["results"]
    }


def written() -> list[list[Any]]:
    models = (Session, SessionEvent, RetryDecision)
    return [list(model.objects.order_by("pk").values()) for model in models] + [
        list(audited_acts().order_by("pk").values())
    ]


def test_parked_chains_end_and_the_rest_is_refused(api: Api, at: Project, ann: User) -> None:
    first, second = (parked(at, owner=ann) for _ in range(2))
    theirs, cancelled = parked(at), parked(at, owner=ann)
    chain_cancel(cancelled.pk, by="ann")
    ended = factories.settle(factories.start(factories.submit(at, owner=ann)))
    waiting = factories.submit(at, owner=ann)
    before = written()
    expected = {
        **{str(each.pk): ("given_up", None) for each in (first, second)},
        **{str(each.pk): ("refused", 409) for each in (cancelled, ended, waiting)},
        str(theirs.pk): ("refused", 403),
    }
    assert outcomes(give_up(api, dry_run=True)) == expected
    assert written() == before
    assert outcomes(give_up(api)) == expected
    states = [reread(each).retry_state for each in (first, second, theirs, cancelled)]
    assert states == ["exhausted", "exhausted", "parked", "cancelled"]
    told = SessionEvent.objects.filter(type="session.retry_exhausted", session_id=first.pk)
    assert [each.data["by"] for each in told] == ["ann"]
    entries = audited_acts().filter(action="retry.give_up").order_by("pk")
    named = {(each.actor, each.object_id) for each in entries}
    assert named == {("ann", str(first.pk)), ("ann", str(second.pk))}


def test_what_was_given_up_before_is_refused(api: Api, at: Project, ann: User) -> None:
    session = parked(at, owner=ann)
    assert outcomes(give_up(api)) == {str(session.pk): ("given_up", None)}
    before = written()
    for dry_run in (True, False):
        assert outcomes(give_up(api, dry_run=dry_run)) == {str(session.pk): ("refused", 409)}
    assert written() == before
    # Whoever names the one session gets its state, and not a refusal.
    assert api.post(f"sessions/{session.pk}/give-up/").status_code == 200


def test_the_filter_and_the_pages_are_those_of_other_bulk_calls(
    api: Api, at: Project, ann: User
) -> None:
    other = parked(at, owner=ann, job_set="day")
    night = [parked(at, owner=ann, job_set="night") for _ in range(3)]
    wanted = {"retry_state": "parked", "job_set": "night"}
    first = give_up(api, filter=wanted, limit=2)
    assert (len(first["results"]), first["remaining"]) == (2, 1)
    second = give_up(api, filter=wanted, limit=2, after=first["next"])
    assert (len(second["results"]), second["next"], second["remaining"]) == (1, None, 0)
    assert {reread(each).retry_state for each in night} == {"exhausted"}
    assert reread(other).retry_state == "parked"
    for body in ({}, {"filter": {}, "limit": 1001}, {"filter": {}, "reason": "no"}):
        assert api.post("sessions/bulk-give-up/", body).status_code == 400


def test_a_viewer_gives_up_nothing(at: Project) -> None:
    session = parked(at)
    viewer = Api(factories.token(factories.user("vic", project=at, role=Role.VIEWER)))
    assert outcomes(give_up(viewer)) == {str(session.pk): ("refused", 403)}
    stranger = Api(factories.token(factories.user("eve")))
    assert give_up(stranger)["results"] == []
    assert reread(session).retry_state == "parked"


def test_many_cost_as_many_statements_as_few(api: Api, at: Project, ann: User) -> None:
    def statements(count: int) -> int:
        name = f"set-{count}"
        for _ in range(count):
            parked(at, owner=ann, job_set=name)
            factories.submit(at, owner=ann, job_set=name)
        with CaptureQueriesContext(connection) as captured:
            answer = give_up(api, filter={"job_set": name})
        found = [each["outcome"] for each in answer["results"]]
        assert sorted(found) == ["given_up"] * count + ["refused"] * count
        return len(captured)

    statements(2)  # also notes that the token was used
    assert statements(3) == statements(10)
