"""What failures left: signatures, figures of hours and days, running totals, nodes.

The one task that counts failures would need hours for a million sessions. So the rows are made by
SQL, as many as the task would have made: from the sessions of `session_history.py`, or from
failures without any session. Recovered chains are left out of the figures of signatures.
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
# Few signatures make most failures: the n-th one has an n-th of those of the first. Each has
# three images and two queues.
_MADE_UP = """
    CREATE TEMPORARY TABLE failed AS
    SELECT %(project)s AS project_id, lpad(to_hex(signature), 12, '0') AS key,
        (ARRAY['kernel_nonzero_exit', 'oom_killed', 'start_failure', 'node_lost', 'unknown'])
            [signature %% 5 + 1] AS cause,
        gen_random_uuid() AS id, %(until)s - draw[2] * interval '31 days' AS finished_at,
        position / 2 AS root_id, 'node-' || floor(draw[3] * %(nodes)s) AS node,
        'image-' || (signature * 7 + position %% 3) %% 40 AS image,
        'queue-' || (signature + position %% 2) %% 6 AS queue,
        'user-' || floor(draw[4] * 40) AS owner, position %% 2 = 1 AS retried,
        600 * draw[5] AS seconds
    FROM (SELECT position, draw, floor(exp(draw[1] * ln(%(signatures)s)))::bigint AS signature
        FROM generate_series(0, %(failures)s - 1) AS position, LATERAL (
            SELECT array_agg((hashint8extended(position, seed) & 1048575) / 1048576.0::float8)
            FROM generate_series(1, 5) AS seed) AS d(draw)) AS made
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
# The first 1,000 values of a dimension on a day have rows of their own, all others are one row.
_DAYS = """
    INSERT INTO sessions_app_retryday (project_id, dimension, value, day, chains, retried,
        recovered, given_up, cancelled, attempts, run, rescued, wasted, waiting, recoveries)
    SELECT project_id, dimension, CASE WHEN place <= 1000 THEN value ELSE '' END, day, sum(chains),
        sum(retried), 0, sum(chains), 0, sum(attempts), sum(run), 0, sum(run), 0, ARRAY[]::bigint[]
    FROM (
        SELECT project_id, d.dimension, d.value, (finished_at AT TIME ZONE 'UTC')::date AS day,
            count(DISTINCT root_id) AS chains, count(*) FILTER (WHERE retried) AS retried,
            count(*) AS attempts, sum(seconds) AS run, row_number() OVER (
                PARTITION BY project_id, d.dimension, (finished_at AT TIME ZONE 'UTC')::date
                ORDER BY min(finished_at)) AS place
        FROM failed, LATERAL (VALUES ('', ''), ('cause', cause), ('queue', queue),
            ('owner', owner), ('image', image), ('node', node), ('signature', key))
            AS d(dimension, value)
        GROUP BY 1, 2, 3, 4) AS counted
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
    from sessions_app.models import Session

    names = Session.objects.exclude(executor="").values_list("executor", flat=True).distinct()
    Executor.objects.bulk_create([Executor(name=name) for name in names])
    with connection.cursor() as cursor:
        cursor.execute(_FAILED)
        _count()
        cursor.execute(_NODES)
        cursor.execute("VACUUM ANALYZE scheduler_node")


def make_up_failures(project: int, failures: int, *, signatures: int, nodes: int) -> None:
    """Count failures of a project in the last 31 days, of sessions that there never were."""
    from django.db import connection

    made = {"project": project, "failures": failures, "signatures": signatures, "nodes": nodes}
    with connection.cursor() as cursor:
        cursor.execute(_MADE_UP, {**made, "until": datetime.now(UTC)})
        _count()


def _count() -> None:
    """Count the failures in the table `failed`, and drop it."""
    from django.db import connection

    from sessions_app.models import FailureReader
    from sessions_app.services.failures.totals import hour_total

    with connection.cursor() as cursor:
        cursor.execute(_SIGNATURES)
        cursor.execute(_HOURS, [datetime.now(UTC) - timedelta(days=KEPT_DAYS + 1)])
        FailureReader.objects.create(pk=1)
        cursor.execute("ANALYZE sessions_app_failurehour")
        while hour_total(datetime.now(UTC)):
            pass
        cursor.execute(_DAYS)
        cursor.execute("DROP TABLE failed")
        for table in ("signature", "hour", "ledger", "totals"):
            cursor.execute(f"VACUUM ANALYZE sessions_app_failure{table}")
        cursor.execute("VACUUM ANALYZE sessions_app_retryday")
