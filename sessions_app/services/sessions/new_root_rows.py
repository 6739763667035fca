"""The rows of new roots: session, specification and first event, in the same few statements."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection

from retry.policies.limits import stored_number
from sessions_app import wakeups
from sessions_app.core.columns import NULL, SESSION, SPEC
from sessions_app.core.priorities import folded
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase
from sessions_app.core.time_limits import LIMITED
from sessions_app.db.bulk import SentRows, from_array, inserted
from sessions_app.db.writes import Writes
from sessions_app.services.chains.children import submitted_facts
from sessions_app.services.secrets.stored import environ_stored
from sessions_app.services.sessions.dependencies import dependencies_told
from sessions_app.services.sessions.new_roots import NewRoot
from sessions_app.services.write.transitions import EventRow, events_append
from sessions_app.services.write.usage import Move, usage_note

_Source = Callable[[NewRoot], Any]


def _asked(name: str) -> _Source:
    return lambda root: root.placed.submission.spec[name]


def _time(name: str) -> _Source:
    return lambda root: root.times[name]


# Where the values of columns come from.
_SPEC_GIVEN: dict[str, _Source] = {name: _asked(name) for name in SPEC} | {
    "id": lambda root: root.spec_id,
    "request_digest": lambda root: root.digest,
    "secret_names": lambda root: sorted(root.placed.submission.secrets) or None,
    "secret_environ": lambda root: environ_stored(root.placed.submission.secrets),
    "secrets_by": lambda _: None,
    "on_dependency_failure": lambda root: (
        root.placed.submission.on_dependency_failure if root.depends_on else None
    ),
    "executor_labels": lambda _: None,
    **{name: _time(name) for name in LIMITED},
}
# Of the specification, for the key and the deadline.
_KEYED = ("resources", "pod_spec", "cluster_size", "queue_timeout")
_GIVEN: dict[str, _Source] = {
    "id": lambda root: root.id,
    "spec_id": lambda root: root.spec_id,
    "project_id": lambda root: root.project_id,
    "queue_id": lambda root: root.placed.queue.pk,
    "owner_id": lambda root: root.placed.owner_id,
    "name": lambda root: root.placed.submission.name,
    "job_set": lambda root: root.job_set,
    "creation_id": lambda root: root.creation_id,
    "session_type": lambda root: root.placed.submission.session_type,
    "priority": lambda root: folded(root.rank, root.placed.submission.priority),
    "phase": lambda root: root.phase,
    "max_retries": lambda root: stored_number(root.policy.max_retries),
    "retry_policy": lambda root: root.policy_text,
    "retry_policies": lambda root: root.policies,
    **{name: _SPEC_GIVEN[name] for name in _KEYED},
}
# The policy is text already: many sessions share it.
_TYPES = {name: SESSION[name].type for name in _GIVEN if name not in _KEYED}
_TYPES |= {name: SPEC[name] for name in _KEYED} | {"retry_policy": "text"}
_ROOTS = SentRows[[NewRoot]](
    *((name, _TYPES[name], source) for name, source in _GIVEN.items()), numbered="position"
)
_SPECS = SentRows[[NewRoot]](
    *((name, kind, _SPEC_GIVEN[name]) for name, kind in SPEC.items()),
)
_BORN = {
    name: column.born or from_array(name, column.type)
    for name, column in SESSION.items()
    if column.born != NULL
}
_BORN |= {
    "phase": "v.phase",
    "created_at": "now.at",
    "root_id": "v.id",
    "root_submitted_at": "now.at",
    "wait_deadline": f"""CASE v.phase WHEN '{Phase.WAITING}'
        THEN now.at + make_interval(secs => v.queue_timeout) END""",
    "scheduling_key": scheduling_key_sql(
        resources="v.resources::jsonb",
        pods="v.cluster_size",
        pod_spec="v.pod_spec::jsonb",
        retry="false",
    ),
}
_INSERT = f"""
    {inserted("sessions_app_session", _BORN)}
    FROM {_ROOTS}, (SELECT statement_timestamp()) AS now(at)
    ORDER BY v.project_id, v.creation_id, v.position
    ON CONFLICT (project_id, creation_id) DO NOTHING
    RETURNING id, created_at
"""
"""Ordered, so that two submissions of the same ids wait for each other in the same order."""

_INSERT_SPECS = _SPECS.inserted("sessions_app_sessionspec")


def roots_insert(writes: Writes, roots: Sequence[NewRoot], limited: set[int]) -> None:
    """Insert roots whose `creation_id` is new, with their specification and first event.

    Sessions of `limited` projects are counted, up to the quotas.
    """
    if not roots:
        return
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, _ROOTS.arrays(roots))
        created = dict(cursor.fetchall())
    for root in roots:
        root.inserted = root.id in created
    new = [root for root in roots if root.inserted]
    if not new:
        return
    now = created[new[0].id]  # one statement created them all
    _insert_specs(new)
    facts = submitted_facts({})
    events = [EventRow(root, 1, "session.submitted", _told(root, facts)) for root in new]
    events_append(writes, events, now=now)
    counted = [root for root in new if root.project_id in limited]
    moves = [Move(root.id, root.project_id, None, Phase.WAITING, guarded=True) for root in counted]
    usage_note(writes, moves)
    wakeups.work_after_commit()


def _told(root: NewRoot, facts: dict[str, object]) -> dict[str, object]:
    """Return the facts of its first event."""
    schedule = root.placed.submission.schedule
    if root.depends_on:
        facts = {**facts, "depends_on": dependencies_told(root.depends_on)}
    return {**facts, "schedule": schedule} if schedule else facts


def _insert_specs(roots: Sequence[NewRoot]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_SPECS, _SPECS.arrays(roots))
