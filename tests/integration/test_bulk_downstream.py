"""`bulk-retry` with `downstream`: what ended as `dependency_failed` because of what matches."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.core.states import Phase
from sessions_app.models import Project, Session, SessionSpec
from sessions_app.services.chains import downstream
from tests import factories
from tests.agent import Api
from tests.factories import submit
from tests.graphs import Graph
from tests.integration.test_dependencies import depends, fail, follow, succeed
from tests.invariants import check_all

BROKEN = {"job_set": "broken"}
"""The filter of the sessions that failed by themselves."""


@pytest.fixture
def ann(at: Project) -> User:
    return factories.user("ann", project=at)


@pytest.fixture
def api(ann: User) -> Api:
    return Api(factories.token(ann))


def retried(api: Api, wanted: dict[str, Any], **more: Any) -> dict[str, Any]:
    response = api.post("sessions/bulk-retry/", {"filter": wanted, "downstream": True, **more})
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def results(answer: dict[str, Any]) -> dict[str, str]:
    return {each["session_id"]: each["outcome"] for each in answer["results"]}


class Failed:
    """Two sessions that failed, and three that waited for them: one for the first, one for that
    one, and one for the second."""

    def __init__(self, at: Project, owner: User):
        self.one, self.two = (submit(at, owner=owner, **BROKEN) for _ in range(2))
        self.second = depends(at, self.one, owner=owner)
        self.third = depends(at, self.second, owner=owner)
        self.other = depends(at, self.two, owner=owner)
        fail(self.one, self.two)
        assert {tip(each).retry_cause for each in self.down} == {"dependency_failed"}

    @property
    def down(self) -> list[Session]:
        return [self.second, self.third, self.other]


def tip(session: Session) -> Session:
    return factories.tip(session)


def ids(*sessions: Session) -> set[str]:
    return {str(each.pk) for each in sessions}


def test_what_failed_because_of_them_waits_again(api: Api, at: Project, ann: User) -> None:
    chains = Failed(at, ann)
    before = Session.objects.count()
    dry = retried(api, BROKEN, dry_run=True)
    assert results(dry) == dict.fromkeys(ids(chains.one, chains.two), "retried")
    assert set(dry["downstream"]) == ids(*chains.down)
    assert Session.objects.count() == before
    made = retried(api, BROKEN)
    assert results(made) == results(dry)
    children = [tip(each) for each in chains.down]
    assert set(made["downstream"]) == ids(*children)
    assert {each.phase for each in children} == {Phase.BLOCKED}
    succeed(tip(chains.one))
    phases = [tip(each).phase for each in chains.down]
    assert phases == [Phase.WAITING, Phase.BLOCKED, Phase.BLOCKED]
    succeed(tip(chains.two))
    assert tip(chains.other).phase == Phase.WAITING
    assert check_all() == []


def test_without_it_they_stay_as_they_are(api: Api, at: Project, ann: User) -> None:
    chains = Failed(at, ann)
    answer = api.post("sessions/bulk-retry/", {"filter": BROKEN}).json()
    assert "downstream" not in answer
    assert [tip(each).retry_count for each in chains.down] == [0, 0, 0]


@pytest.mark.parametrize("batch", [1, 200])
def test_those_that_match_themselves_wait_again_too(
    api: Api, at: Project, ann: User, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """They have outcomes of their own, and the changes; whoever is first in the list."""
    monkeypatch.setattr("interfaces.calls.bulk.BATCH", batch)
    chains = Failed(at, ann)
    everything = [chains.one, chains.two, *chains.down]
    made = retried(api, {"project": at.address}, changes={"command": ["./again"]})
    assert results(made) == dict.fromkeys(ids(*everything), "retried")
    assert "downstream" not in made
    assert {each["next_session_id"] for each in made["results"]} == ids(*map(tip, everything))
    assert [tip(each).retry_count for each in everything] == [1] * 5
    assert {tip(each).phase for each in chains.down} == {Phase.BLOCKED}
    specs = SessionSpec.objects.filter(pk__in={tip(each).spec_id for each in everything})
    assert [each.command for each in specs] == [["./again"]] * len(specs)
    assert check_all() == []


def test_what_matches_alone_fails_again_if_nothing_has_changed(
    api: Api, at: Project, ann: User
) -> None:
    chains = Failed(at, ann)
    chosen = {"retry_cause": "dependency_failed"}
    assert set(results(retried(api, chosen, dry_run=True))) == ids(*chains.down)
    retried(api, chosen)
    follow(chains.one, chains.two)
    tips = [tip(each) for each in chains.down]
    assert {(each.retry_count, each.retry_cause) for each in tips} == {(1, "dependency_failed")}
    assert check_all() == []


def test_what_is_downstream_of_a_refused_one_stays(api: Api, at: Project, ann: User) -> None:
    chains = Failed(at, ann)
    api.post(f"sessions/{chains.one.pk}/retry/")
    made = retried(api, BROKEN)
    assert results(made)[str(chains.two.pk)] == "retried"
    refused = {key for key, outcome in results(made).items() if outcome == "refused"}
    assert refused == ids(tip(chains.one))
    assert set(made["downstream"]) == ids(tip(chains.other))
    assert [tip(each).retry_count for each in chains.down] == [0, 0, 1]


def test_nothing_is_retried_if_one_may_not_be(api: Api, at: Project, ann: User) -> None:
    first = submit(at, owner=ann, **BROKEN)
    depends(at, first)
    fail(first)
    for dry_run in (True, False):
        body = {"filter": BROKEN, "downstream": True, "dry_run": dry_run}
        assert api.post("sessions/bulk-retry/", body).status_code == 403
    assert tip(first).pk == first.pk


def test_too_many_are_refused_before_anything_is_retried(
    api: Api, at: Project, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = Failed(at, ann)
    monkeypatch.setattr(downstream, "MOST", 2)
    response = api.post("sessions/bulk-retry/", {"filter": BROKEN, "downstream": True})
    assert response.status_code == 413, response.content
    assert tip(chains.one).pk == chains.one.pk
    # The limit is that of one call.
    assert len(retried(api, BROKEN, limit=1)["downstream"]) in {1, 2}


def test_a_wrong_value_names_the_field(api: Api, at: Project) -> None:
    response = api.post("sessions/bulk-retry/", {"filter": {}, "downstream": "yes"})
    assert response.status_code == 400
    assert list(response.json()["errors"]) == ["downstream"]


def test_it_takes_the_same_statements_for_any_number(api: Api, at: Project, ann: User) -> None:
    def asked() -> int:
        Failed(at, ann)
        with CaptureQueriesContext(connection) as done:
            retried(api, BROKEN)
        return len(done)

    asked()  # Reads what is kept.
    first = asked()
    Failed(at, ann)
    assert asked() == first


def test_it_can_be_asked_for_in_graphql(at: Project, ann: User) -> None:
    chains = Failed(at, ann)
    query = """
        mutation($input: RetrySessionsInput!) {
            retrySessions(input: $input) { downstream results { outcome } errors { message } } }
    """
    graph = Graph(factories.token(ann))
    wanted = {"filter": {"jobSet": "broken"}, "downstream": True}
    dry = graph.ask(query, input={**wanted, "dryRun": True})["retrySessions"]
    assert set(dry["downstream"]) == ids(*chains.down)
    made = graph.ask(query, input=wanted)["retrySessions"]
    assert (made["errors"], len(made["results"])) == ([], 2)
    assert set(made["downstream"]) == ids(*(tip(each) for each in chains.down))
