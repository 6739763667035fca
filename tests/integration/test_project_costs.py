"""What the pages of a project read does not grow with the sessions of this one or of others."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions_app.models import Project, Session
from sessions_app.selectors.past_chains import Sampling, chains_sampled
from sessions_app.selectors.queue_shares import queue_shares
from tests import factories
from tests.agent import Api
from tests.integration.test_list_indexes import MANY, api

__all__ = ["api"]


def _plans(read: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return the plans of the statements that look for sessions by stretches of ids."""
    with CaptureQueriesContext(connection) as queries:
        read()
    found = [each["sql"] for each in queries if "NULLS LAST" in each["sql"]]
    plans = []
    for sql in found:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
            (explained,) = cursor.fetchone()
        plan = json.loads(explained) if isinstance(explained, str) else explained
        plans.append(plan[0]["Plan"])
    return plans


def _read(node: dict[str, Any]) -> float:
    """Return the rows that a plan reads of sessions, those included that it leaves out."""
    own = 0.0
    if node.get("Relation Name") == "sessions_app_session":
        left_out = node.get("Rows Removed by Filter", 0)
        own = (node["Actual Rows"] + left_out) * node["Actual Loops"]
    return own + sum(_read(each) for each in node.get("Plans", []))


@pytest.mark.django_db
def test_samples_read_few_rows_of_many(at: Project, api: Api) -> None:
    """Of a project with many sessions as many as the bounds say, of another one its own."""
    assert Session.objects.count() > MANY
    far = factories.project("far")
    factories.settle(factories.start(factories.submit(far)))
    now = timezone.now()
    how = Sampling(days=3, of_a_day=10, seen_of_a_day=20)
    (busy,) = _plans(lambda: chains_sampled(at.pk, now, how))
    (quiet,) = _plans(lambda: chains_sampled(far.pk, now, how))
    (shared,) = _plans(lambda: queue_shares(far.pk, now))
    # Each is found in the index of its queue, and then read.
    assert _read(busy) <= 2 * how.days * how.seen_of_a_day
    assert _read(quiet) <= 2
    assert _read(shared) <= 2
