"""What the failures of `session_history.py` left: signatures, figures of hours and days, nodes.

The one task that counts failures would need hours for a million sessions. So the rows are made from
the sessions by SQL, as many as the task would have made. Figures of recoveries are left out.
"""

from datetime import UTC, datetime, timedelta

KEPT_DAYS = 31
"""Days of hours that the list of failures can span."""

# Signatures: so few of a project that a small past has all of them in a month, too.
SIGNATURE = """
    CASE WHEN e.ending = 'error' THEN lpad(to_hex(abs(hashint8(position)) %% 12), 12, 'a')
        WHEN e.ending = 'failed' THEN 'facade000000' ELSE '' END
"""
_FAILED = """
    CREATE TEMPORARY TABLE failed AS
    SELECT s.project_id, s.failure_signature AS key, s.retry_cause AS cause, s.id, s.finished_at,
        s.root_id, s.node, c.image, q.name AS queue, u.username AS owner,
        s.retry_count > 0 AS retried,
        extract(epoch FROM s.finished_at - s.started_at) AS seconds
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
        JOIN sessions_app_queue q ON q.id = s.queue_id JOIN auth_user u ON u.id = s.owner_id
    WHERE s.failure_signature <> ''
"""
_SIGNATURES = """
    INSERT INTO sessions_app_failuresignature (project_id, key, title, cause, first_seen, last_seen,
        example, muted, sessions, chains, recovered_chains, lost_run_seconds)
    SELECT project_id, key, 'error: ' || key, min(cause), min(finished_at), max(finished_at),
        (array_agg(id ORDER BY finished_at DESC))[1], false, count(*), count(DISTINCT root_id), 0,
        sum(seconds)
    FROM failed GROUP BY project_id, key
"""
_HOURS = """
    INSERT INTO sessions_app_failurehour (project_id, dimension, value, hour, key, sessions, chains,
        recovered_chains, lost_run_seconds)
    SELECT project_id, d.dimension, d.value, date_trunc('hour', finished_at, 'UTC'), key, count(*),
        count(DISTINCT root_id), 0, sum(seconds)
    FROM failed, LATERAL (VALUES ('', ''), ('queue', queue), ('image', image), ('node', node))
        AS d(dimension, value)
    WHERE finished_at > %s GROUP BY 1, 2, 3, 4, 5
"""
_DAYS = """
    INSERT INTO sessions_app_retryday (project_id, dimension, value, day, chains, retried,
        recovered, given_up, cancelled, attempts, run, rescued, wasted, waiting, recoveries)
    SELECT project_id, d.dimension, d.value, (finished_at AT TIME ZONE 'UTC')::date,
        count(DISTINCT root_id), count(*) FILTER (WHERE retried), 0, count(DISTINCT root_id), 0,
        count(*), sum(seconds), 0, sum(seconds), 0, ARRAY[]::bigint[]
    FROM failed, LATERAL (VALUES ('', ''), ('cause', cause), ('queue', queue), ('owner', owner),
        ('image', image), ('node', node), ('signature', key)) AS d(dimension, value)
    GROUP BY 1, 2, 3, 4
"""
_NODES = """
    INSERT INTO scheduler_node (executor_id, name, address, present, reason, quarantined_by,
        quarantine_reason)
    SELECT e.id, s.node, e.name || '/' || s.node, true, '', '', ''
    FROM (SELECT DISTINCT executor, node FROM sessions_app_session WHERE node <> '') s
        JOIN scheduler_executor e ON e.name = s.executor
"""


def load_failures() -> None:
    """Count the failures of the past in the database that Django uses, and make its nodes."""
    from django.db import connection

    from scheduler.models import Executor
    from sessions_app.models import FailureReader, Session
    from sessions_app.services.failures.days import day_sum

    names = Session.objects.exclude(executor="").values_list("executor", flat=True).distinct()
    Executor.objects.bulk_create([Executor(name=name) for name in names])
    since = datetime.now(UTC) - timedelta(days=KEPT_DAYS + 1)
    with connection.cursor() as cursor:
        cursor.execute(_FAILED)
        cursor.execute(_SIGNATURES)
        cursor.execute(_HOURS, [since])
        FailureReader.objects.create(pk=1)
        while day_sum(datetime.now(UTC).date()):
            pass
        cursor.execute(_DAYS)
        cursor.execute(_NODES)
        cursor.execute("DROP TABLE failed")
        for table in ("failuresignature", "failurehour", "failureday", "retryday"):
            cursor.execute(f"VACUUM ANALYZE sessions_app_{table}")
        cursor.execute("VACUUM ANALYZE scheduler_node")
