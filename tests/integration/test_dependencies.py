"""Sessions wait for other chains, and begin or are cancelled when those have ended."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from retry.engine.decide import Mode
from retry.evidence.termination import Termination
from scheduler.allocation.waiting_lines import busy_queues
from sessions_app.core.states import Phase
from sessions_app.db.bulk import columns
from sessions_app.eventlog import archived as archived_module
from sessions_app.eventlog.archived import archived_named
from sessions_app.locks import database_now
from sessions_app.models import Dependency, Project, RetrySettings, Session
from sessions_app.models.dependencies import awaited_roots
from sessions_app.services.chains import dependants, downstream
from sessions_app.services.chains.dependants import (
    dependants_follow,
    dependants_release,
    dependants_sweep,
    ends_missed,
)
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.retention import chains_archive
from tests import factories
from tests.agent import Agent, Api, failed, running
from tests.factories import body, reread, submit
from tests.graphs import Graph
from tests.integration.test_sweep_costs import steps
from tests.invariants import check_all

DOCS = (Path(__file__).parents[2] / "docs" / "dependencies.md").read_text()
GOOD = Termination(status="terminated", exit_code=0)


def depends(at: Project, *on: Session, when: str = "succeeded", **fields: Any) -> Session:
    """A session that waits for others."""
    wanted = [{"session": str(each.pk), "when": when} for each in on]
    return submit(at, depends_on=wanted, **fields)


def follow(*ended: Session) -> None:
    """Let dependants see these ends, and those that follow from them."""
    assert dependants_sweep() >= 0
    dependants_release([each.root_id for each in ended])
    while dependants_sweep():
        pass


def succeed(*sessions: Session) -> None:
    for each in sessions:
        if reread(each).status == "PENDING":
            factories.start(each)
    sessions_settle({each.pk: End(GOOD) for each in sessions})
    follow(*sessions)


def fail(*sessions: Session) -> None:
    sessions_settle({each.pk: End(Termination(exit_code=3)) for each in sessions})
    follow(*sessions)


def test_a_dependant_begins_when_its_dependency_succeeded(at: Project, played: Agent) -> None:
    first = submit(at, creation_id="prepare")
    later = submit(at, depends_on=["prepare"])
    assert (later.status, later.phase) == ("PENDING", "blocked")
    assert played.lease() == [first.pk]
    played.start(first.pk)
    played.succeed(first.pk)
    assert played.lease() == []
    assert dependants_sweep() == 1
    assert reread(later).phase == Phase.WAITING
    assert played.lease() == [later.pk]
    assert check_all() == []


def test_the_answer_has_them(at: Project) -> None:
    first, second = submit(at, creation_id="prepare"), submit(at, creation_id="data")
    wanted = [{"session": "data", "when": "ended"}, {"session": "prepare"}]
    later = submit(at, depends_on=wanted, on_dependency_failure="run")
    api = Api(factories.token(factories.user(superuser=True)))
    shown = api.read(f"sessions/{later.pk}/")
    open_ones = [
        {"session_id": str(second.pk), "creation_id": "data", "when": "ended"},
        {"session_id": str(first.pk), "creation_id": "prepare", "when": "succeeded"},
    ]
    assert shown["depends_on"] == [{**each, "outcome": None, "met": None} for each in open_ones]
    assert shown["on_dependency_failure"] == "run"
    fail(first)
    assert [each["met"] for each in api.read(f"sessions/{later.pk}/")["depends_on"]] == [
        None,
        False,
    ]
    plain = api.read(f"sessions/{first.pk}/")
    assert (plain["depends_on"], plain["on_dependency_failure"]) == ([], None)
    query = "{ sessions { edges { node { sessionId dependsOn { creationId outcome } } } } }"

    def asked() -> Any:
        with CaptureQueriesContext(connection) as done:
            answer = api.post("/graphql/", {"query": query}).json()["data"]["sessions"]["edges"]
        return len(done), {edge["node"]["sessionId"]: edge["node"]["dependsOn"] for edge in answer}

    few, found = asked()
    assert found[str(later.pk)][1] == {"creationId": "prepare", "outcome": "failed"}
    submit(at, depends_on=["data"])
    assert asked()[0] == few


def test_what_waits_stands_in_no_line(at: Project) -> None:
    first = factories.start(submit(at))
    depends(at, first)
    assert busy_queues(None) == []


@pytest.mark.parametrize(
    ("when", "end", "begins"),
    [
        ("succeeded", succeed, True),
        ("succeeded", fail, False),
        ("failed", succeed, False),
        ("failed", fail, True),
        ("ended", succeed, True),
        ("ended", fail, True),
    ],
)
def test_the_outcome_decides(at: Project, when: str, end: Any, begins: bool) -> None:
    first = submit(at)
    later = depends(at, first, when=when)
    end(first)
    found = reread(later)
    if begins:
        assert (found.status, found.phase) == ("PENDING", "waiting")
    else:
        assert (found.status, found.retry_cause, found.retry_state) == (
            "CANCELLED",
            "dependency_failed",
            "cancelled",
        )
        assert str(first.pk) in found.status_message
    assert check_all() == []


@pytest.mark.parametrize(
    ("when", "begins"), [("succeeded", False), ("failed", False), ("ended", True)]
)
def test_a_cancelled_chain_has_only_ended(at: Project, when: str, begins: bool) -> None:
    first = submit(at)
    later = depends(at, first, when=when)
    chain_cancel(first.root_id, by="ann")
    follow(first)
    assert reread(later).status == ("PENDING" if begins else "CANCELLED")


def test_a_chain_that_retries_has_no_outcome_yet(at: Project) -> None:
    first = submit(at, retry_policy=factories.policy(max_retries=1, retry_delay=60))
    later = depends(at, first, when="ended")
    fail(first)
    assert reread(later).phase == Phase.BLOCKED
    child = factories.retry(first, by="ann")
    succeed(child)
    assert reread(later).phase == Phase.WAITING
    assert check_all() == []


@pytest.mark.parametrize("state", ["held", "parked"])
def test_a_chain_that_is_held_or_parked_has_no_outcome_yet(at: Project, state: str) -> None:
    if state == "held":
        RetrySettings.objects.create(project=at, mode=Mode.PAUSED.value)
    first = submit(at, retry_policy=factories.policy(max_retries=1, on_exhausted="park"))
    later = depends(at, first, when="ended")
    fail(first)
    if state == "parked":
        fail(factories.retry(first, by="ann"))
    assert factories.tip(first).retry_state == state
    assert reread(later).phase == Phase.BLOCKED
    assert depends(at, first, when="ended").phase == Phase.BLOCKED
    chain_cancel(first.root_id, by="ann")
    follow(first)
    assert reread(later).phase == Phase.WAITING
    assert check_all() == []


def test_graphql_retries_what_is_downstream(graph: Graph, at: Project) -> None:
    first = submit(at)
    later = depends(at, first)
    fail(first)
    query = """
        mutation($input: RetrySessionInput!) {
            retrySession(input: $input) { downstream errors { message } } }
    """
    wanted = {"id": str(first.pk), "downstream": True}
    dry = graph.ask(query, input={**wanted, "dryRun": True})["retrySession"]
    assert dry == {"downstream": [str(later.pk)], "errors": []}
    made = graph.ask(query, input=wanted)["retrySession"]
    assert made == {"downstream": [str(factories.tip(later).pk)], "errors": []}
    assert factories.tip(later).phase == Phase.BLOCKED


def test_all_of_several_have_to_end(at: Project) -> None:
    first, second = submit(at), submit(at)
    later = depends(at, first, second)
    succeed(first)
    assert reread(later).phase == Phase.BLOCKED
    succeed(second)
    assert reread(later).phase == Phase.WAITING


def test_it_may_run_though_a_dependency_failed(at: Project) -> None:
    first, second = submit(at), submit(at)
    later = depends(at, first, second, on_dependency_failure="run")
    fail(first)
    assert reread(later).phase == Phase.BLOCKED
    succeed(second)
    assert reread(later).phase == Phase.WAITING


def test_a_failure_goes_down_the_whole_tree(at: Project) -> None:
    first = submit(at)
    chain = [first]
    for _ in range(4):
        chain.append(depends(at, chain[-1]))
    after_all = depends(at, chain[-1], when="ended")
    fail(first)
    assert {reread(each).retry_cause for each in chain[1:]} == {"dependency_failed"}
    assert reread(after_all).phase == Phase.WAITING
    assert check_all() == []


def test_one_call_follows_what_ends_on_the_way(at: Project) -> None:
    first, other = submit(at), submit(at)
    chain = [first]
    for _ in range(3):
        chain.append(depends(at, chain[-1]))
    both = depends(at, chain[-1], other, when="ended")
    last = depends(at, chain[-1], when="ended")
    sessions_settle({first.pk: End(Termination(exit_code=3))})
    assert dependants_follow([first.root_id]) == 4
    assert {reread(each).retry_cause for each in chain[1:]} == {"dependency_failed"}
    assert [reread(each).phase for each in (both, last)] == ["blocked", "waiting"]
    assert dependants_sweep() == 0
    assert check_all() == []


def test_a_chain_that_runs_again_is_not_looked_at_again_and_again(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint may come after a retry by hand: the chain has no outcome any more."""
    monkeypatch.setattr(dependants, "BATCH", 2)
    first = submit(at)
    owner = factories.user(project=at)
    later = [depends(at, first, owner=owner) for _ in range(3)]
    sessions_settle({first.pk: End(Termination(exit_code=3))})
    session_retry(first.pk, first.root_id, by="ann")
    with CaptureQueriesContext(connection) as done:
        assert dependants_follow([first.root_id]) == 0
    assert len(done) == 1
    assert {reread(each).phase for each in later} == {"blocked"}


