"""Troubles that keep an executor from running the sessions of single projects."""

from collections.abc import Mapping
from typing import Any

from django.db import connection

from scheduler.models import Executor
from sessions_app.core.states import Status
from sessions_app.db.bulk import columns

Troubles = dict[str, dict[str, str]]
"""The troubles in the form of `Executor.project_troubles`."""

# Only projects with work count: sessions that wait (also those whose lease comes back soon), and
# leased sessions whose pod is not made yet. Most executors report no trouble; then no statement
# runs.
_CONCERNED = """
    SELECT p.id, t.domain || '/' || t.name
    FROM unnest(%(domains)s::text[], %(names)s::text[]) AS t(domain, name)
    JOIN sessions_app_domain d ON d.name = t.domain
    JOIN sessions_app_project p ON p.domain_id = d.id AND p.name = t.name
    WHERE EXISTS (
        SELECT FROM sessions_app_queue q WHERE q.project_id = p.id AND EXISTS (
            SELECT FROM sessions_app_session s WHERE s.phase = 'waiting' AND s.queue_id = q.id))
    OR EXISTS (
        SELECT FROM scheduler_executor e JOIN scheduler_lease l ON l.executor_id = e.id
        JOIN sessions_app_session s ON s.id = l.session_id
        WHERE e.name = %(executor)s AND s.project_id = p.id AND s.fencing_token = l.fencing_token
            AND s.phase = 'live' AND s.status = ANY(%(starting)s::text[]))
    ORDER BY p.id
"""
_STARTING = [str(Status.SCHEDULED), str(Status.PREPARING)]


def project_troubles(executor: str, reported: Mapping[str, str]) -> Troubles:
    """Return the troubles of the projects that have sessions waiting or starting here."""
    if not reported:
        return {}
    domains, names = columns([each.partition("/")[::2] for each in reported])
    asked: dict[str, Any] = {
        "domains": domains,
        "names": names,
        "executor": executor,
        "starting": _STARTING,
    }
    with connection.cursor() as cursor:
        cursor.execute(_CONCERNED, asked)
        return {
            str(project_id): {"project": address, "trouble": reported[address]}
            for project_id, address in cursor.fetchall()
        }


def troubled_projects(executor: Executor) -> list[int]:
    """Return the ids of the projects whose sessions this executor cannot start now."""
    return [int(each) for each in executor.project_troubles]
