"""Rules that move later retries to other hardware: to nodes and executors with some labels."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.allocation.scheduling_keys import scheduling_keys_assign
from scheduler.models import Executor
from sessions_app.models import Project, RetryDecision, Session, SessionSpec
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Api, agent
from tests.factories import settle, submit, tip
from tests.invariants import check_all

DOCS = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
SECTION = DOCS.split("## Other hardware on another try")[1].split("\n## ")[0]
EXAMPLE = yaml.safe_load(re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)[1])  # type: ignore[index]
PREEMPTED: dict[str, Any] = {"conditions": ("Preempted",)}
pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return Api(factories.token(factories.user(superuser=True)))


def moved_by(at: Project, **placement: Any) -> None:
    rule = {"action": "Retry", "onConditions": ["Preempted"], "placement": placement}
    factories.named_policy("move", project=at, rules=[rule])


def next_attempt(session: Session, **facts: Any) -> Session:
    settle(tip(session), **(facts or PREEMPTED))
    RetryDecision.objects.filter(state="scheduled").update(due_at="2020-01-01T00:00:00Z")
    assert retries_dispatch().dispatched == 1
    return tip(session)


def broken() -> list[str]:
    """What is wrong, but for the times that the test has moved."""
    moved = (" due_at: ", "attempts_follow_each_other: ")
    return [each for each in check_all() if not any(words in each for words in moved)]


def selector(session: Session) -> Any:
    return (session.spec.pod_spec or {}).get("nodeSelector")


def test_the_example_takes_two_of_spot_and_then_on_demand(at: Project, api: Api) -> None:
    factories.named_policy("spot", project=at, **EXAMPLE["spec"])
    spot = {"nodeSelector": {"capacity-type": "spot", "gpu": "a100"}}
    session = submit(at, retry_policies=["spot"], pod_spec=spot, image="i:1")
    second = next_attempt(session)
    assert second.spec_id == session.spec_id
    assert second.changes is None
    third = next_attempt(session)
    assert selector(third) == {"capacity-type": "on-demand", "gpu": "a100"}
    place = {"nodeSelector": {"capacity-type": "on-demand"}}
    assert third.changes == {"placement": place}
    shown = api.read(f"sessions/{third.pk}/attempts/")
    assert [each["changes"] for each in shown] == [None, None, {"placement": place}]
    told = api.read(f"sessions/{second.pk}/retry-decision/?explain=true")
    sentence = "The next attempt runs on nodes with capacity-type=on-demand: it is retry 2 of"
    assert sentence in json.dumps(told)
    told = api.read(f"sessions/{session.pk}/retry-decision/?explain=true")
    assert "Retry 2 of the rule is the first one on nodes with capacity-type" in json.dumps(told)
    assert third.scheduling_key != second.scheduling_key
    assert broken() == []


@pytest.mark.parametrize(
    ("had", "gets"),
    [
        (None, {"nodeSelector": {"a": "b"}}),
        ({"hostNetwork": False}, {"hostNetwork": False, "nodeSelector": {"a": "b"}}),
        (
            {"spec": {"nodeSelector": {"a": "x", "c": "d"}}, "metadata": {}},
            {"spec": {"nodeSelector": {"a": "b", "c": "d"}}, "metadata": {}},
        ),
        ({"spec": {"nodeSelector": None}}, {"spec": {"nodeSelector": {"a": "b"}}}),
    ],
)
def test_the_labels_are_merged_wherever_the_pod_has_them(at: Project, had: Any, gets: Any) -> None:
    moved_by(at, nodeSelector={"a": "b"})
    session = submit(at, retry_policies=["move"], pod_spec=had)
    assert next_attempt(session).spec.pod_spec == gets


def test_later_attempts_keep_what_they_were_given(at: Project) -> None:
    moved_by(at, nodeSelector={"a": "b"})
    session = submit(
        at, retry_policies=["move"], retry_policy=factories.policy(), environ={"A": "1"}
    )
    moved = next_attempt(session)
    last = next_attempt(session, exit_code=1)
    assert (last.spec_id, selector(last), last.changes) == (moved.spec_id, {"a": "b"}, None)
    settle(last)
    by_hand = factories.retry(last, by="ann", changes={"image": "i:2"})
    assert (selector(by_hand), by_hand.spec.image) == ({"a": "b"}, "i:2")
    assert by_hand.spec.environ == {"A": "1"}


def test_a_person_who_brings_it_forward_keeps_it(at: Project) -> None:
    moved_by(at, nodeSelector={"a": "b"})
    session = submit(at, retry_policies=["move"])
    settle(session, **PREEMPTED)
    child = factories.retry(session, by="ann", changes={"priority": 3})
    assert (selector(child), child.priority) == ({"a": "b"}, 3)
    assert child.changes == {"placement": {"nodeSelector": {"a": "b"}}, "priority": 3}


def test_only_executors_with_the_labels_take_it(at: Project, api: Api) -> None:
    here, there = agent("here"), agent("there")
    moved_by(at, executors={"labels": {"zone": "b"}})
    session = submit(at, retry_policies=["move"])
    child = next_attempt(session)
    assert child.spec.executor_labels == {"zone": "b"}
    assert here.lease() == []
    assert there.lease() == []
    Session.objects.filter(pk=child.pk).update(created_at="2020-01-01T00:00:00Z")
    said = api.read(f"sessions/{child.pk}/")
    assert said["why_pending"]["reason"] == "no_fit"
    assert "has the labels zone=b" in said["pending_reason"]
    labelled = api.call("PATCH", "executors/there/", {"labels": {"zone": "b", "rack": "1"}})
    assert labelled.json()["labels"] == {"zone": "b", "rack": "1"}
    assert here.lease() == []
    assert there.lease() == [child.pk]
    assert broken() == []


def test_keys_of_others_are_as_before(at: Project) -> None:
    moved_by(at, executors={"labels": {"zone": "b"}})
    session = submit(at, retry_policies=["move"], retry_policy=factories.policy())
    moved = next_attempt(session)
    key = moved.scheduling_key
    Session.objects.filter(pk=moved.pk).update(scheduling_key=None)
    scheduling_keys_assign()
    assert factories.reread(moved).scheduling_key == key


def test_a_batch_is_a_fixed_number_of_statements(at: Project) -> None:
    moved_by(at, nodeSelector={"a": "b"})

    def spent(count: int) -> int:
        for _ in range(count):
            settle(submit(at, retry_policies=["move"]), **PREEMPTED)
        RetryDecision.objects.filter(state="scheduled").update(due_at="2020-01-01T00:00:00Z")
        with CaptureQueriesContext(connection) as done:
            assert retries_dispatch().dispatched == count
        return len(done)

    spent(1)
    assert spent(2) == spent(9)
    assert SessionSpec.objects.filter(pod_spec__isnull=False).count() == 12


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        ({}, "needs a nodeSelector or executors"),
        ({"after": 1}, "needs a nodeSelector or executors"),
        ({"nodeSelector": {}}, "must have a label"),
        ({"nodeSelector": {"a b": "c"}}, "is not the name of a Kubernetes label"),
        ({"nodeSelector": {"a": 1}}, "must be the value of a Kubernetes label"),
        ({"nodeSelector": {"a": "b"}, "after": -1}, "between 0 and 1000"),
        ({"executors": {}}, "required"),
        ({"executors": {"labels": []}}, "must be an object"),
    ],
)
def test_bad_placements_are_refused(api: Api, at: Project, placement: Any, said: str) -> None:
    rule = {"action": "Retry", "onConditions": ["Preempted"], "placement": placement}
    document = {**EXAMPLE, "spec": {"rules": [rule]}}
    answer = api.call("PUT", "retry-policies/spot-then-on-demand/", document)
    assert answer.status_code == 400, answer.content
    assert all(name.startswith("spec.rules[0].placement") for name in answer.json()["errors"])
    assert said in str(answer.json()["errors"])


def test_an_executor_without_labels_has_none(at: Project) -> None:
    assert Executor.objects.create(name="x").labels == {}


def test_a_simulation_shows_where_attempts_run(at: Project, api: Api) -> None:
    ends = [{"conditions": ["Preempted"]}] * 3
    chain = {"session_type": "batch", "resources": {}, "terminations": ends}
    answer = api.post("retry-policies/simulate/", {"policies": [EXAMPLE], "chains": [chain]})
    assert answer.status_code == 200, answer.content
    (found,) = answer.json()["chains"]
    moved = {"nodeSelector": {"capacity-type": "on-demand"}}
    assert [each["placement"] for each in found["attempts"]] == [None, moved, moved]
