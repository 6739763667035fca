"""What plain kinds declare is offered by both doors, under the rules of the one table."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import get_resolver

from interfaces.executor_wire.kinds import EXECUTOR, NODE
from interfaces.graphql.mutations.kinds import KindChange
from interfaces.kinds.breakers import BREAKER
from interfaces.kinds.categories import CATEGORY
from interfaces.kinds.memberships import MEMBERSHIP
from interfaces.kinds.priority_classes import PRIORITY_CLASS
from interfaces.kinds.queues import QUEUE
from interfaces.kinds.quotas import DOMAIN_QUOTAS, PROJECT_QUOTAS
from interfaces.kinds.resource import Call, Listing, Resource
from interfaces.kinds.schedules import SCHEDULE
from interfaces.kinds.tenants import DOMAIN, PROJECT
from interfaces.kinds.tokens import TOKEN
from interfaces.kinds.webhooks import WEBHOOK
from interfaces.rest.resource_views import ResourceView
from reprise.graphql.schema import schema
from sessions_app.authorization import RULES, Action

SCOPED = [DOMAIN_QUOTAS, PROJECT_QUOTAS]
"""Their mutations are by hand, since they name a scope."""
KINDS = [
    *(BREAKER, CATEGORY, DOMAIN, EXECUTOR, MEMBERSHIP, NODE, PRIORITY_CLASS, PROJECT, QUEUE),
    *(SCHEDULE, TOKEN, WEBHOOK),
]
BY_HAND = {
    *(Action.TOKEN_CREATE, Action.TOKEN_REVOKE, Action.SCHEDULE_PREVIEW, Action.EXECUTOR_WIRE),
    # Defaults and quotas of a project or a domain have kinds of their own.
    *(each for each in Action if each.count(".") > 1),
}
"""The actions of calls that are special."""


def reads(kind: Resource) -> Iterator[Call | Listing]:
    yield from (call for call in (kind.listing, kind.read) if call is not None)


def writes(kind: Resource) -> Iterator[Call]:
    calls = (kind.create, kind.put, kind.patch, kind.delete, *kind.acts.values())
    yield from (call for call in calls if call is not None)


@pytest.mark.parametrize("kind", [*KINDS, *SCOPED], ids=lambda kind: kind.name)
def test_reads_and_writes_are_such_in_the_table(kind: Resource) -> None:
    assert not [call.action for call in reads(kind) if RULES[call.action].write]
    assert not [call.action for call in writes(kind) if not RULES[call.action].write]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_action_of_a_kind_is_declared(kind: Resource) -> None:
    declared = {call.action for call in (*reads(kind), *writes(kind))}
    known = {action for action in RULES if action.partition(".")[0] == kind.name}

    assert declared == known - BY_HAND


@pytest.mark.parametrize("kind", [*KINDS, *SCOPED], ids=lambda kind: kind.name)
def test_rest_offers_every_call(kind: Resource) -> None:
    offered = [id(call) for view in views() if view.of is kind for call in view.calls.values()]

    assert sorted(offered) == sorted(id(call) for call in (*reads(kind), *writes(kind)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_graphql_offers_every_writing_call(kind: Resource) -> None:
    made = [id(each.call) for each in mutations() if each.kind.of is kind]

    assert sorted(made) == sorted(id(call) for call in writes(kind))


@pytest.mark.parametrize("kind", [*KINDS, *SCOPED], ids=lambda kind: kind.name)
def test_every_call_says_what_it_does(kind: Resource) -> None:
    assert all(call.says.endswith(".") for call in (*reads(kind), *writes(kind)))


def views() -> list[Any]:
    found = (vars(each.callback).get("view_class") for each in patterns(get_resolver()))
    return [view for view in found if view and issubclass(view, ResourceView)]


def patterns(resolver: Any) -> Iterator[Any]:
    for each in resolver.url_patterns:
        if hasattr(each, "url_patterns"):
            yield from patterns(each)
        else:
            yield each


def mutations() -> list[Any]:
    assert schema.graphql_schema.mutation_type
    fields = schema.graphql_schema.mutation_type.fields.values()
    types = [field.type.graphene_type for field in fields]
    return [each for each in types if issubclass(each, KindChange)]
