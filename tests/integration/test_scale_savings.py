"""The demonstration at scale says what was noticed, and what that saved."""

from datetime import timedelta
from typing import Any

import pytest

from executor.drivers.simulated.script import own_course
from reprise.scale.by_hand import breakers_end, chains_decide
from reprise.scale.judgement import Scope, astray, chains_left, waiting_chains
from reprise.scale.plan import (
    BREAKER,
    ENDLESS,
    GUARDED,
    LACKING,
    LACKS,
    MENDED,
    MOST_ENDLESS,
    MOST_RETRIES,
    PARKING,
    POLICIES,
    READS_NEVER,
    READS_NOT,
    STOPPED_AFTER,
    UNREADABLE,
    Plan,
)
from reprise.scale.savings import (
    guarded_project,
    held_tenant,
    kept_steps,
    parked_chains,
    savings,
    stopped_chains,
    suspect_nodes,
)
from retry.evidence.termination import Termination
from retry.policies.shared_budget import SharedBudget
from scheduler.models import Executor, Node
from sessions_app.locks import database_now
from sessions_app.models import Breaker, Project, RetryDecision, RetrySettings, Session
from sessions_app.services.breakers.sweep import breakers_sweep
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories
from tests.factories import policy, tip

PLAN = Plan(queues=2, sessions=1_800, executors=1, run_seconds=1.0, seed=1)


@pytest.fixture
def scope(at: Project) -> Scope:
    return Scope([at.pk], database_now() - timedelta(minutes=10))


def ended(session: Session, told: dict[str, Any] | None = None, **facts: Any) -> None:
    """Run a session for 60 s until it ends so."""
    factories.start(session)
    sessions_settle({session.pk: End(Termination(**facts), progress=told)})
    found = Session.objects.get(pk=session.pk)
    assert found.finished_at is not None
    Session.objects.filter(pk=session.pk).update(
        started_at=found.finished_at - timedelta(seconds=60)
    )


def again() -> None:
    """Dispatch the retries that wait."""
    RetryDecision.objects.update(due_at=database_now() - timedelta(seconds=1))
    retries_dispatch()


def test_nothing_noticed_is_said_so(scope: Scope) -> None:
    nodes, image, breaker, tenant, parked, progress = savings(scope)
    assert nodes.startswith("Bad nodes: none was found.")
    assert image == "Broken image: no session ran with it."
    assert breaker == "Breaker: too few sessions of scale/astro failed alike to open it."
    assert parked == "Parked chains: no session asked for it."
    assert progress == "Progress: no session went on from a checkpoint."
    assert tenant == "Retries without end: no session asked for them."


def test_a_broken_image_is_stopped(at: Project, scope: Scope) -> None:
    factories.named_policy("storm", rules=POLICIES["storm"]["rules"], project=at)
    retried = policy(retry_delay=1e-6, max_retries=0)
    root = factories.submit(at, retry_policies=["storm"], retry_policy=retried)
    for _ in range(STOPPED_AFTER):
        ended(tip(root), exit_code=78)
        again()
    assert (tip(root).retry_count, tip(root).retry_state) == (STOPPED_AFTER - 1, "exhausted")
    left = MOST_RETRIES + 1 - STOPPED_AFTER
    assert stopped_chains(scope) == (
        "Broken image: 1 session failed in the same way until a rule stopped them "
        f"(stopAfterSame). That saved {left} retries that could not succeed, or {left} min of "
        "run time."
    )


def test_work_behind_a_checkpoint_is_kept(at: Project, scope: Scope) -> None:
    root = factories.submit(at, retry_policy=policy(retry_delay=1e-6))
    step = {"step": 80, "of": 100, "note": "", "best": 80, "rate": None}
    ended(root, {**step, "checkpoint": "saved/60", "checkpoint_step": 60}, exit_code=75)
    again()
    ended(tip(root), exit_code=0, status="terminated")
    assert kept_steps(scope) == (
        "Progress: 1 session failed, and went on from their last checkpoint. That kept 45 s of "
        "the 60 s that their failed attempts had run."
    )