@pytest.mark.parametrize(("query", "waits"), [("_SEE", True), ("_JUDGE", True), ("_LEFT", False)])
def test_a_slice_reads_neither_all_that_ended_nor_all_that_wait(
    at: Project, query: str, waits: bool
) -> None:
    owner = factories.user(project=at)
    first, gone = (submit(at, owner=owner) for _ in range(2))
    ended = [submit(at, owner=owner) for _ in range(60)]
    sessions_settle({each.pk: End(Termination(exit_code=3)) for each in [*ended, gone]})
    for _ in range(60):
        depends(at, first, owner=owner)
    later = depends(at, first, owner=owner)
    asked = later if waits else gone
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")
        statement = getattr(dependants, query)
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", [[asked.root_id]])
        (plan,) = cursor.fetchone()
    parts = steps((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])
    read = [
        each["Actual Loops"] * (each["Actual Rows"] + each.get("Rows Removed by Filter", 0))
        for each in parts
    ]
    assert max(read) < 10


def test_what_was_seen_stays(at: Project) -> None:
    first, second = submit(at), submit(at)
    later = depends(at, first, second, when="failed")
    fail(first)
    child = factories.retry(first, by="ann")
    succeed(child)
    fail(second)
    assert reread(later).phase == Phase.WAITING


