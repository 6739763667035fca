"""Failures are counted by their signatures, behind the log: each once, for its project."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from sessions_app.locks import database_now
from sessions_app.models import FailureHour, FailureSignature, Project, Session, SessionEvent
from sessions_app.models.failures import OTHER
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.failures import count
from sessions_app.services.failures import hours as hour_figures
from sessions_app.services.failures.count import (
    failures_forget,
    failures_rebuild,
    stretch_count,
)
from sessions_app.services.failures.figures import OTHER_TITLE
from sessions_app.services.sessions import retention
from tests import factories
from tests.agent import Api, admin
from tests.audit import audited_acts
from tests.factories import policy, reread, tip
from tests.graphs import Graph
from tests.invariants import check_all
from tests.told_log import failures_count

pytestmark = pytest.mark.django_db(transaction=True)
RETRIED = policy(max_retries=3)


def failed(session: Session, text: str, executor: str = "", **facts: Any) -> Session:
    """Run a session until it fails with a text."""
    factories.start(session, executor)
    sessions_settle({session.pk: End(Termination(**({"exit_code": 1} | facts)), log_tail=text)})
    return reread(session)


def recovered(at: Project, text: str = "error: disk is full\n", times: int = 2) -> Session:
    """A chain that fails some times and then succeeds."""
    root = factories.submit(at, retry_policy=RETRIED, image="busybox:1")
    for _ in range(times):
        failed(tip(root), text)
        retries_dispatch()
    factories.settle(factories.start(tip(root)), status="terminated")
    return reread(root)


def figures() -> list[tuple[str, int, int, int]]:
    rows = FailureSignature.objects.order_by("title", "key")
    return list(rows.values_list("title", "sessions", "chains", "recovered_chains"))


def hours() -> list[tuple[Any, ...]]:
    columns = ("dimension", "value", "key", "sessions", "chains", "recovered_chains")
    return sorted(FailureHour.objects.values_list(*columns))


def test_failures_are_counted_once_by_their_signature(at: Project) -> None:
    root = recovered(at)
    failed(factories.submit(at), "error: disk is full\n")
    last = failed(factories.submit(at), "error: bad row\n")
    assert failures_count() == 5  # with the success of the chain
    assert figures() == [("error: bad row", 1, 1, 0), ("error: disk is full", 3, 2, 1)]
    key = root.failure_signature
    found = FailureSignature.objects.get(key=key)
    assert found.first_seen < found.last_seen
    assert found.cause == "kernel_nonzero_exit"
    assert FailureSignature.objects.get(key=last.failure_signature).example == last.pk
    of_key = [row for row in hours() if row[2] == key]
    assert ("", "", key, 3, 2, 1) in of_key
    assert ("node", "node-1", key, 3, 2, 1) in of_key
    assert ("image", "busybox:1", key, 2, 1, 1) in of_key
    assert failures_count() == 0
    assert figures()[1] == ("error: disk is full", 3, 2, 1)
    assert check_all() == []


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_stretches_of_any_length_count_the_same(at: Project, limit: int) -> None:
    recovered(at)
    failed(factories.submit(at), "error: bad row\n")
    while stretch_count(limit)[1]:
        pass
    in_stretches = figures(), hours()
    failures_rebuild()
    assert (figures(), hours()) == in_stretches
    assert figures() == [("error: bad row", 1, 1, 0), ("error: disk is full", 2, 1, 1)]


def test_a_rebuild_reads_archived_chains_from_the_log(at: Project) -> None:
    root = recovered(at)
    failures_count()
    FailureSignature.objects.update(muted=True)
    before = figures(), hours()
    retention.chains_archive([root.pk], database_now() + timedelta(days=1))
    assert not Session.objects.exists()
    failures_rebuild()
    assert (figures(), hours()) == before
    assert FailureSignature.objects.get().muted


def test_nodes_of_two_executors_are_told_apart(at: Project, api: Api) -> None:
    roots = [
        failed(factories.submit(at), "error: disk is full\n", executor)
        for executor in ("a", "b", "b", "")
    ]
    failures_count()
    # Without an executor it is as counted by a release that had names alone.
    expected = {"a/node-1": 1, "b/node-1": 2, "node-1": 1}

    def nodes(query: str = "") -> dict[str, int]:
        (shown,) = api.read(f"failures/?project=acme/work{query}")["results"]
        assert sum(shown["sparkline"]) == shown["sessions"]
        assert shown["sessions"] == asked[query]
        return {each["value"]: each["sessions"] for each in shown["nodes"]}

    asked = {"": 4, "&node=node-1": 4, "&node=b/node-1": 2, "&node=a/node-1": 1}
    for query in asked:
        assert nodes(query) == expected
    for query in ("node=c/node-1", "node=1", "node=/node-1", "node=b"):
        assert api.read(f"failures/?{query}")["results"] == []
    before = hours()
    retention.chains_archive([each.pk for each in roots], database_now() + timedelta(days=1))
    assert not Session.objects.exists()
    failures_rebuild()
    assert hours() == before


def test_filters_by_node_take_as_many_statements_for_many(at: Project, api: Api) -> None:
    taken = []
    for executors in ("a", "bcdef"):
        for executor in executors:
            failed(factories.submit(at), f"error: {executor}\n", executor)
        failures_count()
        with CaptureQueriesContext(connection) as queries:
            api.read("failures/?project=acme/work&node=node-1")
        taken.append(len([each for each in queries if "failure" in each["sql"]]))
    assert taken == [4, 4]


def test_too_many_new_signatures_count_as_other(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(count, "MOST_NEW", 2)
    failed(factories.submit(at), "error: one\n")
    failures_count()
    for word in ("one", "two", "three", "four", "three"):
        failed(factories.submit(at), f"error: {word}\n")
    failures_count()
    assert figures() == [
        ("error: one", 2, 2, 0),
        ("error: two", 1, 1, 0),
        ("failures of too many new kinds at once", 3, 3, 0),
    ]


def an_hour_ago() -> None:
    """Move all that happened so far an hour back."""
    hour = timedelta(hours=1)
    for model, names in (
        (SessionEvent, ("time",)),
        (Session, ("created_at", "started_at", "finished_at")),
        (FailureSignature, ("first_seen", "last_seen")),
        (FailureHour, ("hour",)),
    ):
        model._default_manager.update(**{name: F(name) - hour for name in names})


def test_chains_that_count_as_other_recover_there(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(count, "MOST_NEW", 1)
    failed(factories.submit(at), "error: one\n")
    for text in ("error: two\n", "error: three\n"):
        recovered(at, text)
    failures_count()
    counted = [("error: one", 1, 1, 0), (OTHER_TITLE, 4, 2, 2)]
    assert figures() == counted
    assert ("", "", OTHER, 4, 2, 2) in hours()
    before = hours()
    recovered(at, "error: two\n", times=0)
    failures_rebuild()
    assert (figures(), hours()) == (counted, before)


def test_a_chain_counts_once_as_other_whatever_its_failures(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(count, "MOST_NEW", 0)
    root = factories.submit(at, retry_policy=RETRIED)
    for word in ("one", "two"):
        failed(tip(root), f"error: {word}\n")
        retries_dispatch()
    failures_count()
    assert figures() == [(OTHER_TITLE, 2, 1, 0)]


@pytest.mark.parametrize("limit", [1, 100])
def test_a_signature_that_was_other_an_hour_before_counts_its_chain(
    at: Project, monkeypatch: Any, limit: int
) -> None:
    monkeypatch.setattr(count, "MOST_NEW", 1)
    failed(factories.submit(at), "error: one\n")
    root = factories.submit(at, retry_policy=RETRIED)
    failed(root, "error: two\n")
    retries_dispatch()
    failures_count()
    assert figures() == [("error: one", 1, 1, 0), (OTHER_TITLE, 1, 1, 0)]
    an_hour_ago()
    failed(tip(root), "error: two\n")
    retries_dispatch()
    factories.settle(factories.start(tip(root)), status="terminated")
    while stretch_count(limit)[1]:
        pass
    assert figures()[:2] == [("error: one", 1, 1, 0), ("error: two", 1, 1, 1)]
    before = figures(), hours()
    failures_rebuild()
    assert (figures(), hours()) == before


def test_values_beyond_the_most_of_an_hour_are_one_row(
    at: Project, api: Api, monkeypatch: Any
) -> None:
    monkeypatch.setattr(hour_figures, "MOST_VALUES", 2)
    for image in ("a:1", "b:1", "b:1", "c:1"):
        failed(factories.submit(at, image=image), "error: bad row\n")
    failures_count()
    for image in ("a:1", "d:1"):
        failed(factories.submit(at, image=image), "error: bad row\n")
    failed(factories.submit(at, image="d:1"), "error: disk is full\n")
    failures_count()
    rows = FailureHour.objects.filter(dimension="image", sessions__gt=0)
    assert sorted(rows.values_list("value", "sessions")) == [
        ("", 2),
        ("a:1", 2),
        ("b:1", 2),
        ("d:1", 1),  # of the other failure
    ]
    row, other = api.read("failures/")["results"]
    assert (row["sessions"], sum(row["sparkline"])) == (6, 6)
    assert row["images"] == [{"value": name, "sessions": 2} for name in ("a:1", "b:1")]
    assert other["images"] == [{"value": "d:1", "sessions": 1}]
    assert [each["sessions"] for each in api.read("failures/?image=b:1")["results"]] == [2]
    (found,) = api.read("failures/?image=d:1")["results"]
    assert found["key"] == other["key"]
    assert api.get("failures/?image=").status_code == 400
    before = figures()
    failures_rebuild()
    assert figures() == before


def test_a_sparkline_has_the_hours_of_the_time(at: Project, api: Api) -> None:
    failed(factories.submit(at), "error: bad row\n")
    failures_count()
    now = database_now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    row = FailureHour.objects.get(dimension="")
    for hours_ago, number in ((3, 7), (23, 5), (30, 9)):
        row.pk, row.hour, row.sessions = None, hour - timedelta(hours=hours_ago), number
        row.save()
    times = (hour - timedelta(hours=23), hour + timedelta(hours=1))
    since, until = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in times)
    (shown,) = api.read(f"failures/?since={since}&until={until}")["results"]
    assert shown["sparkline"] == [5, *[0] * 19, 7, 0, 0, 1]
    assert shown["sessions"] == 13


def test_what_was_not_seen_for_longest_is_dropped(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(count, "MOST_OF_PROJECT", 2)
    for word in ("one", "two", "one", "three"):
        failed(factories.submit(at), f"error: {word}\n")
        failures_count()
    assert [title for title, *_ in figures()] == ["error: one", "error: three"]


def test_what_counts_as_other_is_one_of_the_most(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(count, "MOST_OF_PROJECT", 2)
    monkeypatch.setattr(count, "MOST_NEW", 2)
    for word in ("one", "two", "three"):
        failed(factories.submit(at), f"error: {word}\n")
        failures_count()
        assert FailureSignature.objects.count() <= 2
    assert [title for title, *_ in figures()] == ["error: two", OTHER_TITLE]
    FailureSignature.objects.all().delete()
    for word in ("four", "five", "six", "seven"):
        failed(factories.submit(at), f"error: {word}\n")
    failures_count()  # all at once
    assert [title for title, *_ in figures()] == ["error: five", OTHER_TITLE]


def test_old_figures_are_forgotten(at: Project) -> None:
    failed(factories.submit(at), "error: one\n")
    failures_count()
    later = database_now() + timedelta(hours=1)
    assert failures_forget(later, None, 100) == 4 - 1  # there is no node
    assert FailureSignature.objects.exists()
    failures_forget(later, later, 100)
    assert not FailureSignature.objects.exists()


def test_counting_takes_as_many_statements_for_many(at: Project) -> None:
    recovered(at)
    failures_count()
    taken = []
    for number in (1, 6):
        for word in "abcdef"[:number]:
            failed(factories.submit(at), f"error: {number} {word}\n")
        recovered(at)
        with CaptureQueriesContext(connection) as queries:
            stretch_count()
        taken.append(len(queries))
    assert taken[0] == taken[1] <= 20
    assert len(figures()) == 8


def test_titles_hold_what_the_database_takes(at: Project) -> None:
    failed(factories.submit(at), "error: a\0b \ud800\n".encode("utf-8", "replace").decode())
    assert failures_count() == 1
    assert figures()[0][0]


@pytest.fixture
def api(at: Project) -> Api:
    """A maintainer's."""
    return Api(factories.token(factories.user("lea", project=at, role=Role.MAINTAINER)))