@pytest.mark.django_db(transaction=True)
def test_a_tenant_without_end_is_held_by_its_budget(at: Project, scope: Scope) -> None:
    tenant = factories.project(ENDLESS)
    factories.named_policy(ENDLESS, rules=POLICIES[ENDLESS]["rules"])
    budget = SharedBudget(ratio=0, burst=1).stored()
    RetrySettings.objects.create(project=tenant, retry_budget=budget)
    both = Scope([at.pk, tenant.pk], scope.since)
    for _ in range(3):
        ended(factories.submit(tenant, retry_policies=[ENDLESS]), exit_code=1)
    again()
    (child,) = Session.objects.filter(project=tenant, retry_count=1)
    ended(child, exit_code=1)
    again()
    ended(factories.submit(at), exit_code=0, status="terminated")
    assert chains_left(both) == 0
    held = waiting_chains(both)
    assert [(each.root_id, each.parked) for each in held] == [
        (root_id, False)
        for root_id in sorted(
            Session.objects.filter(retry_count=0, project=tenant).values_list("pk", flat=True)
        )
    ]
    chains_decide(held, PLAN, by="demo")
    left = 3 * MOST_ENDLESS - 1
    assert held_tenant(both) == (
        f"Retries without end: 3 sessions of scale/endless failed, and asked for {MOST_ENDLESS} "
        "retries each. The shared budget of the project let 1 go, and held 3 sessions until the "
        f"end. That saved up to {left} retries that could not succeed, or {left / 60:.1f} h of run "
        "time: the project had 80.0% of what all ran, instead of 99.7%."
    )
    assert waiting_chains(both) == []


@pytest.mark.django_db(transaction=True)  # breakers are counted behind the log
def test_a_breaker_holds_a_broken_image_until_it_is_mended(scope: Scope) -> None:
    guarded = factories.project(GUARDED)
    RetrySettings.objects.create(project=guarded, breaker=BREAKER)
    factories.named_policy(GUARDED, rules=POLICIES[GUARDED]["rules"])
    breakers_sweep()
    own = Scope([guarded.pk], scope.since)
    asked: dict[str, Any] = {"image": LACKS, "retry_policies": [GUARDED]}
    roots = [factories.submit(guarded, **asked) for _ in range(4)]
    for root in roots:
        ended(root, exit_code=78, message=LACKING)
    breakers_sweep()
    again()
    Breaker.objects.update(opened_at=scope.since + timedelta(seconds=20))
    assert chains_left(own) == 0
    held = waiting_chains(own)
    assert [(each.root_id, each.image) for each in held] == [(root.pk, LACKS) for root in roots]

    chains_decide(held, PLAN, by="demo")
    assert waiting_chains(own) == []
    first, *others = [tip(root) for root in roots]
    assert (first.retry_count, first.spec.image) == (1, MENDED[LACKS])
    assert own_course(first.spec.environ["REPRISE_SIMULATE"], 1).exit_code == 0
    ended(first, exit_code=2)
    for each in others:
        ended(each, exit_code=0, status="terminated")
    breakers_end(own.projects, by="demo")
    breaker = Breaker.objects.get()
    assert (breaker.state, breaker.closed_by) == ("closed", "demo")
    left = 4 * MOST_RETRIES
    assert guarded_project(own) == (
        f"Breaker: {breaker.chains} sessions of scale/astro had failed alike "
        f"({breaker.signature}) after 20 s. From then on a breaker let 0 probes through, and held "
        "the others, at the end 4 sessions. "
        f"Then broken:3 was there: retried with it, 3 succeeded. That saved up to {left} retries "
        f"that could not succeed, or {left} min of run time."
    )


def test_parked_chains_are_retried_with_a_mended_image_or_given_up(
    at: Project, scope: Scope
) -> None:
    factories.named_policy(PARKING, **POLICIES[PARKING])
    roots = [
        factories.submit(at, image=image, retry_policies=[PARKING])
        for image in (READS_NOT, READS_NEVER, READS_NEVER)
    ]
    for _ in range(2):
        for root in roots:
            ended(tip(root), exit_code=65, message=UNREADABLE)
        again()
    parked = waiting_chains(scope)
    assert [(each.root_id, each.parked) for each in parked] == [(each.pk, True) for each in roots]
    assert chains_left(scope) == 0
    acknowledged = [str(each.pk) for each in roots]
    assert astray(scope, acknowledged) == []

    chains_decide(parked, PLAN, by="demo")
    assert [tip(each).retry_state for each in roots] == ["none", "exhausted", "exhausted"]
    ended(tip(roots[0]), exit_code=0, status="terminated")
    assert parked_chains(scope) == (
        "Parked chains: 3 sessions had used up their retries, and waited for somebody instead of "
        "ending. Retried with a mended image: 1, of which 1 succeeded, and nobody had to submit "
        "them anew. Given up: 2."
    )
    assert astray(scope, acknowledged) == []