def test_an_end_before_the_submission_counts(at: Project) -> None:
    good, bad = submit(at), submit(at)
    succeed(good)
    fail(bad)
    assert depends(at, good).phase == Phase.WAITING
    refused = depends(at, good, bad)
    assert (refused.status, refused.retry_cause) == ("CANCELLED", "dependency_failed")
    assert depends(at, bad, on_dependency_failure="run").phase == Phase.WAITING
    assert check_all() == []


def test_any_attempt_names_its_chain(at: Project) -> None:
    first = submit(at)
    fail(first)
    child = factories.retry(first, by="ann")
    later = depends(at, child)
    assert Dependency.objects.get(root=later).on_root == first.pk
    assert later.phase == Phase.BLOCKED


def test_a_blocked_session_can_be_cancelled(at: Project) -> None:
    first = submit(at)
    later = depends(at, first)
    chain_cancel(later.root_id, by="ann")
    assert reread(later).retry_cause == "user_cancelled"
    succeed(first)
    assert reread(later).status == "CANCELLED"
    assert ends_missed(None).ended == []
    assert check_all() == []


def test_many_are_released_in_the_same_statements(at: Project) -> None:
    counts = []
    owner = factories.user(project=at)
    for many in (2, 40):
        first = submit(at)
        for _ in range(many):
            depends(at, first, owner=owner)
        sessions_settle({factories.start(first).pk: End(GOOD)})
        with CaptureQueriesContext(
            connection,
        ) as found:
            assert dependants_release([first.pk]).released == many
        counts.append(len(found))
    assert counts[0] == counts[1] <= 12


def bulk(api: Api, *items: dict[str, Any]) -> list[dict[str, Any]]:
    response = api.post("sessions/bulk/", {"sessions": list(items)})
    assert response.status_code == 200, response.content
    found: list[dict[str, Any]] = response.json()["results"]
    return found