def test_the_list_tells_what_fails_how_often_and_where(at: Project, api: Api) -> None:
    root = recovered(at)
    failed(factories.submit(at), "error: bad row\n")
    elsewhere = factories.project("elsewhere")
    failed(factories.submit(elsewhere), "error: disk is full\n")
    failures_count()
    disk, row = api.read("failures/")["results"]
    assert (disk["title"], disk["key"]) == ("error: disk is full", root.failure_signature)
    assert (disk["sessions"], disk["chains"], disk["recovered_chains"]) == (2, 1, 1)
    assert disk["images"] == [{"value": "busybox:1", "sessions": 2}]
    assert disk["nodes"] == [{"value": "node-1", "sessions": 2}]
    assert disk["queues"] == [{"value": "default", "sessions": 2}]
    assert len(disk["sparkline"]) == 24
    assert sum(disk["sparkline"]) == 2
    assert row["sessions"] == 1
    (first,) = api.read("failures/?image=busybox:1&cause=kernel_nonzero_exit")["results"]
    assert first == disk
    pages = api.pages("failures/?page_size=1&ordering=sessions")
    assert [[each["key"] for each in page] for page in pages] == [[row["key"]], [disk["key"]]]
    assert api.read("failures/?until=2020-01-01T00:00:00Z")["results"] == []


