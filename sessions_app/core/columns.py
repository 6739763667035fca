"""The columns of sessions and of what they run: what each holds, and what becomes of it. Pure.

Statements that read or write them are made of these tables, once, when they are imported. A test
holds the tables against the models.
"""

from dataclasses import dataclass

from sessions_app.core.states import Phase, RetryState, Status

NULL = "NULL"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of sessions."""

    type: str
    """Of its values, without lengths: a cast would cut what is too long, the column refuses it."""
    born: str | None = None
    """What every attempt begins with, in SQL. None: the first attempt is given it, retries have
    what their parent has."""
    changes: bool = False
    """Whether a `Change` may set it."""
    fact: bool = False
    """Whether events tell of it, so that they give it again; times as ISO 8601 text in UTC."""


SESSION = {
    "id": Column("uuid"),
    "spec_id": Column("uuid"),
    "project_id": Column("bigint"),
    "queue_id": Column("bigint"),
    "owner_id": Column("int"),
    "name": Column("text"),
    "job_set": Column("text"),
    "creation_id": Column("text"),
    "session_type": Column("text"),
    # No fact: its event tells the part that people give (decision 0059).
    "priority": Column("int", changes=True),
    "status": Column("text", f"'{Status.PENDING}'", changes=True, fact=True),
    "phase": Column("text", f"'{Phase.WAITING}'", changes=True),
    "status_message": Column("text", "''", changes=True, fact=True),
    "created_at": Column("timestamptz"),
    "scheduled_at": Column("timestamptz", NULL, changes=True, fact=True),
    "accepted_at": Column("timestamptz", NULL, changes=True, fact=True),
    "started_at": Column("timestamptz", NULL, changes=True, fact=True),
    "terminating_at": Column("timestamptz", NULL, changes=True, fact=True),
    "finished_at": Column("timestamptz", NULL, changes=True, fact=True),
    "exit_code": Column("int", NULL, changes=True, fact=True),
    "node": Column("text", "''", changes=True, fact=True),
    "executor": Column("text", "''", changes=True, fact=True),
    "parent_id": Column("uuid", NULL),
    "root_id": Column("uuid"),
    "root_submitted_at": Column("timestamptz"),
    "tip": Column("boolean", "true", changes=True),
    "retry_count": Column("int", "0"),
    "max_retries": Column("int"),
    "retry_policy": Column("jsonb"),
    "retry_policies": Column("jsonb"),
    "retry_counters": Column("jsonb", "'{}'", fact=True),
    "changes": Column("jsonb", NULL),
    "progress": Column("jsonb", NULL, changes=True, fact=True),
    "chain_progress": Column("jsonb", NULL),
    "retry_marks": Column("jsonb", NULL),
    "retry_cause": Column("text", "''", changes=True, fact=True),
    "failure_category": Column("text", "''", changes=True, fact=True),
    "failure_signature": Column("text", "''", changes=True, fact=True),
    "failure_title": Column("text", "''", changes=True),
    "retry_state": Column("text", f"'{RetryState.NONE}'", changes=True, fact=True),
    "resting": Column("text", "''", changes=True),
    "cancel_requested_at": Column("timestamptz", NULL, changes=True),
    "preempt_requested_at": Column("timestamptz", NULL, changes=True, fact=True),
    "gave_way_to": Column("uuid", NULL, changes=True),
    "start_failure": Column("jsonb", NULL, changes=True),
    "scheduling_key": Column("bigint", NULL, changes=True),
    "avoid_node": Column("text", "''"),
    "avoid_executors": Column("jsonb", "'[]'", changes=True),
    "lease_returns": Column("smallint", "0", changes=True),
    "placement_refusals": Column("smallint", NULL, changes=True),
    "wait_deadline": Column("timestamptz", NULL, changes=True),
    "fencing_token": Column("bigint", NULL, changes=True),
    "report_seq": Column("int", "0", changes=True),
    # The first event is written with the row.
    "event_seq": Column("int", "1", changes=True),
}

SPEC = {
    "id": "uuid",
    "image": "text",
    "command": "jsonb",
    "environ": "jsonb",
    "resources": "jsonb",
    "mounts": "jsonb",
    "ports": "jsonb",
    "labels": "jsonb",
    "pod_spec": "jsonb",
    "cluster_size": "int",
    "batch_timeout": "float8",
    "scheduling_timeout": "float8",
    "queue_timeout": "float8",
    "termination_grace_period": "float8",
    "request_digest": "text",
    "secret_names": "jsonb",
    "secret_environ": "text",
    "secrets_by": "int",
    "on_dependency_failure": "text",
    "executor_labels": "jsonb",
}
"""The columns of specifications, with the types of their values. Nothing ever changes them."""
