"""The content of leases: what an executor gets to know of the sessions that it leases."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from base.podspec.specification import spec_of
from scheduler.allocation.claims import Claimed
from scheduler.wire import LeasedSession, LeasedSpec
from sessions_app.core.dependencies import variables
from sessions_app.core.errors import SecretUnreadable
from sessions_app.core.priorities import DEFAULT_CLASS, rank_sql
from sessions_app.core.stored_numbers import in_short
from sessions_app.db.bulk import FEW_IDS, array
from sessions_app.services.secrets.stored import environ_read

SHORT_SPEC = 8192
"""Maximum length of a cached specification, in characters."""


class _Row(NamedTuple):
    """A session with its names; the specification is JSON text."""

    id: UUID
    root_id: UUID
    parent_id: UUID | None
    attempt: int
    job_set: str
    name: str
    project: str
    queue: str
    previous_cause: str | None
    previous_exit_code: int | None
    chain_progress: str | None
    """How far the attempts before it came, as JSON text."""
    secret_environ: str | None
    """The stored, encrypted text."""
    dependencies: str | None
    """What its chain waited for, as JSON text; None if it did not wait."""
    priority_class: str | None
    pod_defaults: str
    """The pod defaults of its project as JSON text; "" for none."""
    spec: str


_CLASS = rank_sql("s.priority")
# Hundreds of sessions often share one specification, and text is cheap to compare and cache.
_READ = f"""
    SELECT s.id, s.root_id, s.parent_id, s.retry_count, s.job_set, s.name, d.name || '/' || p.name,
        q.name, f.retry_cause, f.exit_code, s.chain_progress, c.secret_environ,
        CASE WHEN c.on_dependency_failure IS NOT NULL THEN (
            SELECT json_agg(json_build_object('id', coalesce(e.tip_id, e.on_root), 'creation_id',
                e.creation_id, 'status', e.status, 'exit_code', e.exit_code) ORDER BY e.place)::text
            FROM sessions_app_dependency e WHERE e.root_id = s.root_id) END,
        k.name, coalesce(o.pod_defaults::text, ''),
        json_build_object(
            'image', c.image, 'command', c.command, 'environ', c.environ,
            'resources', c.resources, 'mounts', c.mounts, 'cluster_size', c.cluster_size,
            'batch_timeout', c.batch_timeout,
            'termination_grace_period', c.termination_grace_period, 'labels', c.labels,
            'ports', c.ports, 'pod_spec', c.pod_spec)::text
    FROM sessions_app_session s
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    JOIN sessions_app_project p ON p.id = s.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    JOIN sessions_app_queue q ON q.id = s.queue_id
    LEFT JOIN sessions_app_retrysettings o ON o.project_id = s.project_id
    LEFT JOIN sessions_app_session f ON f.id = s.parent_id
    LEFT JOIN sessions_app_priorityclass k ON k.value = {_CLASS}
    WHERE s.id = ANY({FEW_IDS})
"""


class Handover(NamedTuple):
    """The leases in full, and the reasons why some sessions cannot be handed over."""

    leases: list[LeasedSession]
    withheld: dict[UUID, str]


TOO_OLD = "its executor's agent is too old to give it its secret_environ: update the agent"


def leased_sessions(
    claimed: Sequence[Claimed],
    tokens: Mapping[UUID, int],
    node_labels: Mapping[str, dict[str, str]],
    *,
    secrets: bool,
) -> Handover:
    """Return the leases of claimed sessions in full, in their order.

    `node_labels` are those of the node templates, by name. Sessions with secrets are withheld if
    the agent cannot pass them to runs (`secrets` is false), or if they cannot be decrypted.
    """
    handed = Handover([], {})
    if not claimed:
        return handed
    with connection.cursor() as cursor:
        cursor.execute(_READ, [array(tokens)])
        rows = {row[0]: _Row._make(row) for row in cursor.fetchall()}
    for place in claimed:
        row = rows[place.id]
        if row.secret_environ is not None and not secrets:
            handed.withheld[row.id] = TOO_OLD
            continue
        labels = node_labels.get(place.template, {})
        try:
            handed.leases.append(_leased(row, tokens[row.id], place, labels))
        except SecretUnreadable as error:
            handed.withheld[row.id] = str(error)
    return handed


def _leased(row: _Row, token: int, place: Claimed, node_labels: dict[str, str]) -> LeasedSession:
    # No validation: the values come from our own tables and were checked when written.
    short = len(row.spec) <= SHORT_SPEC
    return LeasedSession(
        session_id=row.id,
        fencing_token=token,
        attempt=row.attempt,
        project=row.project,
        queue=row.queue,
        priority_class=row.priority_class or DEFAULT_CLASS,
        environ=_environment(row),
        secret_environ=environ_read(row.secret_environ),
        avoid_node=place.avoided,
        avoid_nodes=place.left_out,
        nodes=place.nodes,
        node_labels=node_labels,
        pod_defaults=_pod_defaults(row) if row.pod_defaults else {},
        spec=(_short_spec if short else _spec)(row.name, row.spec),
    )


def _pod_defaults(row: _Row) -> dict[str, Any]:
    defaults: dict[str, Any] = json.loads(row.pod_defaults)
    if row.secret_environ is None:
        return defaults
    # By labels and annotations injectors put containers into pods. Who sets them for a project must
    # not choose what runs beside the secrets of others.
    return {"spec": {name: each for name, each in spec_of(defaults).items() if name != "metadata"}}


def _spec(name: str, text: str) -> LeasedSpec:
    return LeasedSpec.model_construct(name=name, **json.loads(text))


_short_spec = lru_cache(maxsize=256)(_spec)


def _environment(row: _Row) -> dict[str, str]:
    """Return the variables that tell an attempt who it is, how the previous one ended, how what it
    waited for ended, and where it may go on."""
    exit_code = row.previous_exit_code
    waited_for = json.loads(row.dependencies) if row.dependencies else []
    before = json.loads(row.chain_progress) if row.chain_progress else {}
    return {
        "REPRISE_SESSION_ID": str(row.id),
        "REPRISE_ROOT_SESSION_ID": str(row.root_id),
        "REPRISE_PARENT_SESSION_ID": str(row.parent_id) if row.parent_id else "",
        "REPRISE_ATTEMPT": str(row.attempt),
        "REPRISE_PREVIOUS_CAUSE": row.previous_cause or "",
        "REPRISE_PREVIOUS_EXIT_CODE": "" if exit_code is None else str(exit_code),
        "REPRISE_CHECKPOINT": before.get("checkpoint", ""),
        "REPRISE_STEP": str(in_short(before.get("step", ""))),
        "REPRISE_PROJECT": row.project,
        "REPRISE_QUEUE": row.queue,
        "REPRISE_JOB_SET": row.job_set,
        **variables(waited_for),
    }