def test_a_bulk_call_may_name_its_own_sessions_in_any_order(api: Api) -> None:
    items = [
        body(creation_id="c", depends_on=["a", "b"]),
        body(creation_id="b", depends_on=[{"session": "a", "when": "ended"}]),
        body(creation_id="a"),
    ]
    made = bulk(api, *items)
    assert [each["outcome"] for each in made] == ["created"] * 3
    again = bulk(api, *items)
    assert [each["outcome"] for each in again] == ["exists"] * 3
    phases = dict(Session.objects.values_list("creation_id", "phase"))
    assert phases == {"a": "waiting", "b": "blocked", "c": "blocked"}
    assert Dependency.objects.count() == 3
    assert check_all() == []


def test_a_circle_is_shown_and_the_others_are_made(api: Api) -> None:
    made = bulk(
        api,
        body(creation_id="a", depends_on=["b"]),
        body(creation_id="b", depends_on=["c"]),
        body(creation_id="c", depends_on=["a"]),
        body(creation_id="d", depends_on=["a"]),
        body(creation_id="self", depends_on=["self"]),
        body(creation_id="good"),
    )
    assert [each["outcome"] for each in made] == ["refused"] * 5 + ["created"]
    texts = [each["problem"]["errors"]["depends_on"] for each in made[:5]]
    assert texts[0] == ["waits for itself: a -> b -> c -> a"]
    assert texts[1] == ["waits for itself: b -> c -> a -> b"]
    assert texts[3] == ["waits for what waits for itself: a -> b -> c -> a"]
    assert texts[4] == ["waits for itself: self -> self"]


def test_what_depends_on_a_refused_one_is_refused_with_it(api: Api) -> None:
    made = bulk(
        api,
        body(creation_id="c", depends_on=["b"]),
        body(creation_id="b", depends_on=["a"]),
        body(creation_id="a", retry_policies=["unknown"]),
    )
    assert [each["outcome"] for each in made] == ["refused"] * 3
    assert made[0]["problem"]["errors"] == {"depends_on": ["'b' is refused"]}
    assert not Session.objects.exists()


def test_a_full_quota_refuses_the_dependants_too(api: Api, at: Project) -> None:
    factories.quotas(at, pending_sessions="1")
    made = bulk(
        api, body(creation_id="x"), body(creation_id="a"), body(creation_id="b", depends_on=["a"])
    )
    assert [each["outcome"] for each in made] == ["created", "refused", "refused"]
    assert check_all() == []


def test_blocked_sessions_count_as_pending(api: Api, at: Project) -> None:
    factories.quotas(at, pending_sessions="2")
    first = api.post("sessions/", body(creation_id="a")).json()
    assert api.post("sessions/", body(depends_on=["a"])).status_code == 201
    assert api.post("sessions/", body()).status_code == 403
    assert check_all() == []
    succeed(Session.objects.get(pk=first["id"]))
    assert check_all() == []


def test_wrong_dependencies_name_the_field(api: Api, at: Project) -> None:
    theirs = submit(factories.project("else", domain="acme"))
    first = submit(at, creation_id="a")
    wrong: list[tuple[Any, str]] = [
        (["b"], "depends_on[0].session"),
        (["a", str(theirs.pk)], "depends_on[1].session"),
        (["a", str(first.pk)], "depends_on[1].session"),
        ([{"session": "a", "when": "later"}], "depends_on[0].when"),
        ([7], "depends_on[0]"),
        (["a"] * 257, "depends_on"),
    ]
    before = Session.objects.count()
    for asked, field in wrong:
        response = api.post("sessions/", body(depends_on=asked))
        assert response.status_code == 400, response.content
        assert list(response.json()["errors"]) == [field], response.content
    assert Session.objects.count() == before


def test_the_reason_says_what_it_waits_for(api: Api, at: Project, played: Agent) -> None:
    one = running(played, submit(at, creation_id="one"))
    two = submit(at, creation_id="two")
    three = submit(at, creation_id="three")
    later = depends(at, one, two, three)
    found = api.read(f"sessions/{later.pk}/")
    assert found["why_pending"] == {"reason": "dependencies", "ahead": 0}
    text = "waits for 3 of 3: one (RUNNING), two (PENDING), three (PENDING)"
    assert found["pending_reason"] == text
    succeed(two)
    text = "waits for 2 of 3: one (RUNNING), three (PENDING)"
    assert api.read(f"sessions/{later.pk}/")["pending_reason"] == text


