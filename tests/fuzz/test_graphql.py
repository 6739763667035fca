"""The GraphQL API, fuzzed from its committed schema: what holds of every answer, whatever was sent.

In CI a bounded part of the cases, always the same; `make fuzz` goes on as long as it is told.
"""

import re
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from hypothesis_graphql import Mode

from sessions_app.models import ApiToken, AuditEntry
from tests.fuzz.graphql_bombs import bodies, bombs
from tests.fuzz.graphql_cases import cases
from tests.fuzz.graphql_judge import Judge, schema_of_docs
from tests.fuzz.graphql_words import words_of
from tests.fuzz.records import World, build
from tests.fuzz.run import asked
from tests.graphs import ADDRESS, Graph
from tests.people import database_digest

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1800 + 3 * (asked().seconds or 0)),
    pytest.mark.slow,
]
SCHEMA = schema_of_docs()
assert SCHEMA.query_type is not None
assert SCHEMA.mutation_type is not None
ROOTS = sorted(
    (
        name
        for name in (*SCHEMA.query_type.fields, *SCHEMA.mutation_type.fields)
        if re.search(asked().only, f"{ADDRESS}{name}")
    ),
    key=lambda name: name.startswith("delete"),  # last: the others need something to act on
)


@pytest.fixture
def world() -> Iterator[World]:
    if not ROOTS:
        pytest.skip("only other paths are asked for")
    yield build()
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's has one


def _all(strategy: SearchStrategy[Any], check: Callable[[Any], object], many: int, of: str) -> None:
    """Check this number of examples, the same each time; failures are kept, and not shrunk."""

    @seed(of)
    @settings(
        max_examples=many,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(made: Any) -> None:
        check(made)

    each()


def _fuzz(world: World, token: str, examples: int) -> Judge:
    """Each field of the root, then many at once, then what does not fit the schema; once, or again
    and again for as long as was asked for."""
    graph, until = Graph(token), time.monotonic() + (asked().seconds or 0)
    words = words_of(SCHEMA, Graph(world.admin), [world.admin, world.member, world.viewer])
    judge = Judge(graph)
    rounds = [([each], Mode.POSITIVE, examples) for each in ROOTS]
    rounds += [(ROOTS, Mode.POSITIVE, 2 * examples), (ROOTS, Mode.NEGATIVE, 10 * examples)]
    for number in count(asked().seed):
        for fields, mode, many in rounds:
            _all(cases(SCHEMA, words, fields, mode), judge.call, many, f"{number} {fields} {mode}")
        if time.monotonic() >= until:
            return judge
    raise AssertionError("counting has no end")


def _summary(judge: Judge) -> str:
    failures = (f"{name}\n{text}" for name, text in sorted(judge.failures.items()))
    return "\n\n".join([*failures, f"{dict(judge.codes)}, {sorted(judge.worked)} succeeded"])


def test_a_cluster_admin_finds_nothing(world: World) -> None:
    judge = _fuzz(world, world.admin, 7)
    assert not judge.failures, _summary(judge)
    # Most fields must do something: refusals alone would say little.
    assert len(judge.worked) > (0 if asked().only else 0.7 * len(ROOTS)), _summary(judge)


def test_a_viewer_finds_nothing(world: World) -> None:
    before = database_digest()
    judge = _fuzz(world, world.viewer, 2)
    assert not judge.failures, _summary(judge)
    after = database_digest()
    # Tokens of one's own are all that a viewer makes.
    assert {table for table in after if after[table] != before[table]} <= {
        ApiToken._meta.db_table,
        AuditEntry._meta.db_table,
    }


def test_bombs_and_what_is_no_call_find_nothing(world: World) -> None:
    judge = Judge(Graph(world.admin))
    many = 2_000 if asked().seconds else 200
    _all(bombs(), judge.call, many, f"{asked().seed} bombs")

    def send(made: tuple[bytes, str, dict[str, str]]) -> None:
        body, kind, headers = made
        headers = {"Authorization": f"Bearer {world.admin}", **headers}
        judge.send(body, content_type=kind, headers=headers)

    _all(bodies(), send, many, f"{asked().seed} bodies")
    assert not judge.failures, _summary(judge)