def test_failures_of_one_title_show_in_what_they_differ(
    at: Project, api: Api, graph: Graph
) -> None:
    text = "error: disk is full\n"
    ends: tuple[dict[str, Any], ...] = (
        {"exit_code": 2},
        {"exit_code": 3},
        *({"exit_code": code, "reason": "DeadlineExceeded"} for code in (137, 143)),
        {"exit_code": 137, "reason": "OOMKilled"},
        {"reason": "Error", "exit_code": None},
    )
    for end in ends:
        failed(factories.submit(at), text, **end)
    failures_count()
    expected = {
        ("kernel_nonzero_exit", 2),
        ("kernel_nonzero_exit", 3),
        ("deadline_exceeded", None),
        ("oom_killed", None),
        ("unknown", None),
    }
    rows = api.read("failures/")["results"]
    assert {each["title"] for each in rows} == {text.strip()}
    assert sorted(map(str, expected)) == sorted(
        str((each["cause"], each["exit_code"])) for each in rows
    )
    edges = graph.ask("{ failures { edges { node { cause exitCode } } } }")["failures"]["edges"]
    nodes = [each["node"] for each in edges]
    assert {(each["cause"].lower(), each["exitCode"]) for each in nodes} == expected
    failures_rebuild()
    assert {(each["cause"], each["exit_code"]) for each in api.read("failures/")["results"]} == (
        expected
    )


