"""Nodes that fail more than the same work elsewhere are suspected, avoided, and cleared in time."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from interfaces.render.session_render import decision_json, decisions_json
from scheduler.models import Executor, Lease, Node, NodeAttempt
from scheduler.services.nodes import counting
from scheduler.services.nodes.acts import node_quarantine, node_release
from scheduler.services.nodes.counting import nodes_count, stretch_count
from scheduler.services.nodes.sweep import Swept, nodes_rebuild, nodes_sweep
from scheduler.services.pending import pending_explain
from sessions_app.core.states import Status
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.selectors.sessions import decision_get
from sessions_app.services.chains.dependants import dependants_release
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, agent, running
from tests.factories import policy, submit, tip, user
from tests.invariants import check_all
from tests.racing import race

pytestmark = pytest.mark.django_db(transaction=True)
RETRIED = policy(max_retries=3, retry_delay=1e-6)
NODES = [f"n{number}" for number in range(10)]


def fleet(*, avoid: str = "retries", names: list[str] = NODES, **fields: Any) -> Agent:
    """An agent with nodes of 4 cpus each, whose executor asks for suspicions."""
    played = agent("one", nodes=[{"name": n, "allocatable": {"cpu": "4"}} for n in names])
    played.lease(limits={"max_sessions": 0})
    values = {"max_sessions": 1000, "avoid_suspects": avoid, **fields}
    Executor.objects.filter(pk=played.executor.pk).update(**values)
    return played


def ran(at: Project, played: Agent, ends: dict[str, list[bool]], **fields: Any) -> None:
    """Run sessions of one job set, which end on the nodes as said; true: it fails."""
    owner = fields.pop("owner", None) or user(superuser=True)
    wanted = [(node, failure) for node, each in ends.items() for failure in each]
    fields = {"job_set": "train", "image": "busybox:1", **fields}
    for _ in wanted:
        submit(at, owner=owner, **fields)
    keys = played.lease()
    assert len(keys) == len(wanted)
    played.start(*keys)
    reports = []
    for key, (node, failure) in zip(keys, wanted, strict=True):
        status = Status.ERROR if failure else Status.TERMINATED
        facts = {"exit_code": 1, "node": node} if failure else None
        reports.append(played.reporting(key, status, node=node, termination=facts))
    assert set(played.send(*reports)) == {"applied"}


def one_bad(at: Project, played: Agent, bad: str = "n0", **fields: Any) -> None:
    """Let one node fail six times, while all others do the same work well."""
    ends = {node: [node == bad] * 6 for node in NODES}
    ran(at, played, ends, **fields)


def suspects() -> set[str]:
    return set(
        Node.objects.filter(suspected_until__gt=timezone.now()).values_list("name", flat=True)
    )


def lasts(node: Node) -> timedelta:
    assert node.suspected_until is not None
    assert node.suspected_at is not None
    return node.suspected_until - node.suspected_at


def half_an_hour_later() -> None:
    now = timezone.now()
    Node.objects.filter(suspected_until__isnull=False).update(
        suspected_at=now - timedelta(minutes=30), suspected_until=now
    )


def suspected(at: Project, **fields: Any) -> Agent:
    """An agent whose node n0 is suspect."""
    played = fleet(**fields)
    one_bad(at, played)
    assert nodes_sweep() == Swept(60, 1, 0)
    assert suspects() == {"n0"}
    return played


def why(session: Session) -> str:
    return pending_explain(session, None).message


def now_of(played: Agent) -> Executor:
    return Executor.objects.get(pk=played.executor.pk)


def planned(played: Agent) -> dict[str, list[str]]:
    """The planned nodes of the sessions that were just leased."""
    return {each["session_id"]: each["nodes"] for each in played.answer["leases"]}


def retry_of(at: Project, played: Agent, **fields: Any) -> Session:
    """A retry that waits: its first attempt has failed on n5."""
    root = submit(at, retry_policy=RETRIED, image="busybox:1", **fields)
    running(played, root)
    played.report(root.pk, Status.ERROR, node="n5", termination={"exit_code": 1, "node": "n5"})
    retries_dispatch()
    return tip(root)


def test_a_node_that_fails_more_than_others_is_suspected_for_half_an_hour(at: Project) -> None:
    suspected(at)
    node = Node.objects.get(name="n0")
    assert node.address == "one/n0"
    assert lasts(node) == timedelta(minutes=30)
    assert node.reason.startswith("6 of 6 attempts failed, of 6 chains; 0.1 failures")
    assert node.ratio is not None
    assert node.ratio > 3
    assert nodes_sweep() == Swept(0, 0, 0)
    assert check_all() == []


def test_nobody_is_suspected_until_somebody_asks(at: Project) -> None:
    played = fleet(avoid="off")
    one_bad(at, played)
    assert nodes_sweep() == Swept(0, 0, 0)
    assert not NodeAttempt.objects.exists()
    Executor.objects.update(avoid_suspects="retries")
    assert nodes_sweep() == Swept(60, 1, 0)  # the log of the last day is there


def test_a_broken_job_set_convicts_no_node(at: Project) -> None:
    played = fleet()
    ran(at, played, {node: [node in {"n0", "n1"}] for node in NODES}, job_set="good")
    ran(at, played, {"n0": [True] * 9, "n1": [True] * 9}, job_set="broken")
    assert nodes_sweep() == Swept(28, 0, 0)


def test_without_a_job_set_the_image_says_what_is_alike(at: Project) -> None:
    played = fleet()
    ran(at, played, {"n0": [True] * 6}, job_set="", image="broken:1")
    ran(at, played, {node: [False] * 6 for node in NODES[1:]}, job_set="", image="good:1")
    assert nodes_sweep() == Swept(60, 0, 0)
    ran(at, played, {node: [False] * 6 for node in NODES[1:]}, job_set="", image="broken:1")
    ran(at, played, {"n0": [True]}, job_set="", image="broken:1")
    assert nodes_sweep() == Swept(55, 1, 0)


@pytest.mark.parametrize("condition", ["Preempted", "Evicted"])
def test_preemptions_say_nothing_about_a_node(at: Project, condition: str) -> None:
    played = fleet()
    ran(at, played, {node: [False] * 6 for node in NODES[1:]})
    for _ in range(6):
        session = running(played, submit(at, job_set="train", owner=user(superuser=True)))
        facts = {"conditions": [condition], "node": "n0"}
        played.report(session.pk, Status.ERROR, node="n0", termination=facts)
    nodes_sweep()
    assert suspects() == ({"n0"} if condition == "Evicted" else set())


def test_the_newest_attempts_of_a_day_count(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(counting, "_TRIM", counting._TRIM.replace("OFFSET 200", "OFFSET 4"))
    played = fleet()
    one_bad(at, played)
    assert nodes_sweep().suspected == 0  # only four failures are left
    assert NodeAttempt.objects.count() == 40
    NodeAttempt.objects.update(ended_at=timezone.now() - timedelta(hours=25))
    one_bad(at, played)
    assert nodes_sweep().suspected == 0


@pytest.mark.parametrize("limit", [1, 7, 500])
def test_stretches_of_any_length_count_the_same(at: Project, limit: int) -> None:
    one_bad(at, fleet())
    while stretch_count(limit).more:
        pass

    def rows() -> list[Any]:
        return sorted(NodeAttempt.objects.values_list("node__name", "work", "chain", "cause"))

    counted = rows()
    assert len(counted) == 60
    assert nodes_rebuild() == 60
    assert rows() == counted
    assert suspects() == {"n0"}
    call_command("rebuild_nodes")
    assert rows() == counted


def test_a_sweep_that_dies_after_it_counted_is_made_up_for(at: Project) -> None:
    one_bad(at, fleet())
    assert nodes_count(5.0).failures == 6  # the process dies here
    assert nodes_sweep() == Swept(0, 1, 0)


def test_two_sweeps_at_once_count_each_attempt_once(at: Project) -> None:
    one_bad(at, fleet())
    done = race(nodes_sweep, nodes_sweep, nodes_rebuild)
    assert NodeAttempt.objects.count() == 60
    assert sum(each.suspected for each in done[:2]) <= 1
    assert suspects() == {"n0"}


def test_a_sweep_costs_the_same_statements_for_any_number_of_attempts(at: Project) -> None:
    played = fleet()

    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            nodes_sweep()
        return len(seen)

    counts = []
    for times in (1, 8):
        ran(at, played, {node: [False] * times + [True] for node in NODES})
        counts.append(statements())
    ran(at, played, {node: [False] * 8 + [True] for node in NODES})
    counts.append(statements())
    assert counts[1] == counts[2] <= counts[0]  # the first one lists the nodes, too
    Executor.objects.update(avoid_suspects="off")
    assert statements() == 1


def test_a_suspicion_ends_and_the_counts_begin_anew(at: Project) -> None:
    played = suspected(at)
    half_an_hour_later()
    assert nodes_sweep() == Swept(0, 0, 1)
    assert suspects() == set()
    assert nodes_sweep() == Swept(0, 0, 0)
    one_bad(at, played)
    assert nodes_sweep() == Swept(60, 1, 0)
    minutes = lasts(Node.objects.get(name="n0")) / timedelta(minutes=1)
    assert 59 < minutes < 61


def test_at_most_a_fifth_of_the_nodes_is_suspected_the_worst_first(at: Project) -> None:
    played = fleet()
    ends = {node: [False] * 40 for node in NODES[4:]}
    for number, failures in enumerate((6, 7, 8, 9)):
        ends[f"n{number}"] = [True] * failures
    ran(at, played, ends)
    ran(at, played, {"n0": [False] * 6, "n1": [False] * 2})
    nodes_sweep()
    assert suspects() == {"n2", "n3"}


def test_the_only_node_is_never_suspected(at: Project) -> None:
    played = fleet(names=["n0"])
    other = agent("two")
    ran(at, played, {"n0": [True] * 6})
    ran(at, other, {"m0": [False] * 9})
    nodes_sweep()
    assert NodeAttempt.objects.count() == 15
    assert suspects() == set()


def test_a_retry_avoids_suspects_and_a_first_attempt_does_not(at: Project) -> None:
    played = suspected(at)
    child = retry_of(at, played, resources={"cpu": "1"})
    assert child.retry_count == 1
    first = submit(at, resources={"cpu": "1"})
    assert set(played.lease()) == {child.pk, first.pk}
    nodes = planned(played)
    assert nodes[str(child.pk)] == ["n1"]
    assert nodes[str(first.pk)] == ["n0"]
    assert check_all() == []


def test_first_attempts_avoid_suspects_if_the_executor_says_so(at: Project) -> None:
    played = suspected(at, avoid="all")
    first = submit(at, resources={"cpu": "1"})
    assert played.lease() == [first.pk]
    assert planned(played)[str(first.pk)] == ["n1"]


def test_a_lease_without_named_nodes_says_which_to_leave_out(at: Project) -> None:
    played = suspected(at)
    node_quarantine(now_of(played), "n4", reason="disk", by="olga")
    Executor.objects.update(placement="cluster")
    child = retry_of(at, played)
    first = submit(at)
    assert set(played.lease()) == {child.pk, first.pk}
    left_out = {each["session_id"]: each["avoid_nodes"] for each in played.answer["leases"]}
    assert left_out == {str(child.pk): ["n0", "n4"], str(first.pk): ["n4"]}


def test_with_auto_quarantine_a_suspect_node_gets_no_leases(at: Project) -> None:
    played = suspected(at, auto_quarantine=True)
    Executor.objects.update(max_sessions=10)
    rest = [submit(at, resources={"cpu": "4"}) for _ in range(10)]
    assert len(played.lease()) == 9
    assert ["n0"] not in planned(played).values()
    assert sum(each.pk in played.tokens for each in rest) == 9


def test_an_executor_that_asks_no_more_uses_its_suspects_again(at: Project) -> None:
    played = suspected(at, avoid="all")
    Executor.objects.update(avoid_suspects="off")
    first = submit(at, resources={"cpu": "1"})
    assert played.lease() == [first.pk]
    assert planned(played)[str(first.pk)] == ["n0"]


def test_after_a_minute_a_suspect_is_used_if_nothing_else_fits(
    at: Project, monkeypatch: Any
) -> None:
    played = suspected(at, avoid="all")
    rest = [submit(at, resources={"cpu": "4"}) for _ in range(10)]
    assert len(played.lease()) == 9
    (left,) = [each for each in rest if str(each.pk) not in planned(played)]
    assert played.lease() == []
    assert "suspect nodes" in why(left)
    Lease.objects.update(granted_at=timezone.now() - timedelta(minutes=2))
    assert played.lease() == []  # it has not waited for a minute itself
    monkeypatch.setattr("scheduler.allocation.patience.PATIENCE", timedelta(0))
    assert played.lease() == [left.pk]
    assert planned(played)[str(left.pk)] == ["n0"]


def test_the_minute_begins_when_the_dependencies_have_ended(at: Project, monkeypatch: Any) -> None:
    played = suspected(at, avoid="all")
    for _ in range(9):
        submit(at, resources={"cpu": "4"})
    assert len(played.lease()) == 9
    first = submit(at, resources={"cpu": "4"})
    wanted = [{"session": str(first.pk), "when": "ended"}]
    later = submit(at, resources={"cpu": "4"}, depends_on=wanted)
    chain_cancel(first.pk, by="ann")
    dependants_release([first.pk])
    released = SessionEvent.objects.filter(session_id=later.pk, type="session.released")
    # So it is as if the release were later than the time for which nothing else has fitted.
    monkeypatch.setattr("scheduler.allocation.patience.PATIENCE", timedelta(0))
    assert released.update(time=timezone.now() + timedelta(minutes=5)) == 1
    assert played.lease() == []
    assert "suspect nodes" in why(later)
    released.update(time=timezone.now())
    assert played.lease() == [later.pk]
    assert planned(played)[str(later.pk)] == ["n0"]


def test_a_round_asks_at_most_once_for_patience(at: Project) -> None:
    played = suspected(at, avoid="all")

    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert played.lease() == []
        return len(seen)

    busy = [submit(at, resources={"cpu": "4"}) for _ in range(9)]
    assert len(played.lease()) == len(busy)
    waiting = submit(at, resources={"cpu": "4"})
    statements()  # which reads what the session asks for
    hesitant = statements()
    Executor.objects.update(avoid_suspects="off", max_sessions=9)
    Session.objects.filter(pk=waiting.pk).update(stored_priority=1)
    for cpu in ("3", "2", "1"):
        submit(at, resources={"cpu": cpu})
    Executor.objects.update(avoid_suspects="all", max_sessions=1000)
    statements()
    assert statements() == hesitant


def test_a_node_in_quarantine_gets_no_leases_and_a_released_one_does(at: Project) -> None:
    played = fleet(avoid="off", names=["n0", "n1"])
    node_quarantine(now_of(played), "n0", reason="disk", by="olga")
    rest = [submit(at, resources={"cpu": "4"}) for _ in range(2)]
    assert len(played.lease()) == 1
    assert list(planned(played).values()) == [["n1"]]
    (left,) = [each for each in rest if str(each.pk) not in planned(played)]
    assert "it waits for room" in why(left)
    node_release(now_of(played), "n0", by="olga")
    assert played.lease() == [left.pk]
    assert check_all() == []


def marked(*names: str) -> Agent:
    """An agent whose executor has these suspect nodes, without the sweep that finds them."""
    played = fleet()
    until = timezone.now() + timedelta(hours=1)
    Node.objects.bulk_create(
        Node(executor=now_of(played), name=each, address=f"one/{each}", suspected_until=until)
        for each in names
    )
    return played


def told_of(session: Session) -> Any:
    """What the newest lease's event tells of suspect nodes; None for nothing."""
    events = SessionEvent.objects.filter(session_id=session.pk, type="session.scheduled")
    newest = events.order_by("seq").last()
    assert newest is not None
    return newest.data.get("suspect_nodes")


