"""Two people and one policy at the same moment: no dangling name, no lost revision."""

from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import transaction

from sessions_app.core.errors import Conflict, DomainError, InvalidInput
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.named_policies import named_policies
from sessions_app.models import (
    Queue,
    RetryPolicy,
    RetryPolicyRevision,
    RetrySettings,
    Session,
)
from sessions_app.services.resources.policies import Deleted, policy_delete
from sessions_app.services.resources.retry_config import retry_settings_put
from tests import factories
from tests.factories import attach, default_queue
from tests.racing import race
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

CLUSTER = ConfigScope()


def apply(name: str = "ml", scope: ConfigScope = CLUSTER, **spec: Any) -> RetryPolicy:
    return factories.named_policy(name, project=scope.project, domain=scope.domain, **spec)


ROUNDS = 8


def raced(*calls: Any) -> list[Any]:
    """Their outcomes, errors by their kind."""
    return [type(each) if isinstance(each, DomainError) else each for each in race(*calls)]


def test_one_revision_for_each_edit() -> None:
    limits = range(1, 9)
    race(*[partial(apply, retryLimit=limit) for limit in limits])
    stored = RetryPolicyRevision.objects.order_by("revision")
    assert [each.revision for each in stored] == list(limits)
    assert sorted(each.document["spec"]["retryLimit"] for each in stored) == list(limits)
    assert RetryPolicy.objects.get().revision == 8


def test_a_name_is_given_once_along_a_line() -> None:
    at = factories.project("work", domain="acme")
    scopes = (CLUSTER, ConfigScope(domain=at.domain), ConfigScope(project=at))
    for number in range(ROUNDS):
        name = f"name-{number}"
        outcomes = raced(*[partial(apply, name, scope) for scope in scopes])
        assert outcomes.count(Conflict) == 2
        assert RetryPolicy.objects.filter(name=name).count() == 1


def test_attaching_to_a_queue_against_deleting() -> None:
    queue = default_queue(factories.project())
    for number in range(ROUNDS * 2):
        name = f"name-{number}"
        apply(name)
        calls = [
            partial(attach, queue, name),
            partial(policy_delete, name, CLUSTER, by="ann"),
        ]
        # The later one of a barrier's threads tends to be the same.
        order = calls if number % 2 else calls[::-1]
        outcomes = raced(*order)
        attached, deleted = outcomes if number % 2 else outcomes[::-1]
        stored = Queue.objects.get(pk=queue.pk).retry_policies
        exists = RetryPolicy.objects.filter(name=name, archived_at=None).exists()
        assert (name in stored) is exists
        assert (attached, deleted) in {
            (None, Conflict),
            (InvalidInput, Deleted.DELETED),
        }
        queue.retry_policies = []


def test_making_it_the_default_against_deleting() -> None:
    for number in range(ROUNDS):
        name = f"name-{number}"
        apply(name)
        race(
            partial(retry_settings_put, CLUSTER, default_policy=name, by="ann"),
            partial(policy_delete, name, CLUSTER, by="ann"),
        )
        default = RetrySettings.objects.filter(default_policy=name).exists()
        assert default is RetryPolicy.objects.filter(name=name, archived_at=None).exists()


def test_submitting_against_deleting() -> None:
    at = factories.project()
    owner = factories.user(project=at)
    for number in range(ROUNDS * 2):
        name = f"name-{number}"
        apply(name)
        submitted, deleted = race(
            partial(factories.submit, at, owner=owner, retry_policies=[name]),
            partial(policy_delete, name, CLUSTER, by="ann"),
        )
        if isinstance(submitted, Session):
            assert deleted is Deleted.ARCHIVED
            assert name in named_policies([(at.pk, [name])])[at.pk]
        else:
            assert isinstance(submitted, InvalidInput)
            assert deleted is Deleted.DELETED


def test_detaching_deleting_and_submitting_leave_no_dangling_name() -> None:
    at = factories.project()
    owner = factories.user(project=at)

    def detach_and_delete(name: str) -> None:
        attach(default_queue(at))
        policy_delete(name, CLUSTER, by="ann")

    for number in range(ROUNDS):
        name = f"name-{number}"
        apply(name)
        attach(default_queue(at), name)
        session, _ = race(
            lambda: factories.submit(at, owner=owner),
            partial(detach_and_delete, name),
        )
        assert isinstance(session, Session)
        known = named_policies([(at.pk, session.retry_policies)])[at.pk]
        assert list(known) == session.retry_policies


def test_an_attachment_that_is_not_committed_holds_a_deletion_up() -> None:
    queue = default_queue(factories.project())
    apply()

    attached = Barrier(2)

    def attach_slowly() -> None:
        with transaction.atomic():
            attach(queue, "ml")
            attached.wait(PATIENCE_SECONDS)

    def delete() -> Any:
        attached.wait(PATIENCE_SECONDS)
        return policy_delete("ml", CLUSTER, by="ann")

    assert raced(attach_slowly, delete) == [None, Conflict]
    assert Queue.objects.get(pk=queue.pk).retry_policies == ["ml"]
