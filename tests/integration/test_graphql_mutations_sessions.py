"""Sessions are submitted, cancelled, preempted and retried over GraphQL as over REST."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from sessions_app.models import AuditEntry, Project, Session
from sessions_app.models.tenants import Role
from tests import factories
from tests.graphs import Graph
from tests.mutations import change, done, refusal


@pytest.fixture
def ann(at: Project) -> User:
    return factories.user("ann", project=at)


@pytest.fixture
def graph(ann: User) -> Graph:
    return Graph(factories.token(ann))


FULL = {
    "project": "acme/work",
    "name": "train",
    "jobSet": "night",
    "sessionType": "BATCH",
    "image": "python:3",
    "command": ["sh", "-c", "true"],
    "environ": {"MY_VAR": "a", "other.name": "b"},
    "resources": {"cpu": "500m", "memory": "1Gi"},
    "labels": {"team_a": "x"},
    "clusterSize": 2,
    "priority": 3,
    "batchTimeout": 60,
    "retryPolicy": {
        "maxRetries": 3,
        "retryDelay": 5,
        "backoff": "EXPONENTIAL",
        "eligibleCauses": ["oom_killed", "EVICTED"],
    },
}
"""A session with most fields."""


def test_a_session_is_submitted(graph: Graph) -> None:
    payload = done(
        graph,
        "createSession",
        "created session { sessionId name status environ labels queue { name } "
        "retryPolicy { maxRetries } }",
        **FULL,
        clientMutationId="7",
    )
    assert payload["created"] is True
    assert payload["clientMutationId"] == "7"
    session = payload["session"]
    assert (session["name"], session["status"]) == ("train", "PENDING")
    assert session["environ"] == FULL["environ"]
    assert session["labels"] == FULL["labels"]
    rest = graph.read(f"sessions/{session['sessionId']}/")
    assert rest["retry_policy"]["max_retries"] == 3
    assert rest["retry_policy"]["eligible_causes"] == ["evicted", "oom_killed"]
    assert rest["owner"] == "ann"


def test_the_same_creation_id_finds_it_again(graph: Graph) -> None:
    given = {"creationId": "c1", "image": "x", "project": "acme/work"}
    first = done(graph, "createSession", "created session { id }", **given)
    again = done(graph, "createSession", "created session { id }", **given)
    assert again == {**first, "created": False}
    other = change(graph, "createSession", "created session { id }", **given | {"image": "y"})
    assert other["session"] is None
    assert other["created"] is None
    (error,) = other["errors"]
    assert error["code"] == "CONFLICT"
    assert error["details"]["session_id"]
    assert Session.objects.count() == 1


NEVER = {"environ.A", "command[0]"}
"""What no body may hold, which the door refuses before anything else is looked at."""


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "command"),
        ({"image": "x", "retryPolicy": {"maxRetries": -1}}, "retryPolicy.maxRetries"),
        ({"image": "x", "environ": {"A=b": "c"}}, "environ.A=b"),
        ({"image": "x", "environ": {"my_var": 1}}, "environ.my_var"),
        ({"image": "x", "environ": {"A": "\x00"}}, "environ.A"),
        ({"image": "x", "command": ["a\ud800"]}, "command[0]"),
        ({"image": "x", "resources": {"cpu": "many"}}, "resources"),
        ({"image": "x", "clusterSize": 0}, "clusterSize"),
        ({"image": "x", "terminationGracePeriod": -1}, "terminationGracePeriod"),
        ({"image": "x", "ports": ["http", "Bad"]}, "ports[1]"),
        ({"image": "x", "project": "acme/other"}, "project"),
        ({"image": "x", "queue": "none"}, "queue"),
        ({"image": "x", "retryPolicies": ["none"]}, "retryPolicies"),
    ],
)
def test_errors_have_the_names_of_graphql(graph: Graph, given: dict[str, Any], field: str) -> None:
    response = graph.send(
        """mutation($input: CreateSessionInput!) {
        createSession(input: $input) { session { id } errors { field code } } }""",
        input={"project": "acme/work", **given},
    )
    body = response.json()
    if field in NEVER:
        assert list(body["errors"]) == [f"variables.input.{field}"]
    else:
        payload = body["data"]["createSession"]
        assert payload["session"] is None
        assert payload["errors"] == [{"field": field, "code": "INVALID"}]
    assert not Session.objects.exists()


def test_a_chain_is_cancelled(graph: Graph, at: Project, ann: User) -> None:
    session = factories.submit(at, owner=ann)
    for _ in range(2):
        answer = done(graph, "cancelSession", "session { id status }", id=str(session.pk))
        assert answer["session"]["status"] == "CANCELLED"
    again = done(graph, "cancelSession", "session { status }", id=answer["session"]["id"])
    assert again["session"]["status"] == "CANCELLED"


def test_a_session_is_retried_by_hand(graph: Graph, at: Project, ann: User) -> None:
    session = factories.submit(at, owner=ann)
    factories.settle(factories.start(session))
    answer = done(
        graph,
        "retrySession",
        "session { sessionId resources parentSession { sessionId } }",
        id=str(session.pk),
        resources={"memory": "2Gi"},
    )["session"]
    assert answer["parentSession"]["sessionId"] == str(session.pk)
    assert answer["resources"]["memory"] == "2Gi"
    payload = change(graph, "retrySession", id=str(session.pk))
    (error,) = payload["errors"]
    assert error["code"] == "CONFLICT"
    assert error["details"] == {"tip": answer["sessionId"]}
    assert refusal(graph, "retrySession", id=answer["sessionId"], resources={"cpu": "x"}) == (
        "INVALID",
        "resources",
    )


def test_a_run_is_preempted(at: Project) -> None:
    mia = Graph(factories.token(factories.user("mia", project=at, role=Role.MAINTAINER)))
    session = factories.start(factories.submit(at))
    Session.objects.update(accepted_at=session.started_at)
    payload = done(
        mia, "preemptSession", "session { preemptRequestedAt }", id=str(session.pk), reason="room"
    )
    assert payload["session"]["preemptRequestedAt"]
    assert AuditEntry.objects.filter(actor="mia", object_id=str(session.pk)).exists()


def test_hidden_sessions_are_missing(graph: Graph) -> None:
    hidden = factories.submit(factories.project("other", domain="globex"))
    for mutation in ("cancelSession", "retrySession", "preemptSession"):
        code, field = refusal(graph, mutation, id=str(hidden.pk))
        assert (code, field) == ("NOT_FOUND", None)
        assert refusal(graph, mutation, id="junk") == ("NOT_FOUND", None)
    hidden.refresh_from_db()
    assert hidden.status == "PENDING"


def test_many_are_submitted_in_one_call(graph: Graph) -> None:
    given = [
        {"image": "x", "project": "acme/work", "creationId": "a"},
        {"image": "x", "project": "acme/work", "priority": 10**7},
        {"image": "x", "project": "acme/work", "retryPolicy": {"maxRetries": -1}},
        {"image": "x", "project": "acme/work", "creationId": "a"},
        {"project": "acme/none", "image": "x"},
    ]
    results = done(
        graph,
        "createSessions",
        "results { outcome sessionId session { sessionId name } errors { field code } }",
        sessions=given,
    )["results"]
    outcomes = [each["outcome"] for each in results]
    assert outcomes == ["created", "refused", "refused", "exists", "refused"]
    fields = [[error["field"] for error in each["errors"]] for each in results]
    assert fields == [
        [],
        ["sessions[1].priority"],
        ["sessions[2].retryPolicy.maxRetries"],
        [],
        ["sessions[4].project"],
    ]
    assert results[0]["session"]["sessionId"] == results[0]["sessionId"] == results[3]["sessionId"]
    assert refusal(graph, "createSessions", sessions=[]) == ("INVALID", "sessions")


BY_FILTER = "dryRun next remaining results { sessionId outcome session { status } errors { code } }"


def test_by_filter_with_a_dry_run(graph: Graph, at: Project, ann: User) -> None:
    mine = [factories.submit(at, owner=ann, job_set="night") for _ in range(2)]
    theirs = factories.submit(at, job_set="night")
    factories.submit(at, owner=ann)
    tried = done(graph, "cancelSessions", BY_FILTER, filter={"jobSet": "night"}, dryRun=True)
    assert tried["dryRun"] is True
    assert not Session.objects.exclude(status="PENDING").exists()
    answer = done(graph, "cancelSessions", BY_FILTER, filter={"jobSet": "night"})
    assert [each["sessionId"] for each in answer["results"]] == [
        str(each.pk) for each in (theirs, *reversed(mine))
    ]
    assert [each["outcome"] for each in answer["results"]] == ["refused", "cancelled", "cancelled"]
    assert answer["results"][0]["errors"] == [{"code": "NOT_PERMITTED"}]
    assert answer["results"][1]["session"] == {"status": "CANCELLED"}
    again = done(
        graph,
        "retrySessions",
        "results { sessionId outcome nextSession { parentSession { sessionId } } errors { code } }",
        filter={"status": "CANCELLED", "owner": "ann"},
        limit=1,
    )["results"]
    assert len(again) == 1


def test_priorities_by_filter(graph: Graph, at: Project, ann: User) -> None:
    waiting = factories.submit(at, owner=ann, job_set="night")
    running = factories.start(factories.submit(at, owner=ann, job_set="night"))
    fields = "results { sessionId outcome session { priority } errors { code } }"
    asked = {"filter": {"jobSet": "night"}, "priority": -3}
    results = done(graph, "updateSessions", fields, **asked)["results"]
    shown = {each["sessionId"]: (each["outcome"], each["session"]["priority"]) for each in results}
    assert shown == {str(waiting.pk): ("updated", -3), str(running.pk): ("refused", 0)}
    assert refusal(graph, "updateSessions", filter={}, priority=1_000_001) == (
        "INVALID",
        "priority",
    )
    assert refusal(graph, "updateSession", id=str(running.pk), priority=1) == ("CONFLICT", None)


def test_parked_chains_are_given_up_by_filter(graph: Graph, at: Project, ann: User) -> None:
    mine, theirs = factories.parked(at, owner=ann), factories.parked(at)
    ended = factories.settle(factories.start(factories.submit(at, owner=ann)))

    def shown(**more: Any) -> dict[str, tuple[str, list[str]]]:
        fields = "results { sessionId outcome errors { code } }"
        results = done(graph, "giveUpSessions", fields, filter={"status": "ERROR"}, **more)
        return {
            each["sessionId"]: (each["outcome"], [error["code"] for error in each["errors"]])
            for each in results["results"]
        }

    expected = {
        str(mine.pk): ("given_up", []),
        str(theirs.pk): ("refused", ["NOT_PERMITTED"]),
        str(ended.pk): ("refused", ["CONFLICT"]),
    }
    assert shown(dryRun=True) == expected
    assert factories.reread(mine).retry_state == "parked"
    assert shown() == expected
    states = [factories.reread(each).retry_state for each in (mine, theirs)]
    assert states == ["exhausted", "parked"]


def test_runs_by_filter_are_preempted(at: Project) -> None:
    mia = Graph(factories.token(factories.user("mia", project=at, role=Role.MAINTAINER)))
    running = factories.start(factories.submit(at, job_set="night"))
    Session.objects.filter(pk=running.pk).update(accepted_at=running.started_at)
    waiting = factories.submit(at, job_set="night")
    asked = {"filter": {"jobSet": "night"}, "reason": "room"}

    def shown(**more: Any) -> dict[str, tuple[str, str]]:
        results = done(mia, "preemptSessions", BY_FILTER, **asked, **more)["results"]
        return {each["sessionId"]: (each["outcome"], each["session"]["status"]) for each in results}

    refused = {str(waiting.pk): ("refused", "PENDING")}
    assert shown(dryRun=True) == {str(running.pk): ("preempted", "RUNNING"), **refused}
    assert shown() == {str(running.pk): ("preempted", "TERMINATING"), **refused}
    assert factories.reread(running).status_message == "preempted by mia: room"
    assert refusal(mia, "preemptSessions", filter={}, reason="x" * 257) == ("INVALID", "reason")


def test_a_filter_names_its_fields(graph: Graph) -> None:
    assert refusal(graph, "cancelSessions", filter={"createdAfter": "7"}) == (
        "INVALID",
        "filter.createdAfter",
    )
    assert refusal(graph, "retrySessions", filter={}, limit=0) == ("INVALID", "limit")


def test_bulk_counts_for_the_cost(graph: Graph) -> None:
    query = """mutation($input: CancelSessionsInput!) { cancelSessions(input: $input) { results {
        session { attempts(first: 200) { edges { node { attempt } } } } } } }"""
    error = graph.refused(query, input={"filter": {}})
    assert error["extensions"]["code"] == "TOO_COMPLEX"
    assert "errors" not in graph.send(query, input={"filter": {}, "limit": 10}).json()