def test_one_failure_is_muted_and_heard_again(at: Project, api: Api) -> None:
    root = recovered(at)
    failures_count()
    path = f"failures/{root.failure_signature}/?project=acme/work"
    assert not api.read(path)["muted"]
    muted = api.call("PATCH", path, {"muted": True})
    assert muted.status_code == 200
    assert muted.json() == api.read(path)
    assert muted.json()["muted"]
    assert api.call("PATCH", path, {"muted": True}).status_code == 200
    assert api.read("failures/?muted=false")["results"] == []
    acts = audited_acts().filter(object_type="failure")
    told = [(each.actor, each.action, each.object_id, each.project) for each in acts]
    assert told == [("lea", "failure.mute", root.failure_signature, "acme/work")]
    failed(factories.submit(at), "error: disk is full\n")
    failures_count()
    assert api.read(path)["muted"]
    old = api.read(f"{path}&until=2020-01-01T00:00:00Z")
    assert (old["sessions"], old["title"]) == (0, "error: disk is full")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2030-01-01T00:00:00Z", "since"),
        ("since=2020-01-01T00:00:00Z", "since"),
        ("until=9999-12-31T23:59:59Z", "until"),
        ("until=0001-01-01T00:00:00Z", "until"),
        ("queue=a&node=b", "node"),
        ("ordering=title", "ordering"),
        ("cause=bad", "cause"),
        ("project=acme/none", "project"),
    ],
)
def test_a_bad_question_is_told_which_field_is_wrong(api: Api, query: str, field: str) -> None:
    answer = api.get(f"failures/?{query}")
    assert answer.status_code == 400
    assert [*answer.json()["errors"]] == [field]