def test_lists_by_status_have_them(api: Api, at: Project) -> None:
    first = submit(at)
    later = depends(at, first)
    pending = api.read("sessions/?status=PENDING")["results"]
    assert [each["id"] for each in pending] == [str(later.pk), str(first.pk)]
    chain_cancel(first.root_id, by="ann")
    follow(first)
    cancelled = api.read("sessions/?status=CANCELLED")["results"]
    assert [each["id"] for each in cancelled] == [str(later.pk), str(first.pk)]
    assert api.read("sessions/?status=ERROR")["results"] == []


def test_the_retries_of_a_released_session_do_not_wait_again(at: Project, played: Agent) -> None:
    first = submit(at)
    later = depends(at, first, retry_policy=factories.policy())
    succeed(first)
    failed(played, later)
    child = factories.retry(later, by="ann")
    assert child.phase == Phase.WAITING


def example() -> list[dict[str, Any]]:
    """The bodies of the documentation's example."""
    found = re.search(r"```json\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    items: list[dict[str, Any]] = json.loads(found[1])["sessions"]
    return [body(**item) for item in items]


def test_the_example_runs_in_order_and_each_run_is_told(api: Api, played: Agent) -> None:
    assert {each["outcome"] for each in bulk(api, *example())} == {"created"}
    order = []
    while ready := played.lease():
        names = dict(Session.objects.values_list("pk", "creation_id"))
        order.append({names[each] for each in ready})
        played.start(*ready)
        played.succeed(*ready)
        dependants_sweep()
    assert order == [{"prepare-7"}, {"test-7", "train-7"}, {"report-7"}, {"clean-7"}]
    assert check_all() == []


def test_a_run_is_told_how_its_dependencies_ended(at: Project, played: Agent) -> None:
    good, bad = submit(at, creation_id="good"), submit(at, creation_id="bad")
    later = submit(
        at,
        depends_on=["good", {"session": "bad", "when": "ended"}],
        retry_policy={"max_retries": 1},
    )
    succeed(good)
    fail(bad)
    played.lease()
    (lease,) = played.answer["leases"]
    assert lease["session_id"] == str(later.pk)
    assert json.loads(lease["environ"]["REPRISE_DEPENDENCIES"]) == [
        {"id": str(good.pk), "creation_id": "good", "status": "TERMINATED", "exit_code": 0},
        {"id": str(bad.pk), "creation_id": "bad", "status": "ERROR", "exit_code": 3},
    ]
    assert "REPRISE_DEPENDENCIES_TRUNCATED" not in lease["environ"]


def test_the_graph_has_both_directions(api: Api, at: Project) -> None:
    bulk(api, *example())
    keys = dict(Session.objects.values_list("creation_id", "pk"))
    with CaptureQueriesContext(connection) as alone:
        found = api.read(f"sessions/{keys['train-7']}/graph/")
    names = {node["session_id"]: node["creation_id"] for node in found["nodes"]}
    # Not `test-7`: it is beside, neither above nor below.
    assert set(names.values()) == {"prepare-7", "train-7", "report-7", "clean-7"}
    edges = {(names[e["session_id"]], names[e["depends_on"]], e["when"]) for e in found["edges"]}
    assert edges == {
        ("train-7", "prepare-7", "succeeded"),
        ("report-7", "train-7", "succeeded"),
        ("clean-7", "report-7", "ended"),
    }
    assert not found["truncated"]
    prepare = Session.objects.get(pk=keys["prepare-7"])
    for _ in range(20):
        depends(at, prepare)
    with CaptureQueriesContext(connection) as more:
        assert len(api.read(f"sessions/{prepare.pk}/graph/")["nodes"]) == 25
    assert len(alone) == len(more)
    succeed(prepare)
    (seen,) = api.read(f"sessions/{keys['test-7']}/graph/")["edges"][:1]
    assert seen in api.read(f"sessions/{keys['test-7']}/graph/")["edges"]
    edges_now = api.read(f"sessions/{keys['train-7']}/graph/")["edges"]
    assert [e["outcome"] for e in edges_now if e["session_id"] == str(keys["train-7"])] == [
        "succeeded"
    ]


def test_graphql_has_the_graph_and_takes_dependencies(graph: Graph, at: Project) -> None:
    first = submit(at, name="first")
    answer = graph.ask(
        """mutation ($on: String!) { createSession(input: {project: "acme/work", command: ["x"],
            dependsOn: [{session: $on, when: "ended"}]}) { session { sessionId
            whyPending { reason } pendingReason
            dependencyGraph { nodes { name status } edges { dependsOn when } } }
            errors { details } } }
        """,
        on=str(first.pk),
    )["createSession"]
    assert answer["errors"] == []
    found = answer["session"]
    assert found["pendingReason"] == f"waits for 1 of 1: first {first.pk} (PENDING)"
    assert found["dependencyGraph"]["edges"] == [{"dependsOn": str(first.pk), "when": "ended"}]
    assert len(found["dependencyGraph"]["nodes"]) == 2


def test_the_page_of_a_session_shows_them(at: Project, client: Client) -> None:
    first = submit(at, name="the first")
    later = depends(at, first, name="the later")
    client.force_login(factories.user(superuser=True))
    page = client.get(f"/sessions/{later.pk}/")
    assert f"Waits for 1 of 1: the first {first.pk} (PENDING)" in page.content.decode()
    assert "Waiting for an executor" not in page.content.decode()
    part = client.get(f"/sessions/{later.pk}/dependencies/").content.decode()
    assert "the first" in part
    assert "not yet succeeded" in part


def test_an_archived_dependency_is_judged_from_the_log(at: Project) -> None:
    good, bad = submit(at), submit(at)
    succeed(good)
    fail(bad)
    asleep = depends(at, submit(at))
    waits = Dependency.objects.get(root=asleep)
    later = database_now() + timedelta(days=1)
    assert chains_archive([good.pk, bad.pk], later) == 2
    assert depends(at, good).phase == Phase.WAITING
    assert depends(at, bad).status == "CANCELLED"
    # A parent may also be archived before its dependants are looked for.
    Dependency.objects.filter(pk=waits.pk).update(on_root=good.pk)
    assert dependants_sweep() == 1
    assert reread(asleep).phase == Phase.WAITING


def test_an_archived_dependency_is_found_by_its_creation_id(api: Api, at: Project) -> None:
    def asked(name: str, *on: str, **fields: Any) -> dict[str, Any]:
        wanted = {"depends_on": [*on]} if on else {}
        return body(creation_id=name, **wanted, **fields)

    def archived(name: str, end: Any) -> str:
        made = api.post("sessions/", asked(name)).json()["id"]
        end(Session.objects.get(pk=made))
        assert chains_archive([made], database_now() + timedelta(days=1)) == 1
        return str(made)

    good, _ = archived("prepare-7", succeed), archived("train-7", fail)
    made = api.post("sessions/", asked("report", "prepare-7")).json()
    assert made["depends_on"] == [
        {"session_id": good, "creation_id": "prepare-7", "when": "succeeded"}
        | {"outcome": "succeeded", "met": True}
    ]
    assert Session.objects.get(pk=made["id"]).phase == Phase.WAITING
    assert api.post("sessions/", asked("more", "train-7")).json()["status"] == "CANCELLED"
    # Those of another project are unknown. What has rows or is of the same call goes before.
    other = factories.project("other")
    assert not archived_named([(other.pk, "prepare-7")])
    results = bulk(api, asked("train-7"), asked("again", "train-7"))
    assert [each["outcome"] for each in results] == ["created", "created"]
    assert Session.objects.get(pk=results[1]["session_id"]).phase == Phase.BLOCKED
    refused = api.post("sessions/", asked("last", "nobody-7"))
    assert list(refused.json()["errors"]) == ["depends_on[0].session"]
    # Of two that had it one after the other, the later one counts.
    archived("prepare-7", fail)
    assert api.post("sessions/", asked("again-7", "prepare-7")).json()["status"] == "CANCELLED"


def test_an_archived_name_is_looked_up(at: Project) -> None:
    for number in range(30):
        made = submit(at, creation_id=f"night-{number}")
        succeed(made)
        assert chains_archive([made.pk], database_now() + timedelta(days=1)) == 1
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("SET LOCAL enable_seqscan = off")
        wanted = columns([(at.pk, "night-7")])
        cursor.execute(f"EXPLAIN (FORMAT JSON) {archived_module._NAMED}", wanted)
        (plan,) = cursor.fetchone()
    assert "event_archived_named" in json.dumps(plan)


def test_dependencies_go_with_their_chain(at: Project) -> None:
    first = submit(at)
    later = depends(at, first)
    fail(first)
    assert chains_archive([later.pk], database_now() + timedelta(days=1)) == 1
    assert not Dependency.objects.exists()


def test_an_executor_sees_no_variable_without_dependencies(at: Project, played: Agent) -> None:
    submit(at)
    played.lease()
    (lease,) = played.answer["leases"]
    assert not [name for name in lease["environ"] if "DEPENDENCIES" in name]


def retried_downstream(api: Api, session: Session, **more: Any) -> dict[str, Any]:
    response = api.post(f"sessions/{session.pk}/retry/", {"downstream": True, **more})
    assert response.status_code == (200 if more.get("dry_run") else 201), response.content
    found: dict[str, Any] = response.json()
    return found


def test_a_retry_takes_along_what_failed_because_of_it(api: Api, at: Project) -> None:
    owner = User.objects.get(username="ann")
    first, other = submit(at, owner=owner), submit(at, owner=owner)
    second = depends(at, first, owner=owner)
    third = depends(at, second, other, owner=owner)
    unlike = depends(at, first, when="failed", owner=owner)
    succeed(other)
    fail(first)
    assert {reread(each).retry_cause for each in (second, third)} == {"dependency_failed"}
    before = Session.objects.count()
    dry = retried_downstream(api, first, dry_run=True)
    assert dry["id"] == str(first.pk)
    assert set(dry["downstream"]) == {str(second.pk), str(third.pk)}
    assert Session.objects.count() == before
    made = retried_downstream(api, first)
    children = {each.root_id: each for each in Session.objects.filter(pk__in=made["downstream"])}
    assert children.keys() == {second.pk, third.pk}
    assert {each.phase for each in children.values()} == {"blocked"}
    assert factories.tip(unlike).retry_count == 0
    succeed(Session.objects.get(pk=made["id"]))
    assert factories.tip(second).phase == Phase.WAITING
    assert factories.tip(third).phase == Phase.BLOCKED
    succeed(factories.tip(second))
    assert factories.tip(third).phase == Phase.WAITING
    assert check_all() == []


def test_what_still_cannot_be_met_fails_again(api: Api, at: Project) -> None:
    owner = User.objects.get(username="ann")
    one, two = submit(at, owner=owner), submit(at, owner=owner)
    later = depends(at, one, two, owner=owner)
    fail(one, two)
    made = retried_downstream(api, one)
    follow(two)
    child = factories.tip(later)
    assert made["downstream"] == [str(child.pk)]
    assert (child.retry_count, child.retry_cause) == (1, "dependency_failed")
    assert check_all() == []


def test_nobody_retries_what_they_may_not(api: Api, at: Project) -> None:
    first = submit(at, owner=User.objects.get(username="ann"))
    depends(at, first)
    fail(first)
    response = api.post(f"sessions/{first.pk}/retry/", {"downstream": True})
    assert response.status_code == 403, response.content
    assert factories.tip(first).pk == first.pk


def test_too_many_downstream_are_refused(
    api: Api, at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream, "MOST", 2)
    owner = User.objects.get(username="ann")
    first = submit(at, owner=owner)
    for _ in range(3):
        depends(at, first, owner=owner)
    fail(first)
    response = api.post(f"sessions/{first.pk}/retry/", {"downstream": True})
    assert response.status_code == 413, response.content
    assert factories.tip(first).pk == first.pk


def test_a_dry_run_of_one_retry_says_why_not(api: Api, at: Project) -> None:
    first = submit(at, owner=User.objects.get(username="ann"))
    response = api.post(f"sessions/{first.pk}/retry/", {"dry_run": True})
    assert response.status_code == 409, response.content


def test_the_look_after_an_end_finds_those_that_are_waited_for(at: Project) -> None:
    first, other = submit(at), submit(at)
    assert awaited_roots([first.pk, other.pk]) is None
    depends(at, first)
    assert awaited_roots([first.pk, other.pk]) == [first.pk]
    assert awaited_roots([other.pk]) == []
    succeed(first)
    assert awaited_roots([first.pk]) is None