def explained(session: Session) -> list[str]:
    """The sentences about the decision that made a retry."""
    assert session.parent_id is not None
    failed = Session.objects.get(pk=session.parent_id)
    sentences: list[str] = decision_json(failed, decision_get(failed))["explanation"]
    return sentences


@pytest.mark.parametrize("placement", ["node", "cluster"])
def test_a_retry_tells_which_suspects_it_left_out(at: Project, placement: str) -> None:
    played = marked("n0")
    Executor.objects.update(placement=placement)
    child, first = retry_of(at, played, resources={"cpu": "1"}), submit(at)
    assert not any("suspect" in each for each in explained(child))
    assert set(played.lease()) == {child.pk, first.pk}
    assert told_of(child) == {"allowed": False, "count": 1, "names": ["n0"]}
    assert told_of(first) is None
    assert explained(child)[-1] == "The next attempt left out the suspect node n0 of one."


@pytest.mark.parametrize("placement", ["node", "cluster"])
def test_a_retry_tells_that_it_was_let_onto_a_suspect(
    at: Project, monkeypatch: Any, placement: str
) -> None:
    played = marked("n0")
    Executor.objects.update(placement=placement)
    child = retry_of(at, played, resources={"cpu": "4"})
    for node in NODES[1:]:
        node_quarantine(now_of(played), node, reason="disk", by="olga")
    assert played.lease() == []
    monkeypatch.setattr("scheduler.allocation.patience.PATIENCE", timedelta(0))
    assert played.lease() == [child.pk]
    assert told_of(child) == {"allowed": True, "count": 1, "names": ["n0"]}
    assert explained(child)[-1] == (
        "The next attempt was let onto the suspect node n0 of one, since nothing else there had"
        " room."
    )


def test_an_event_names_few_of_many_suspects(at: Project) -> None:
    names = [f"x{number:02}" for number in range(12)]
    played = marked("n0", *names)
    child = retry_of(at, played)
    assert played.lease() == [child.pk]
    assert told_of(child) == {"allowed": False, "count": 13, "names": ["n0", *names[:9]]}
    assert explained(child)[-1].endswith("x07, x08 and 3 more of one.")


def test_the_explanations_of_many_retries_take_one_statement(at: Project) -> None:
    played = marked("n0")
    children = [retry_of(at, played) for _ in range(3)]
    played.lease()
    failed = list(Session.objects.filter(pk__in=[each.parent_id for each in children]))
    decided = [(each, decision_get(each)) for each in failed]
    with CaptureQueriesContext(connection) as seen:
        shown = decisions_json(decided)
    assert len(seen) == 1
    assert all("left out the suspect node n0" in each["explanation"][-1] for each in shown)
