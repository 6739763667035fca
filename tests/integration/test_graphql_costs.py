"""Tests of what a query costs the database: as many statements for 30 rows as for 3, whatever it
asks.

The queries are made from the schema itself, so that a new field is counted without a new test.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from graphql import (
    GraphQLObjectType,
    get_named_type,
    is_leaf_type,
    is_required_argument,
)

from retry.policies.categories import FailureCategory
from retry.policies.shared_budget import SharedBudget
from scheduler.locks import next_fencing_tokens
from scheduler.models import Executor, Lease, Node, Preemption, Reservation
from sessions_app.models import Session
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.resources.categories import category_create
from sessions_app.services.resources.priority_classes import priority_class_create
from sessions_app.webhooks.endpoints import webhook_create, webhook_ping
from tests import factories
from tests.graphs import Graph, nodes

ROWS = 30
Way = tuple[tuple[str, bool], ...]
"""Names of fields, and whether each of them is a page."""
NO_LISTS = {"simulateRetryPolicy"}
ALONE = {"pendingReason", "whyPending", "dependencyGraph"}
"""Fields of one session that is asked for alone."""
COUNTED_APART = re.compile("sessions_app_(requestbudget|apitoken)|^(RELEASE )?SAVEPOINT ")
"""What the call itself costs, now and then. It is a transaction in that of the test."""


@pytest.fixture
def world() -> Graph:
    """Thirty of everything, each with an owner, a project and children of its own."""
    for number in range(ROWS):
        project = factories.project(f"p{number}", domain=f"d{number}")
        owner = factories.user(f"u{number}", project=project, role=Role.MAINTAINER)
        factories.token(owner, project=project)
        factories.breaker(project)
        factories.queue(project, "thrifty", retry_budget=SharedBudget().stored())
        priority_class_create(f"p{number}", number + 1, {"projects": [project.address]}, by="root")
        factories.schedule(project, owner)
        for revision in range(2):
            factories.named_policy(f"r{number}", project=project, retryLimit=revision)
        matchers: Any = [{"onConditions": ["OOMKilled"]}]
        category = FailureCategory.model_validate({"name": f"c{number}", "matchers": matchers})
        # Some share a place, so that cursors have to count among them.
        category_create(category, position=number // 4, by="root")
        webhook = webhook_create(
            project=project, url="https://example.com/", event_types=[], description="", by="root"
        )
        for _ in range(2):
            webhook_ping(webhook)
        asked = {"retry_policy": factories.policy(emit_retry_events=number % 2 == 0)}
        factories.submit(project, owner=owner, job_set=f"j{number}", **asked)
    for number, session in enumerate(Session.objects.all()):
        factories.failure(factories.settle(factories.start(session)), key=f"k{number}")
    retries_dispatch()
    machines = [{"name": f"n{each}", "allocatable": {"cpu": "1"}} for each in range(3)]
    # Neighbours differ in their policies, so that the first three rows show both kinds too.
    for number, session in enumerate(Session.objects.filter(tip=True).order_by("project_id")):
        factories.start(session)
        executor = Executor.objects.create(name=f"e{number}", nodes=machines)
        executor.projects.set([session.project])
        Node.objects.create(executor=executor, name="n0", address=f"e{number}/n0")
        (token,), _ = next_fencing_tokens(1)
        Lease.objects.create(
            session=session,
            executor=executor,
            fencing_token=token,
            granted_at=timezone.now(),
            queue_id=session.queue_id,
            scheduling_key=1,
        )
        waiting = factories.submit(session.project, owner=session.owner)
        Reservation.objects.create(executor=executor, session=waiting, nodes=["n0"])
        Preemption.objects.create(
            executor=executor,
            planned_at=timezone.now(),
            until=timezone.now(),
            rule="priority",
            dry_run=True,
            nodes=["n0"],
            taker_id=waiting.pk,
            taker_project=session.project,
            taker_rank=number + 1,
            victim_id=session.pk,
            victim_project=session.project,
            victim_rank=0,
        )
    graph = Graph(factories.token(factories.user(superuser=True)))
    # The first call of a token writes down that it was used.
    graph.ask("{ viewer { username } }")
    return graph


def fields_of(kind: GraphQLObjectType) -> dict[str, Any]:
    """The fields that can be asked for without an argument."""
    return {
        name: field
        for name, field in kind.fields.items()
        if name not in ALONE and not any(map(is_required_argument, field.args.values()))
    }


def leaves(kind: GraphQLObjectType) -> str:
    named = [
        name for name, field in fields_of(kind).items() if is_leaf_type(get_named_type(field.type))
    ]
    return " ".join(["__typename", *named])


def queries(root: GraphQLObjectType) -> Iterator[tuple[tuple[str, ...], str]]:
    """For each list, and each field that leads to objects of each type below it, one query."""
    lists = {name: field for name, field in fields_of(root).items() if "first" in field.args}
    waiting: list[tuple[tuple[str, ...], Any, Way]] = [
        ((name,), field, ()) for name, field in lists.items() if name not in NO_LISTS
    ]
    known: set[tuple[str, str]] = set()
    while waiting:
        path, field, outer = waiting.pop(0)
        paged, kind = "first" in field.args, get_named_type(field.type)
        if paged:
            kind = get_named_type(get_named_type(kind.fields["edges"].type).fields["node"].type)
        way = (*outer, (path[-1], paged))
        yield path, written(way, leaves(kind))
        if (path[0], kind.name) in known:
            continue
        known.add((path[0], kind.name))
        for name, below in fields_of(kind).items():
            if isinstance(get_named_type(below.type), GraphQLObjectType):
                waiting.append(((*path, name), below, way))


def written(way: Way, selected: str) -> str:
    """The selection along a way of fields, some of them pages."""
    for at, (name, paged) in reversed(list(enumerate(way))):
        rows = 2 if at else "$rows"
        edges = f"edges {{ cursor node {{ {selected} }} }} pageInfo {{ hasNextPage }}"
        selected = f"{name}(first: {rows}) {{ {edges} }}" if paged else f"{name} {{ {selected} }}"
    return f"query($rows: Int) {{ {selected} }}"


def statements(graph: Graph, query: str, rows: int) -> tuple[list[str], Any]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = graph.ask(query, rows=rows)
    found = [each["sql"] for each in captured.captured_queries]
    return [each for each in found if not COUNTED_APART.search(each)], answer


def test_no_field_costs_a_statement_for_each_row(world: Graph) -> None:
    from reprise.graphql.schema import schema

    root: Any = schema.graphql_schema.query_type
    dear, seen = {}, set()
    for path, query in queries(root):
        many, answer = statements(world, query, ROWS)
        few, _ = statements(world, query, 3)
        assert len(nodes(answer[path[0]])) == ROWS, path
        seen.add(path)
        if len(many) != len(few):
            dear[path] = (len(few), len(many), [each for each in many if each not in few])
    assert dear == {}
    assert {
        ("sessions", "attempts", "session"),
        ("sessions", "retryDecision"),
        ("sessions", "events"),
        ("executors", "leases", "session"),
        ("webhooks", "deliveries"),
        ("retryPolicies", "revisions"),
        ("jobSets", "events"),
        ("sessions", "project", "domain"),
    } <= seen


def test_nor_does_what_is_far_below(world: Graph) -> None:
    query = """query($rows: Int) { sessions(first: $rows) { edges { node {
        attempts(first: 3) { edges { node { session { image retryDecision { explanation }
        queue { usage { share } project { domain { name } } }
        parentSession { events(first: 3) { edges { node { type } } } rootSession { labels } }
        } } } } } } } }"""
    many, answer = statements(world, query, ROWS)
    few, _ = statements(world, query, 3)
    assert len(nodes(answer["sessions"])) == ROWS
    assert len(many) == len(few)
