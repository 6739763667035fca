"""The REST API, fuzzed from its OpenAPI document: every check of schemathesis, each operation.

In CI a bounded part of the cases, always the same; `make fuzz` tries all, as long as it is told.
"""

from collections.abc import Iterator

import pytest
from django.db import connection

from sessions_app.models import WebhookDelivery
from sessions_app.models.webhooks import DeliveryState
from tests.fuzz.records import World, build
from tests.fuzz.run import Effort, Findings, asked, run

# A bounded part goes through in CI in a minute; by hand it lasts as long as was asked for.
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(1800 + 3 * (asked().seconds or 0)),
    pytest.mark.slow,
]


@pytest.fixture
def world() -> Iterator[World]:
    if asked().only.startswith("^/graphql"):
        pytest.skip("only fields of GraphQL are asked for")
    yield build()
    # The threads of the run had connections of the pool; the test's database cannot go before them.
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's has one


def _summary(found: Findings) -> str:
    failures = (f"{name}\n{text}" for name, text in sorted(found.failures.items()))
    what = f"{dict(found.answers)}, {len(found.succeeded)} operations succeeded"
    return "\n\n".join([*failures, what])


def test_a_cluster_admin_finds_nothing(world: World) -> None:
    found = run(world, world.admin, asked())
    assert not found.failures, _summary(found)
    assert not found.answers.keys() & range(500, 600)
    # Most calls must do something: refusals alone would say little.
    assert len(found.succeeded) > (60 if not asked().only else 0), _summary(found)
    # Deliveries are asked for, and wait: nothing in this process sends.
    assert not WebhookDelivery.objects.exclude(state=DeliveryState.WAITING).exists()


def test_a_member_finds_nothing(world: World) -> None:
    effort = asked()
    found = run(world, world.member, Effort(effort.seed, 1, effort.seconds, 40, effort.only))
    assert not found.failures, _summary(found)
    assert not found.answers.keys() & range(500, 600)
