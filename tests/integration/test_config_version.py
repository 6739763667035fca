"""What decisions are made by is read once for each version of the configuration, never too old."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from sessions_app.in_force.named_policies import named_policies
from sessions_app.in_force.retry_scope import SCOPES, retry_scopes, scopes_in, versions_of
from sessions_app.models import (
    Breaker,
    ConfigVersion,
    Domain,
    FailureCategory,
    FailureSignature,
    Project,
    Queue,
    RetryBudgetMinute,
    RetryBudgetState,
    RetryDefaults,
    RetryPolicy,
    RetryPolicyRevision,
    RetrySettings,
)
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests.factories import (
    breaker,
    decision,
    default_queue,
    domain,
    failure,
    named_policy,
    policy,
    spent_budget,
    submit,
)
from tests.racing import uncommitted

BUDGET = {"ratio": 0, "burst": 5, "window": 60, "over": "postpone", "platform": False}
FAILED = End(Termination(exit_code=1))
MATCHERS = [{"onSignatureTitle": {"pattern": "NCCL"}}]
NAMES = ["there", "later"]


def fresh(at: Project) -> Any:
    """What applies in the project, read anew."""
    scope = replace(retry_scopes([at.pk])[at.pk], version="")
    return scope, named_policies([(at.pk, NAMES)])[at.pk]


def kept(at: Project) -> Any:
    """What settle and dispatch take."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {SCOPES}")
        scopes = scopes_in(cursor.fetchone()[0], [at.pk])
    named = named_policies([(at.pk, NAMES)], versions_of(scopes))
    return replace(scopes[at.pk], version=""), named[at.pk]


@pytest.fixture
def world(at: Project) -> Project:
    """A project with one of everything that can be changed."""
    RetrySettings.objects.create(mode="on", retry_budget=BUDGET)
    RetryDefaults.objects.create(project=at, policy={"max_retries": 1})
    RetryDefaults.objects.create(domain=domain("other"), policy={"max_retries": 7})
    FailureCategory.objects.create(name="known", matchers=MATCHERS, position=1)
    named_policy("there", project=at, retryLimit=1)
    failure(submit(at), key="0123456789ab")
    breaker(at, signature="0123456789ab")
    spent_budget(at)
    return at


def update(model: Any, **values: Any) -> Callable[[Project], object]:
    return lambda _: model.objects.update(**values)


CHANGES: dict[str, Callable[[Project], object]] = {
    "a switch": lambda at: RetrySettings.objects.create(domain=at.domain, mode="paused"),
    "a changed switch": update(RetrySettings, mode="paused"),
    "no switches": lambda _: RetrySettings.objects.all().delete(),
    "defaults": lambda at: RetryDefaults.objects.create(
        domain=at.domain, policy={"max_retries": 9}
    ),
    "changed defaults": update(RetryDefaults, policy={"max_retries": 2}),
    "no defaults": lambda _: RetryDefaults.objects.all().delete(),
    "a category": lambda _: FailureCategory.objects.create(name="x", matchers=MATCHERS, position=2),
    "a renamed category": update(FailureCategory, name="y"),
    "no categories": lambda _: FailureCategory.objects.all().delete(),
    "a policy": lambda at: named_policy("later", project=at, retryLimit=3),
    "a changed policy": lambda at: named_policy("there", project=at, retryLimit=2),
    "no policies": lambda _: [
        RetryPolicyRevision.objects.all().delete(),
        RetryPolicy.objects.all().delete(),
    ],
    "a moved project": lambda _: Project.objects.update(domain=Domain.objects.get(name="other")),
    "a queue with a budget": lambda at: Queue.objects.create(
        project=at, name="new", retry_budget=BUDGET
    ),
    "a budget": update(Queue, retry_budget=BUDGET),
    "an open breaker": lambda at: breaker(at, signature="ba9876543210"),
    "a closed breaker": update(Breaker, state="closed"),
    "a probe": update(Breaker, probe="0" * 32),
    "no breakers": lambda _: Breaker.objects.all().delete(),
    "a muted failure": update(FailureSignature, muted=True),
    "room again": update(RetryBudgetState, spent_since=None),
    "no verdicts": lambda _: RetryBudgetState.objects.all().delete(),
    "old verdicts": update(RetryBudgetState, judged_at="2020-01-01T00:00:00Z"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_at_once(world: Project, change: str) -> None:
    before = kept(world)
    assert before == fresh(world)
    point = transaction.savepoint()
    CHANGES[change](world)
    assert kept(world) == fresh(world) != before
    transaction.savepoint_rollback(point)
    assert kept(world) == before


UNRELATED: dict[str, Callable[[Project], object]] = {
    "figures": update(FailureSignature, sessions=7),
    "verdicts of the same": update(RetryBudgetState, spent_times=7),
    "another use of a queue": update(Queue, name="other"),
    "a breaker's reason": update(Breaker, reason="known"),
    "a new queue": lambda at: Queue.objects.create(project=at, name="new"),
    "a new project": lambda at: Project.objects.create(domain=at.domain, name="new"),
    "a charge": lambda _: RetryBudgetMinute.objects.create(
        scope="cluster", minute="2026-01-01T00:00:00Z"
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("change", UNRELATED)
def test_what_changes_all_the_time_makes_no_version(world: Project, change: str) -> None:
    before = ConfigVersion.objects.get().version
    UNRELATED[change](world)
    assert ConfigVersion.objects.get().version == before


def statements(work: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as queries:
        work()
    return len(queries)


@pytest.mark.django_db
def test_settle_and_dispatch_read_each_version_once(world: Project, owner: User) -> None:
    asked: dict[str, Any] = {"retry_policy": policy(), "retry_policies": ["there"]}

    def cost() -> tuple[int, int]:
        session = submit(world, owner=owner, **asked)
        settling = statements(lambda: sessions_settle({session.pk: FAILED}))
        return settling, statements(retries_dispatch)

    cost()
    known = cost()
    RetrySettings.objects.create(domain=world.domain, mode="on")
    new = cost()
    # The submission read the names.
    assert new == (known[0] + 1, known[1])
    assert cost() == known


@pytest.mark.django_db(transaction=True)
def test_a_change_counts_from_its_commit(at: Project, owner: User) -> None:
    default_queue(at)
    first, second = (submit(at, owner=owner, retry_policy=policy()) for _ in range(2))
    with uncommitted(lambda: RetrySettings.objects.create(project=at, mode="paused")):
        sessions_settle({first.pk: FAILED})
    sessions_settle({second.pk: FAILED})
    assert [decision(each).state for each in (first, second)] == ["scheduled", "held"]