def test_a_bad_node_is_told_with_what_the_others_spared(at: Project, scope: Scope) -> None:
    executor = Executor.objects.create(name="cluster-1", avoid_suspects="all")
    for name in ("sim-0", "sim-1", "sim-2"):
        Node.objects.create(executor=executor, name=name, address=f"cluster-1/{name}")
    suspected = scope.since + timedelta(seconds=20)
    Node.objects.filter(name="sim-1").update(suspected_at=suspected, suspected_until=suspected)
    # Each ran 4 before; then the good ones ran 10 more each, of which one failed, the bad one 2.
    runs = [("sim-1", 4, 4, -5), ("sim-1", 2, 1, 5)]
    runs += [(name, *more) for name in ("sim-0", "sim-2") for more in ((4, 0, -5), (10, 1, 5))]
    for node, count, failed, seconds in runs:
        begin = suspected + timedelta(seconds=seconds)
        for number in range(count):
            session = factories.submit(at)
            ended(session, exit_code=1) if number < failed else ended(
                session, exit_code=0, status="terminated"
            )
            Session.objects.filter(pk=session.pk).update(
                node=node, executor="cluster-1", started_at=begin
            )
    # 8 runs less, of which all would have failed but the share that fails elsewhere: 1 of 14.
    assert suspect_nodes(scope) == (
        "Bad nodes: found cluster-1/sim-1 after 20 s (4 of 4 runs failed). Later sessions avoided "
        "them. Had these nodes got as many runs as the others, about 7 more runs would have failed."
    )


def test_the_plan_has_what_is_to_be_noticed() -> None:
    script = PLAN.script(0)
    assert script["bad_nodes"] == {"sim-3": 0.8}
    bodies = list(PLAN.bodies("run"))
    assert {body["image"] for body in bodies} == {
        *("any-image", "broken:2", "trainer:1", "endless:1"),
    }
    own = [body for body in bodies if body["project"] == "scale/endless"]
    assert {(body["queue"], body["image"]) for body in own} == {("endless", "endless:1")}
    assert own_course(own[0]["environ"]["REPRISE_SIMULATE"], 50).exit_code == 1
    trainer = next(body for body in bodies if body["image"] == "trainer:1")
    text = trainer["environ"]["REPRISE_SIMULATE"]
    first, second = own_course(text, 0), own_course(text, 1)
    assert (first.exit_code, second.exit_code) == (75, 0)
    assert '"checkpoint": "saved/80"' in first.told
    assert PLAN.executor_documents()[0]["spec"]["avoid_suspects"] == "all"
    (guarded,) = [
        each["spec"]["settings"]["breaker"]
        for each in PLAN.documents()
        if each["metadata"].get("project") == GUARDED and each["kind"] == "RetryDefaults"
    ]
    assert guarded == BREAKER
    queues = {
        each["metadata"]["project"]: each["spec"]["retry_policies"]
        for each in PLAN.documents()
        if each["kind"] == "Queue"
    }
    assert queues == {GUARDED: [GUARDED, "storm"], ENDLESS: [ENDLESS]}
    small = Plan(queues=2, sessions=200, executors=2, run_seconds=1.0, seed=1)
    assert small.script(0)["bad_nodes"] == {}


def test_only_projects_without_a_breaker_have_sessions_that_are_parked() -> None:
    plan = Plan(queues=3, sessions=1_800, executors=1, run_seconds=1.0, seed=1)
    asking = [body for body in plan.bodies("run") if body.get("retry_policies") == [PARKING]]
    assert {body["image"] for body in asking} == {READS_NOT, READS_NEVER}
    assert {body["project"] for body in asking} == {"scale/bio"}
    assert plan.mended(READS_NEVER) is None
