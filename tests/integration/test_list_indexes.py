"""Every filter of the list of sessions has an index: it does not look for few among many."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import Project
from tests import factories
from tests.agent import Api

MANY = 1_000
# Of two owners, half of them failed in the same way; their ids tell the time, as all ids do.
_MANY = """
    INSERT INTO sessions_app_session
    SELECT (jsonb_populate_record(s, jsonb_build_object(
        'id', g.id, 'root_id', g.id, 'creation_id', g.id, 'name', 'some', 'executor', 'one',
        'owner_id', CASE WHEN g.n %% 4 < 2 THEN s.owner_id END) || CASE WHEN g.n %% 2 = 0 THEN
        '{"status": "ERROR", "retry_cause": "kernel_nonzero_exit", "exit_code": 1,
            "retry_state": "exhausted"}' ELSE '{}'::jsonb END)).*
    FROM sessions_app_session s,
        LATERAL (
            SELECT n, overlay(gen_random_uuid()::text PLACING left(s.id::text, 15) FROM 1)::uuid
                AS id
            FROM generate_series(1, %s) AS n
        ) g
    WHERE s.id = %s
"""
FILTERS = (
    *("", "project=acme/work", "queue=default", "job_set=nightly", "status=TERMINATED"),
    *("status=ERROR", "status=CANCELLED", "status=RUNNING", "status=PENDING"),
    *("session_type=batch", "session_type=interactive", "retry_cause=kernel_nonzero_exit"),
    *("retry_cause=oom_killed", "failure_category=flaky", "signature=0123456789ab"),
    *("retry_state=exhausted", "retry_state=succeeded"),
    *("retry_state=held", "retry_state=parked", "retry_state=scheduled"),
    *("retry_state=retried", "retry_state=none"),
    *(
        "exit_code=0",
        "exit_code=1",
        "exit_code=137",
        "root={id}",
        "parent={id}",
        "tip=true",
        "tip=false",
    ),
    *("owner=ann", "owner=nobody", "executor=rack", "node=node-1", "node=node-7"),
    *("executor=one", "executor=one&retry_state=none", "executor=one&queue=default"),
    *("created_after=2020-01-01T00:00:00Z", "created_after=2100-01-01T00:00:00Z"),
    *("created_before=2020-01-01T00:00:00Z", "created_before=2100-01-01T00:00:00Z"),
    *("search=some", "search=nightly"),
)


@pytest.fixture
def api(at: Project) -> Api:
    session = factories.settle(factories.start(factories.submit(at)), status="terminated")
    with connection.cursor() as cursor:
        cursor.execute(_MANY, [MANY, session.pk])
        cursor.execute("ANALYZE sessions_app_session")
        # A thousand rows may be read at once: it is the way through a million that is looked at.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
    return Api(factories.token(factories.user("ann", project=at)))


def test_no_filter_looks_through_many_sessions_for_few(api: Api) -> None:
    """One test: the sessions take longer to make than all lists to read."""
    passed_over = {query: _passed_over(api, query) for query in FILTERS}
    assert max(passed_over.values()) < MANY / 20, passed_over


def _passed_over(api: Api, query: str) -> int:
    """The sessions that a list reads and leaves out."""
    with CaptureQueriesContext(connection) as queries:
        api.read(f"sessions/?page_size=5&{query.format(id=uuid4())}")
    (listed,) = [each["sql"] for each in queries if "LATERAL" in each["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {listed}")
        (explained,) = cursor.fetchone()
    plan = json.loads(explained) if isinstance(explained, str) else explained
    return sum(_removed(plan[0]["Plan"]))


def _removed(node: dict[str, Any]) -> Iterator[int]:
    if node.get("Relation Name") == "sessions_app_session":
        yield int(node.get("Rows Removed by Filter", 0) * node["Actual Loops"])
    for each in node.get("Plans", []):
        yield from _removed(each)