def test_a_bad_cursor_and_an_unknown_key_are_not_found(at: Project, api: Api) -> None:
    for path in ("failures/?cursor=x", "failures/none/?project=acme/work"):
        assert api.get(path).status_code == 404


def test_lists_take_as_many_statements_for_many(at: Project, api: Api) -> None:
    taken = []
    for words in ("a", "bcdefgh"):
        for word in words:
            failed(factories.submit(at), f"error: {word}\n")
        failures_count()
        with CaptureQueriesContext(connection) as queries:
            api.read("failures/?project=acme/work")
        taken.append(len([each for each in queries if "failure" in each["sql"]]))
    assert taken == [3, 3]


def test_the_list_reads_no_sessions(at: Project, api: Api) -> None:
    recovered(at)
    failures_count()
    with CaptureQueriesContext(connection) as queries:
        assert api.read("failures/")["results"]
    tables = ("sessions_app_session ", "sessions_app_sessionevent")
    assert not [each["sql"] for each in queries if any(name in each["sql"] for name in tables)]


def test_graphql_tells_the_same(at: Project, api: Api, graph: Graph) -> None:
    root = recovered(at)
    failures_count()
    (listed,) = api.read("failures/")["results"]
    fields = "key title cause sessions chains recoveredChains images { value sessions } sparkline"
    found = graph.ask(f"{{ failures {{ edges {{ node {{ {fields} }} }} }} }}")["failures"]
    node = found["edges"][0]["node"]
    assert node["recoveredChains"] == listed["recovered_chains"] == 1
    assert node["images"] == listed["images"]
    assert node["sparkline"] == listed["sparkline"]
    key = f'key: "{root.failure_signature}", project: "acme/work"'
    assert graph.ask(f"{{ failure({key}) {{ title }} }}")["failure"] == {"title": node["title"]}
    asked = f"mutation {{ updateFailure(input: {{{key}, muted: true}}) {{ failure {{ muted }} }} }}"
    assert graph.ask(asked)["updateFailure"] == {"failure": {"muted": True}}


def test_a_rule_decides_about_a_signature(at: Project) -> None:
    known = failed(factories.submit(at), "error: bad row\n").failure_signature
    rule = {"action": "Fail", "onSignatures": [known]}
    factories.named_policy("known", rules=[rule], project=at)
    roots = [
        failed(factories.submit(at, retry_policy=RETRIED, retry_policies=["known"]), text)
        for text in ("error: bad row\n", "error: disk is full\n")
    ]
    reasons = [factories.decision(root).reason for root in roots]
    assert reasons == ["rule_fail", "inline_retry"]


POLICIES = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
EXAMPLE = re.search(r"```yaml\n(name: unlabelled_rows\n.*?)```", POLICIES, re.DOTALL)
LABELLED = """\
Traceback (most recent call last):
  File "<string>", line 8, in <module>
  File "<string>", line 5, in check
ValueError: row 711 has no label
"""


def test_a_category_knows_failures_by_their_title(at: Project) -> None:
    assert EXAMPLE is not None
    category, api = yaml.safe_load(EXAMPLE[1]), admin()
    assert api.post("failure-categories/", category).status_code == 201
    rule = {"action": "Fail", "onFailureCategory": [category["name"]]}
    factories.named_policy("known", rules=[rule], project=at)
    asked: dict[str, Any] = {"retry_policy": RETRIED, "retry_policies": ["known"]}
    other = failed(factories.submit(at, **asked), "error: disk is full\n")
    known = failed(factories.submit(at, **asked), LABELLED)
    assert known.failure_title == "ValueError: row # has no label (<string>:check)"
    assert (other.failure_category, known.failure_category) == ("", category["name"])
    reasons = [factories.decision(each).reason for each in (other, known)]
    assert reasons == ["inline_retry", "rule_fail"]
    # The title is kept, so that a simulation of the past decides alike.
    window = {"project": "acme/work", "since": (known.created_at - timedelta(days=1)).isoformat()}
    found = json.loads(b"".join(api.post("retry-policies/simulate/", {"history": window})))
    decided = [each["attempts"][0]["failure_category"] for each in found["chains"]]
    assert sorted(filter(None, decided)) == [category["name"]]
    assert found["summary"]["changed"] == []
