"""The tables of tenants, sessions, retries, and what is learned from them."""

import uuid

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import OpClass
from django.db import migrations
from django.db.migrations import CreateModel, RunSQL, swappable_dependency
from django.db.models import (
    CASCADE,
    DO_NOTHING,
    PROTECT,
    SET_NULL,
    BigAutoField,
    BigIntegerField,
    BinaryField,
    BooleanField,
    CharField,
    CheckConstraint,
    DateField,
    DateTimeField,
    DecimalField,
    F,
    FloatField,
    ForeignKey,
    Index,
    IntegerField,
    JSONField,
    OneToOneField,
    OrderBy,
    PositiveIntegerField,
    PositiveSmallIntegerField,
    Q,
    SmallIntegerField,
    TextField,
    UniqueConstraint,
    UUIDField,
)
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Left
from django.utils import timezone
from uuid_utils import compat

from retry.engine.decision import Mode
from sessions_app.core.states import Phase, RetryState, Status
from sessions_app.db.initial_tables import NOTE_INITIAL_TABLES
from sessions_app.migrations._triggers import audited, audited_by, changed, followed, sql_file
from sessions_app.models.events import TransactionIdField

SCOPE = ("domain_id", "project_id")
# Every cluster has the class of what names none; nobody audits that it is there.
DEFAULT_CLASS = """
    INSERT INTO sessions_app_priorityclass (name, value, preemptible, may_preempt,
        protected_for, domains, projects, created_at, updated_at)
    VALUES ('default', 0, true, false, 0, '[]', '[]', now(), now())
"""

ID = BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    initial = True
    dependencies = [swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        RunSQL(NOTE_INITIAL_TABLES),
        sql_file("epoch.sql"),
        CreateModel(
            "AuditLog",
            [
                ("time", DateTimeField(default=timezone.now)),
                ("actor", CharField(max_length=150)),
                ("door", CharField(blank=True, db_default="", default="", max_length=16)),
                ("via", JSONField(blank=True, db_default={}, default=dict)),
                ("action", CharField(max_length=64)),
                ("object_type", CharField(max_length=32)),
                ("object_id", CharField(max_length=200)),
                ("project", CharField(blank=True, max_length=128)),
                ("domain", CharField(blank=True, db_default="", default="", max_length=63)),
                ("root", UUIDField(null=True)),
                ("data", JSONField(default=dict)),
                ("id", BigIntegerField(primary_key=True, serialize=False)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "db_table": "sessions_app_auditlog",
                "managed": False,
            },
        ),
        CreateModel(
            "ConfigVersion",
            [
                ("id", SmallIntegerField(primary_key=True, serialize=False)),
                ("version", UUIDField()),
            ],
        ),
        CreateModel(
            "FailureCategory",
            [
                ("id", ID),
                ("name", CharField(max_length=63, unique=True)),
                ("position", IntegerField()),
                ("matchers", JSONField()),
                ("created_at", DateTimeField(default=timezone.now)),
                ("updated_at", DateTimeField(default=timezone.now)),
            ],
            options={"verbose_name_plural": "failure categories"},
        ),
        CreateModel(
            "FailureReader",
            [
                ("id", ID),
                ("epoch", BigIntegerField(null=True)),
                ("xid", TransactionIdField(null=True)),
                ("event_id", BigIntegerField(null=True)),
                ("first_day", DateField(null=True)),
                ("summed_until", DateTimeField(null=True)),
            ],
        ),
        CreateModel(
            "Domain",
            [
                ("id", ID),
                ("name", CharField(max_length=63, unique=True)),
                ("created_at", DateTimeField(default=timezone.now)),
            ],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(name__regex="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="domain_name_label",
                    )
                ]
            },
        ),
        CreateModel(
            "Project",
            [
                ("id", ID),
                ("name", CharField(max_length=63)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("domain", ForeignKey("sessions_app.domain", PROTECT, related_name="projects")),
            ],
            options={
                "constraints": [
                    UniqueConstraint("domain", "name", name="project_name_unique"),
                    CheckConstraint(
                        condition=Q(name__regex="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="project_name_label",
                    ),
                ]
            },
        ),
        CreateModel(
            "RequestBudget",
            [
                ("key", BigIntegerField(primary_key=True, serialize=False)),
                ("available", FloatField()),
                ("granted", FloatField()),
                ("refilled_at", DateTimeField()),
            ],
        ),
        CreateModel(
            "RetryBudgetState",
            [
                ("id", ID),
                ("scope", CharField(max_length=40, unique=True)),
                ("spent_since", DateTimeField(null=True)),
                ("judged_at", DateTimeField()),
                ("spent_times", PositiveIntegerField(default=0)),
            ],
        ),
        CreateModel(
            "Queue",
            [
                ("id", ID),
                ("name", CharField(max_length=63)),
                ("is_default", BooleanField(default=False)),
                ("priority_factor", FloatField(default=1.0)),
                ("cordoned", BooleanField(default=False)),
                ("cordon_reason", CharField(blank=True, max_length=256)),
                ("resource_limits", JSONField(blank=True, db_default={}, default=dict)),
                ("time_limits", JSONField(blank=True, db_default={}, default=dict)),
                ("retry_policies", JSONField(blank=True, db_default=[], default=list)),
                ("breaker", JSONField(blank=True, null=True)),
                ("retry_budget", JSONField(blank=True, null=True)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("project", ForeignKey("sessions_app.project", PROTECT, related_name="queues")),
            ],
            options={
                "indexes": [
                    Index(
                        "project",
                        condition=Q(retry_budget__isnull=False),
                        name="queue_with_retry_budget",
                    )
                ],
                "constraints": [
                    UniqueConstraint("project", "name", name="queue_name_unique"),
                    UniqueConstraint(
                        "project", condition=Q(is_default=True), name="queue_one_default"
                    ),
                    CheckConstraint(
                        condition=Q(name__regex="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="queue_name_label",
                    ),
                    CheckConstraint(
                        condition=Q(priority_factor__gt=0), name="queue_factor_positive"
                    ),
                ],
            },
        ),
        CreateModel(
            "SessionSpec",
            [
                ("id", UUIDField(primary_key=True, serialize=False)),
                ("image", CharField(blank=True, max_length=512)),
                ("command", JSONField(default=list)),
                ("environ", JSONField(default=dict)),
                ("resources", JSONField(default=dict)),
                ("mounts", JSONField(default=list)),
                ("ports", JSONField(default=list)),
                ("labels", JSONField(default=dict)),
                ("pod_spec", JSONField(null=True)),
                ("cluster_size", PositiveIntegerField(default=1)),
                ("batch_timeout", FloatField(null=True)),
                ("scheduling_timeout", FloatField(null=True)),
                ("queue_timeout", FloatField(null=True)),
                ("termination_grace_period", FloatField(default=30.0)),
                ("request_digest", CharField(max_length=64)),
                ("secret_names", JSONField(null=True)),
                ("secret_environ", TextField(null=True)),
                ("secrets_by", IntegerField(null=True)),
                (
                    "on_dependency_failure",
                    CharField(
                        choices=[
                            ("cancel", "it is cancelled"),
                            ("run", "it runs once all its dependencies have ended"),
                        ],
                        max_length=8,
                        null=True,
                    ),
                ),
                ("executor_labels", JSONField(null=True)),
            ],
            options={
                "indexes": [
                    Index(
                        Left("secret_environ", 8),
                        condition=Q(secret_environ__isnull=False),
                        name="spec_secrets",
                    )
                ]
            },
        ),
        CreateModel(
            "Session",
            [
                ("id", UUIDField(primary_key=True, serialize=False)),
                ("name", CharField(blank=True, max_length=128)),
                ("job_set", CharField(blank=True, max_length=128)),
                ("creation_id", CharField(max_length=255)),
                (
                    "session_type",
                    CharField(
                        choices=[
                            ("batch", "Batch"),
                            ("interactive", "Interactive"),
                            ("inference", "Inference"),
                        ],
                        max_length=12,
                    ),
                ),
                ("stored_priority", IntegerField(db_column="priority", default=0)),
                (
                    "status",
                    CharField(
                        choices=[
                            ("PENDING", "PENDING"),
                            ("SCHEDULED", "SCHEDULED"),
                            ("PREPARING", "PREPARING"),
                            ("PULLING", "PULLING"),
                            ("PREPARED", "PREPARED"),
                            ("CREATING", "CREATING"),
                            ("RUNNING", "RUNNING"),
                            ("TERMINATING", "TERMINATING"),
                            ("TERMINATED", "TERMINATED"),
                            ("ERROR", "ERROR"),
                            ("CANCELLED", "CANCELLED"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "phase",
                    CharField(
                        choices=[
                            ("blocked", "blocked"),
                            ("waiting", "waiting"),
                            ("live", "live"),
                            ("final", "final"),
                        ],
                        max_length=8,
                    ),
                ),
                ("status_message", CharField(blank=True, max_length=1024)),
                ("created_at", DateTimeField()),
                ("scheduled_at", DateTimeField(null=True)),
                ("accepted_at", DateTimeField(null=True)),
                ("started_at", DateTimeField(null=True)),
                ("terminating_at", DateTimeField(null=True)),
                ("finished_at", DateTimeField(null=True)),
                ("exit_code", IntegerField(null=True)),
                ("node", CharField(blank=True, max_length=253)),
                ("executor", CharField(blank=True, max_length=63)),
                ("root_submitted_at", DateTimeField()),
                ("tip", BooleanField(default=True)),
                ("retry_count", PositiveIntegerField(default=0)),
                ("max_retries", PositiveIntegerField(default=0)),
                ("retry_policy", JSONField(default=dict)),
                ("retry_policies", JSONField(default=list)),
                ("retry_counters", JSONField(default=dict)),
                ("changes", JSONField(null=True)),
                ("progress", JSONField(null=True)),
                ("chain_progress", JSONField(null=True)),
                ("retry_marks", JSONField(null=True)),
                ("retry_cause", CharField(blank=True, max_length=32)),
                ("failure_category", CharField(blank=True, max_length=63)),
                ("failure_signature", CharField(blank=True, db_default="", max_length=12)),
                ("failure_title", CharField(blank=True, db_default="", default="", max_length=200)),
                (
                    "retry_state",
                    CharField(
                        choices=[
                            ("none", "none"),
                            ("scheduled", "scheduled"),
                            ("held", "held"),
                            ("parked", "parked"),
                            ("retried", "retried"),
                            ("succeeded", "succeeded"),
                            ("exhausted", "exhausted"),
                            ("not_retried", "not_retried"),
                            ("cancelled", "cancelled"),
                        ],
                        default=RetryState["NONE"],
                        max_length=12,
                    ),
                ),
                ("resting", CharField(db_default="", default="", max_length=12)),
                ("cancel_requested_at", DateTimeField(null=True)),
                ("preempt_requested_at", DateTimeField(null=True)),
                ("gave_way_to", UUIDField(null=True)),
                ("start_failure", JSONField(null=True)),
                ("scheduling_key", BigIntegerField(null=True)),
                ("avoid_node", CharField(blank=True, max_length=253)),
                ("avoid_executors", JSONField(default=list)),
                ("lease_returns", PositiveSmallIntegerField(default=0)),
                ("placement_refusals", PositiveSmallIntegerField(null=True)),
                ("wait_deadline", DateTimeField(null=True)),
                ("fencing_token", BigIntegerField(null=True)),
                ("report_seq", IntegerField(default=0)),
                ("event_seq", IntegerField(default=0)),
                (
                    "owner",
                    ForeignKey(
                        settings.AUTH_USER_MODEL,
                        SET_NULL,
                        db_index=False,
                        null=True,
                        related_name="reprise_sessions",
                    ),
                ),
                (
                    "parent",
                    ForeignKey(
                        "sessions_app.session",
                        PROTECT,
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        related_name="children",
                    ),
                ),
                (
                    "project",
                    ForeignKey(
                        "sessions_app.project", PROTECT, db_index=False, related_name="sessions"
                    ),
                ),
                (
                    "queue",
                    ForeignKey(
                        "sessions_app.queue", PROTECT, db_index=False, related_name="sessions"
                    ),
                ),
                (
                    "root",
                    ForeignKey(
                        "sessions_app.session", PROTECT, db_index=False, related_name="chain"
                    ),
                ),
                (
                    "spec",
                    ForeignKey(
                        "sessions_app.sessionspec",
                        PROTECT,
                        db_constraint=False,
                        db_index=False,
                        related_name="sessions",
                    ),
                ),
            ],
            options={
                "indexes": [
                    Index(
                        "queue",
                        "scheduling_key",
                        F("stored_priority").desc(),
                        "root_submitted_at",
                        "root",
                        condition=Q(phase=Phase["WAITING"]),
                        name="session_in_line",
                    ),
                    Index(
                        "id",
                        condition=Q(phase=Phase["WAITING"], scheduling_key__isnull=True),
                        name="session_without_key",
                    ),
                    Index(
                        "project",
                        "executor",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(("phase", Phase["FINAL"]), Q(("executor", ""), _negated=True)),
                        name="session_executor_ended",
                    ),
                    Index("queue", OrderBy(F("id"), nulls_first=True), name="session_by_queue"),
                    Index(
                        "project",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(phase=Phase["FINAL"], resting=""),
                        name="session_unrested",
                    ),
                    Index(
                        "project",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(phase=Phase["WAITING"]),
                        name="session_waiting",
                    ),
                    Index(
                        "project",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(phase=Phase["BLOCKED"]),
                        name="session_blocked",
                    ),
                    Index(
                        "project",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(phase=Phase["LIVE"]),
                        name="session_live",
                    ),
                    Index(
                        "project",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(
                            ("phase", Phase["FINAL"]),
                            Q(("retry_cause__in", ["", "user_cancelled"]), _negated=True),
                        ),
                        name="session_failures",
                    ),
                    Index(
                        "owner",
                        "project",
                        OrderBy(F("id"), nulls_first=True),
                        name="session_by_owner",
                    ),
                    Index(
                        "project",
                        "job_set",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(("job_set", ""), _negated=True),
                        name="session_by_job_set",
                    ),
                    Index(
                        "project",
                        "session_type",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(("session_type", "batch"), _negated=True),
                        name="session_by_type",
                    ),
                    Index(
                        "project",
                        "retry_cause",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(phase=Phase["FINAL"]),
                        name="session_by_cause",
                    ),
                    Index(
                        "project",
                        "failure_category",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(("failure_category", ""), _negated=True),
                        name="session_by_category",
                    ),
                    Index(
                        "project",
                        "failure_signature",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(("failure_signature", ""), _negated=True),
                        name="session_signature",
                    ),
                    Index(
                        "project",
                        "resting",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(
                            Q(("resting", ""), _negated=True),
                            Q(
                                ("resting", RetryState["SUCCEEDED"]),
                                ("retry_cause", ""),
                                _negated=True,
                            ),
                        ),
                        name="session_rests",
                    ),
                    Index(
                        "project",
                        "exit_code",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(
                            ("exit_code__isnull", False),
                            Q(("exit_code", 0), ("retry_cause", ""), _negated=True),
                        ),
                        name="session_exits",
                    ),
                    Index(
                        "project",
                        "node",
                        OrderBy(F("id"), nulls_first=True),
                        condition=Q(("node", ""), _negated=True),
                        name="session_by_node",
                    ),
                    Index(
                        "project",
                        OpClass("name", "varchar_pattern_ops"),
                        condition=Q(("name", ""), _negated=True),
                        name="session_name",
                    ),
                    Index(
                        "project",
                        "id",
                        condition=Q(resting=RetryState["HELD"]),
                        name="session_on_hold",
                    ),
                    Index(
                        "finished_at",
                        condition=Q(
                            resting__in=["succeeded", "exhausted", "not_retried", "cancelled"]
                        ),
                        name="session_chain_ended",
                    ),
                    Index(
                        "wait_deadline",
                        condition=Q(phase=Phase["WAITING"], wait_deadline__isnull=False),
                        name="session_wait_deadline",
                    ),
                ],
                "constraints": [
                    UniqueConstraint("project", "creation_id", name="session_creation_id_unique"),
                    UniqueConstraint("root", "retry_count", name="session_attempt_unique"),
                    UniqueConstraint(
                        "root",
                        condition=Q(phase__in=(Phase["BLOCKED"], Phase["WAITING"], Phase["LIVE"])),
                        name="session_one_unfinished",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(
                                phase__in=[Phase["BLOCKED"], Phase["WAITING"]],
                                status=Status["PENDING"],
                            ),
                            Q(
                                phase=Phase["LIVE"],
                                status__in=(
                                    Status["SCHEDULED"],
                                    Status["PREPARING"],
                                    Status["PULLING"],
                                    Status["PREPARED"],
                                    Status["CREATING"],
                                    Status["RUNNING"],
                                    Status["TERMINATING"],
                                ),
                            ),
                            Q(
                                phase=Phase["FINAL"],
                                status__in=[
                                    Status["CANCELLED"],
                                    Status["ERROR"],
                                    Status["TERMINATED"],
                                ],
                            ),
                            _connector="OR",
                        ),
                        name="session_phase_of_status",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(finished_at__isnull=False, phase=Phase["FINAL"]),
                            Q(
                                Q(("phase", Phase["FINAL"]), _negated=True),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="session_finished_when_final",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(parent__isnull=True, retry_count=0, root=F("id")),
                            Q(parent__isnull=False, retry_count__gt=0),
                            _connector="OR",
                        ),
                        name="session_root_has_no_parent",
                    ),
                ],
            },
        ),
        CreateModel(
            "WebhookReader",
            [
                ("id", ID),
                ("epoch", BigIntegerField(null=True)),
                ("xid", TransactionIdField(null=True)),
                ("event_id", BigIntegerField(null=True)),
            ],
        ),
        CreateModel(
            "WebhookSender",
            [
                ("number", SmallIntegerField(primary_key=True, serialize=False)),
                ("token", UUIDField()),
                ("until", DateTimeField()),
            ],
        ),
        CreateModel(
            "AuditEntry",
            [
                ("time", DateTimeField(default=timezone.now)),
                ("actor", CharField(max_length=150)),
                ("door", CharField(blank=True, db_default="", default="", max_length=16)),
                ("via", JSONField(blank=True, db_default={}, default=dict)),
                ("action", CharField(max_length=64)),
                ("object_type", CharField(max_length=32)),
                ("object_id", CharField(max_length=200)),
                ("project", CharField(blank=True, max_length=128)),
                ("domain", CharField(blank=True, db_default="", default="", max_length=63)),
                ("root", UUIDField(null=True)),
                ("data", JSONField(default=dict)),
                ("id", BigAutoField(primary_key=True, serialize=False)),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "indexes": [
                    Index("object_type", "object_id", "id", name="audit_object"),
                    Index("time", "id", name="audit_newest"),
                    Index(
                        "time",
                        "id",
                        condition=Q(("actor", "reprise"), _negated=True),
                        name="audit_of_people",
                    ),
                    Index("project", "time", "id", name="audit_project"),
                    Index("domain", "time", "id", name="audit_domain"),
                    Index(
                        "project",
                        "time",
                        "id",
                        condition=Q(("actor", "reprise"), _negated=True),
                        name="audit_project_people",
                    ),
                    Index(
                        "domain",
                        "time",
                        "id",
                        condition=Q(("actor", "reprise"), _negated=True),
                        name="audit_domain_people",
                    ),
                    Index(
                        "actor",
                        "time",
                        "id",
                        condition=Q(("actor", "reprise"), _negated=True),
                        name="audit_actor",
                    ),
                    Index(
                        "door",
                        "time",
                        "id",
                        condition=Q(("actor", "reprise"), _negated=True),
                        name="audit_door",
                    ),
                    Index(
                        "action",
                        "time",
                        "id",
                        condition=Q(("action", "retry.dispatch"), _negated=True),
                        name="audit_action",
                    ),
                    Index(
                        "object_type",
                        "time",
                        "id",
                        condition=Q(("object_type", "session"), _negated=True),
                        name="audit_type",
                    ),
                    Index("root", condition=Q(root__isnull=False), name="audit_chain"),
                ],
            },
        ),
        CreateModel(
            "AutomaticDispatch",
            [
                ("id", BigIntegerField(primary_key=True, serialize=False)),
                ("time", DateTimeField()),
                ("via", JSONField(default=dict)),
                ("object_id", CharField(max_length=200)),
                ("project", CharField(max_length=128)),
                ("domain", CharField(max_length=63)),
                ("root", UUIDField(null=True)),
                ("data", JSONField(default=dict)),
            ],
            options={
                "verbose_name": "automatic dispatch",
                "verbose_name_plural": "automatic dispatches",
                "indexes": [
                    Index("time", "id", name="dispatch_newest"),
                    Index("project", "time", "id", name="dispatch_project"),
                    Index("domain", "time", "id", name="dispatch_domain"),
                    Index("object_id", name="dispatch_object"),
                    Index("root", name="dispatch_chain"),
                ],
            },
        ),
        CreateModel(
            "BreakerFailure",
            [
                ("id", ID),
                ("signature", CharField(max_length=12)),
                ("root_id", UUIDField()),
                ("project_id", BigIntegerField()),
                ("queue_id", BigIntegerField()),
                ("failed_at", DateTimeField()),
            ],
            options={
                "indexes": [Index("failed_at", name="breaker_failure_old")],
                "constraints": [
                    UniqueConstraint("signature", "root_id", name="breaker_failure_unique")
                ],
            },
        ),
        CreateModel(
            "LogChunk",
            [
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("session_id", UUIDField()),
                ("offset", BigIntegerField()),
                ("data", BinaryField()),
            ],
            options={
                "constraints": [
                    UniqueConstraint("session_id", "offset", name="log_chunk_offset_unique")
                ]
            },
        ),
        CreateModel(
            "PreparedAction",
            [
                ("id", UUIDField(default=compat.uuid7, primary_key=True, serialize=False)),
                ("act", CharField(max_length=16)),
                ("given", JSONField(db_column="resources", default=dict)),
                ("query", TextField(blank=True)),
                ("ids", ArrayField(base_field=UUIDField(), size=None)),
                ("refused", JSONField(default=list)),
                ("changed", JSONField(default=list)),
                ("position", PositiveIntegerField(default=0)),
                ("done", PositiveIntegerField(default=0)),
                ("waiting", PositiveIntegerField(default=0)),
                ("created_at", DateTimeField()),
                ("expires_at", DateTimeField(db_index=True)),
                ("started_at", DateTimeField(null=True)),
                ("user", ForeignKey(settings.AUTH_USER_MODEL, CASCADE, related_name="+")),
            ],
        ),
        CreateModel(
            "PriorityClass",
            [
                ("id", ID),
                ("name", CharField(max_length=63, unique=True)),
                ("value", IntegerField(unique=True)),
                ("preemptible", BooleanField(default=True)),
                ("may_preempt", BooleanField(default=False)),
                ("protected_for", FloatField(default=0.0)),
                ("domains", JSONField(default=list)),
                ("projects", JSONField(default=list)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("updated_at", DateTimeField(default=timezone.now)),
            ],
            options={
                "verbose_name_plural": "priority classes",
                "constraints": [
                    CheckConstraint(
                        condition=Q(value__gte=-1000, value__lte=1000), name="priority_class_value"
                    ),
                    CheckConstraint(
                        condition=Q(protected_for__gte=0), name="priority_class_protection"
                    ),
                ],
            },
        ),
        CreateModel(
            "RetryAdvice",
            [
                (
                    "project",
                    OneToOneField(
                        "sessions_app.project",
                        CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                    ),
                ),
                ("computed_at", DateTimeField()),
                ("facts", JSONField()),
            ],
        ),
        CreateModel(
            "Membership",
            [
                ("id", ID),
                (
                    "role",
                    CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("member", "Member"),
                            ("maintainer", "Maintainer"),
                            ("domain_admin", "Domain Admin"),
                        ],
                        max_length=16,
                    ),
                ),
                ("domain", ForeignKey("sessions_app.domain", CASCADE, blank=True, null=True)),
                (
                    "user",
                    ForeignKey(
                        settings.AUTH_USER_MODEL, CASCADE, related_name="reprise_memberships"
                    ),
                ),
                ("project", ForeignKey("sessions_app.project", CASCADE, blank=True, null=True)),
            ],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(
                            Q(domain__isnull=False, project__isnull=True),
                            Q(domain__isnull=True, project__isnull=False),
                            _connector="OR",
                        ),
                        name="membership_one_scope",
                    ),
                    CheckConstraint(
                        condition=Q(
                            ("role__in", ["viewer", "member", "maintainer", "domain_admin"]),
                            Q(
                                Q(("role", "domain_admin"), _negated=True),
                                ("domain__isnull", False),
                                _connector="OR",
                            ),
                        ),
                        name="membership_role_fits_scope",
                    ),
                    UniqueConstraint(
                        "user", "domain", "project", name="membership_unique", nulls_distinct=False
                    ),
                ]
            },
        ),
        CreateModel(
            "FailureSignature",
            [
                ("id", ID),
                ("sessions", BigIntegerField(default=0)),
                ("chains", BigIntegerField(default=0)),
                ("recovered_chains", BigIntegerField(default=0)),
                ("lost_run_seconds", FloatField(default=0.0)),
                ("key", CharField(max_length=12)),
                ("title", CharField(blank=True, max_length=200)),
                ("cause", CharField(max_length=32)),
                ("exit_code", IntegerField(null=True)),
                ("first_seen", DateTimeField()),
                ("last_seen", DateTimeField()),
                ("example", UUIDField()),
                ("muted", BooleanField(default=False)),
                (
                    "project",
                    ForeignKey("sessions_app.project", CASCADE, db_index=False, related_name="+"),
                ),
            ],
            options={
                "verbose_name": "failure",
                "indexes": [
                    Index("last_seen", name="failure_last_seen"),
                    Index("key", condition=Q(muted=True), name="failure_muted"),
                ],
                "constraints": [
                    UniqueConstraint("project", "key", name="failure_signature_unique")
                ],
            },
        ),
        CreateModel(
            "FailureLedger",
            [
                ("id", ID),
                (
                    "dimension",
                    CharField(
                        blank=True,
                        choices=[
                            ("", "all"),
                            ("queue", "queue"),
                            ("image", "image"),
                            ("node", "node"),
                        ],
                        max_length=8,
                    ),
                ),
                ("value", CharField(blank=True, max_length=512)),
                ("key", CharField(blank=True, max_length=12)),
                ("names", ArrayField(base_field=CharField(max_length=512), size=None)),
                (
                    "project",
                    ForeignKey("sessions_app.project", CASCADE, db_index=False, related_name="+"),
                ),
            ],
            options={
                "indexes": [
                    Index("project", "dimension", "value", "key", "id", name="failure_ledger_of")
                ]
            },
        ),
        CreateModel(
            "FailureHour",
            [
                ("id", ID),
                ("sessions", BigIntegerField(default=0)),
                ("chains", BigIntegerField(default=0)),
                ("recovered_chains", BigIntegerField(default=0)),
                ("lost_run_seconds", FloatField(default=0.0)),
                (
                    "dimension",
                    CharField(
                        blank=True,
                        choices=[
                            ("", "all"),
                            ("queue", "queue"),
                            ("image", "image"),
                            ("node", "node"),
                        ],
                        max_length=8,
                    ),
                ),
                ("value", CharField(blank=True, max_length=512)),
                ("hour", DateTimeField()),
                ("key", CharField(max_length=12)),
                (
                    "project",
                    ForeignKey("sessions_app.project", CASCADE, db_index=False, related_name="+"),
                ),
            ],
            options={
                "indexes": [
                    Index("project", "key", "dimension", "hour", name="failure_hour_of_key"),
                    Index("hour", name="failure_hour_old"),
                ],
                "constraints": [
                    UniqueConstraint(
                        fields=("project", "dimension", "value", "hour", "key"),
                        name="failure_hour_unique",
                    )
                ],
            },
        ),
        CreateModel(
            "ApiToken",
            [
                ("id", ID),
                ("name", CharField(max_length=128)),
                ("prefix", CharField(max_length=16)),
                ("digest", CharField(max_length=64, unique=True)),
                ("executor_name", CharField(blank=True, max_length=63)),
                ("read_only", BooleanField(default=False)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("expires_at", DateTimeField(blank=True, null=True)),
                ("last_used_at", DateTimeField(blank=True, null=True)),
                ("made_with", CharField(blank=True, db_default="", default="", max_length=16)),
                ("budget", BigIntegerField(editable=False, null=True)),
                (
                    "user",
                    ForeignKey(
                        settings.AUTH_USER_MODEL,
                        CASCADE,
                        blank=True,
                        null=True,
                        related_name="api_tokens",
                    ),
                ),
                ("project", ForeignKey("sessions_app.project", CASCADE, blank=True, null=True)),
            ],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(
                            Q(executor_name="", user__isnull=False),
                            Q(("user__isnull", True), Q(("executor_name", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="token_one_bearer",
                    )
                ]
            },
        ),
        CreateModel(
            "ProjectUsage",
            [
                ("id", ID),
                ("name", CharField(max_length=140)),
                ("limit", DecimalField(decimal_places=9, max_digits=40, null=True)),
                ("used", DecimalField(decimal_places=9, default=0, max_digits=40)),
                (
                    "domain",
                    ForeignKey(
                        "sessions_app.domain",
                        CASCADE,
                        db_index=False,
                        null=True,
                        related_name="quotas",
                    ),
                ),
                (
                    "project",
                    ForeignKey(
                        "sessions_app.project",
                        CASCADE,
                        db_index=False,
                        null=True,
                        related_name="quotas",
                    ),
                ),
            ],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(
                            Q(domain__isnull=False, project__isnull=True),
                            Q(domain__isnull=True, project__isnull=False),
                            _connector="OR",
                        ),
                        name="usage_one_scope",
                    ),
                    UniqueConstraint("project", "name", name="usage_project_name_unique"),
                    UniqueConstraint("domain", "name", name="usage_domain_name_unique"),
                ]
            },
        ),
        CreateModel(
            "Breaker",
            [
                ("id", UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("scope", CharField(max_length=32)),
                ("signature", CharField(max_length=12)),
                (
                    "state",
                    CharField(choices=[("open", "open"), ("closed", "closed")], max_length=8),
                ),
                ("muted", BooleanField(default=False)),
                ("reason", CharField(blank=True, max_length=256)),
                ("chains", IntegerField(default=0)),
                ("opened_at", DateTimeField(default=timezone.now)),
                ("opened_by", CharField(blank=True, max_length=150)),
                ("closed_at", DateTimeField(null=True)),
                ("closed_by", CharField(blank=True, max_length=150)),
                ("probe_delay", FloatField(default=0.0)),
                ("probe_at", DateTimeField(null=True)),
                ("probe", UUIDField(null=True)),
                ("probe_since", DateTimeField(null=True)),
                ("probes", IntegerField(default=0)),
                ("projects", JSONField(default=list)),
                ("event_seq", IntegerField(default=0)),
                (
                    "project",
                    ForeignKey("sessions_app.project", CASCADE, null=True, related_name="+"),
                ),
                ("queue", ForeignKey("sessions_app.queue", CASCADE, null=True, related_name="+")),
            ],
            options={
                "indexes": [Index("project", condition=Q(state="open"), name="breaker_open")],
                "constraints": [UniqueConstraint("scope", "signature", name="breaker_one_a_scope")],
            },
        ),
        CreateModel(
            "RetryBudgetMinute",
            [
                ("id", ID),
                ("scope", CharField(max_length=40)),
                ("minute", DateTimeField()),
                ("first_attempts", PositiveIntegerField(default=0)),
                ("retries", PositiveIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    UniqueConstraint("scope", "minute", name="retry_budget_one_a_minute")
                ]
            },
        ),
        CreateModel(
            "RetryDay",
            [
                ("id", ID),
                (
                    "dimension",
                    CharField(
                        blank=True,
                        choices=[
                            ("", "all"),
                            ("cause", "cause"),
                            ("rule", "rule"),
                            ("policy", "policy"),
                            ("queue", "queue"),
                            ("owner", "owner"),
                            ("image", "image"),
                            ("node", "node"),
                            ("signature", "signature"),
                        ],
                        max_length=12,
                    ),
                ),
                ("value", CharField(blank=True, max_length=512)),
                ("day", DateField()),
                ("chains", BigIntegerField()),
                ("retried", BigIntegerField()),
                ("recovered", BigIntegerField()),
                ("given_up", BigIntegerField()),
                ("cancelled", BigIntegerField()),
                ("attempts", BigIntegerField()),
                ("run", FloatField()),
                ("rescued", FloatField()),
                ("wasted", FloatField()),
                ("waiting", FloatField()),
                ("recoveries", ArrayField(base_field=BigIntegerField(), size=None)),
                (
                    "project",
                    ForeignKey("sessions_app.project", CASCADE, db_index=False, related_name="+"),
                ),
            ],
            options={
                "indexes": [Index("day", name="retry_day_old")],
                "constraints": [
                    UniqueConstraint(
                        fields=("project", "dimension", "day", "value"), name="retry_day_unique"
                    )
                ],
            },
        ),
        CreateModel(
            "RetryDecision",
            [
                (
                    "session",
                    OneToOneField(
                        "sessions_app.session",
                        CASCADE,
                        primary_key=True,
                        related_name="decision",
                        serialize=False,
                    ),
                ),
                ("project_id", BigIntegerField(null=True)),
                (
                    "state",
                    CharField(
                        choices=[
                            ("scheduled", "scheduled"),
                            ("held", "held"),
                            ("dispatched", "dispatched"),
                            ("cancelled", "cancelled"),
                            ("final", "final"),
                        ],
                        max_length=12,
                    ),
                ),
                ("action", CharField(max_length=8)),
                ("reason", CharField(max_length=32)),
                ("cause", CharField(max_length=32)),
                ("rule", CharField(blank=True, max_length=130)),
                ("paid_by", CharField(blank=True, max_length=130)),
                ("used", IntegerField(null=True)),
                ("limit", IntegerField(null=True)),
                ("delay", FloatField(null=True)),
                ("due_at", DateTimeField(null=True)),
                ("avoid_node", CharField(blank=True, max_length=253)),
                ("avoid_executor", CharField(blank=True, max_length=63)),
                ("termination", JSONField(default=dict)),
                ("policy_revisions", JSONField(default=dict)),
                ("decided_at", DateTimeField()),
                ("next_session_id", UUIDField(null=True)),
                ("dispatched_at", DateTimeField(null=True)),
                ("dispatched_by", CharField(blank=True, max_length=150)),
                ("resources", JSONField(null=True)),
                ("paced", BooleanField(db_default=False, default=False)),
                ("preempted_at", DateTimeField(null=True)),
                ("requested_by", CharField(blank=True, db_default="", default="", max_length=150)),
                ("held_for", CharField(blank=True, db_default="", default="", max_length=16)),
                ("held_key", CharField(blank=True, db_default="", default="", max_length=130)),
                ("held_order", DateTimeField(null=True)),
                ("changes", JSONField(null=True)),
            ],
            options={
                "indexes": [
                    Index("due_at", "session", condition=Q(state="scheduled"), name="decision_due"),
                    Index(
                        "project_id",
                        OrderBy(F("session"), nulls_first=True),
                        condition=Q(state="scheduled"),
                        name="decision_scheduled",
                    ),
                    Index(
                        "due_at", condition=Q(paced=True, state="scheduled"), name="decision_paced"
                    ),
                    Index(
                        "project_id",
                        "session",
                        condition=Q(held_for="switch", state="held"),
                        name="decision_switched",
                    ),
                    Index(
                        "project_id",
                        "session",
                        condition=Q(
                            ("held_for", "switch"),
                            ("state", "held"),
                            Q(("requested_by", ""), _negated=True),
                        ),
                        name="decision_switched_by_hand",
                    ),
                    Index(
                        "due_at",
                        "session",
                        condition=Q(held_for="parked", state="held"),
                        name="decision_parked",
                    ),
                    Index(
                        "held_key",
                        "due_at",
                        "session",
                        condition=Q(held_for="breaker", state="held"),
                        name="decision_breaker",
                    ),
                    Index(
                        "held_key",
                        "held_order",
                        "session",
                        condition=Q(held_for="shared_budget", state="held"),
                        name="decision_over_budget",
                    ),
                    Index(
                        "session", condition=Q(changes__has_key="secrets"), name="decision_secrets"
                    ),
                ],
                "constraints": [
                    CheckConstraint(
                        condition=Q(
                            Q(("state", "scheduled"), _negated=True),
                            ("due_at__isnull", False),
                            _connector="OR",
                        ),
                        name="decision_scheduled_has_due",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(next_session_id__isnull=False, state="dispatched"),
                            Q(
                                Q(("state", "dispatched"), _negated=True),
                                ("next_session_id__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="decision_child_when_dispatched",
                    ),
                ],
            },
        ),
        CreateModel(
            "Dependency",
            [
                ("id", ID),
                ("on_root", UUIDField()),
                ("place", PositiveSmallIntegerField()),
                ("creation_id", CharField(max_length=255)),
                (
                    "wanted",
                    CharField(
                        choices=[
                            ("succeeded", "it succeeded"),
                            ("ended", "it ended, in whatever way"),
                            ("failed", "it failed"),
                        ],
                        default="succeeded",
                        max_length=9,
                    ),
                ),
                (
                    "outcome",
                    CharField(
                        blank=True,
                        choices=[
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="",
                        max_length=9,
                    ),
                ),
                ("met", BooleanField(null=True)),
                ("tip_id", UUIDField(null=True)),
                (
                    "status",
                    CharField(
                        choices=[
                            ("PENDING", "PENDING"),
                            ("SCHEDULED", "SCHEDULED"),
                            ("PREPARING", "PREPARING"),
                            ("PULLING", "PULLING"),
                            ("PREPARED", "PREPARED"),
                            ("CREATING", "CREATING"),
                            ("RUNNING", "RUNNING"),
                            ("TERMINATING", "TERMINATING"),
                            ("TERMINATED", "TERMINATED"),
                            ("ERROR", "ERROR"),
                            ("CANCELLED", "CANCELLED"),
                        ],
                        max_length=12,
                        null=True,
                    ),
                ),
                ("exit_code", IntegerField(null=True)),
                (
                    "root",
                    ForeignKey(
                        "sessions_app.session",
                        DO_NOTHING,
                        db_constraint=False,
                        db_index=False,
                        related_name="dependencies",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "dependencies",
                "indexes": [
                    Index("on_root", "root", condition=Q(outcome=""), name="dependency_open"),
                    Index("on_root", "root", name="dependency_of"),
                ],
                "constraints": [
                    UniqueConstraint("root", "on_root", name="dependency_unique"),
                    CheckConstraint(
                        condition=Q(
                            Q(met__isnull=True, outcome=""),
                            Q(Q(("outcome", ""), _negated=True), ("met__isnull", False)),
                            _connector="OR",
                        ),
                        name="dependency_met_when_seen",
                    ),
                ],
            },
        ),
        CreateModel(
            "RetryDefaults",
            [
                ("id", ID),
                ("policy", JSONField(default=dict)),
                ("bounds", JSONField(default=dict)),
                ("updated_at", DateTimeField(default=timezone.now)),
                ("domain", ForeignKey("sessions_app.domain", CASCADE, blank=True, null=True)),
                ("project", ForeignKey("sessions_app.project", CASCADE, blank=True, null=True)),
            ],
            options={
                "verbose_name": "retry defaults",
                "verbose_name_plural": "retry defaults",
                "constraints": [
                    UniqueConstraint(
                        "domain", "project", name="retry_defaults_one_a_scope", nulls_distinct=False
                    ),
                    CheckConstraint(
                        condition=Q(
                            ("domain__isnull", True), ("project__isnull", True), _connector="OR"
                        ),
                        name="retry_defaults_one_scope",
                    ),
                ],
            },
        ),
        CreateModel(
            "RetryPolicy",
            [
                ("id", ID),
                ("name", CharField(max_length=63)),
                ("revision", PositiveIntegerField()),
                ("archived_at", DateTimeField(blank=True, null=True)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("domain", ForeignKey("sessions_app.domain", CASCADE, blank=True, null=True)),
                ("project", ForeignKey("sessions_app.project", CASCADE, blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "retry policies",
                "indexes": [Index("name", name="retry_policy_by_name")],
                "constraints": [
                    UniqueConstraint(
                        "domain",
                        "project",
                        "name",
                        name="retry_policy_name_unique",
                        nulls_distinct=False,
                    ),
                    CheckConstraint(
                        condition=Q(
                            ("domain__isnull", True), ("project__isnull", True), _connector="OR"
                        ),
                        name="retry_policy_one_scope",
                    ),
                    CheckConstraint(
                        condition=Q(name__regex="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="retry_policy_name_label",
                    ),
                    CheckConstraint(
                        condition=Q(revision__gt=0), name="retry_policy_revision_positive"
                    ),
                ],
            },
        ),
        CreateModel(
            "RetryPolicyRevision",
            [
                ("id", ID),
                ("revision", PositiveIntegerField()),
                ("document", JSONField()),
                ("created_at", DateTimeField()),
                ("created_by", CharField(max_length=150)),
                (
                    "policy",
                    ForeignKey(
                        "sessions_app.retrypolicy",
                        CASCADE,
                        db_index=False,
                        related_name="revisions",
                    ),
                ),
            ],
            options={
                "constraints": [
                    UniqueConstraint("policy", "revision", name="retry_policy_revision_unique")
                ]
            },
        ),
        CreateModel(
            "RetrySettings",
            [
                ("id", ID),
                (
                    "mode",
                    CharField(
                        choices=[("on", "on"), ("paused", "paused"), ("off", "off")],
                        default=Mode["ON"],
                        max_length=8,
                    ),
                ),
                ("global_max_retries", PositiveIntegerField(blank=True, null=True)),
                ("global_unlimited", BooleanField(blank=True, null=True)),
                ("default_policy", CharField(blank=True, db_default="", default="", max_length=63)),
                ("retries_per_minute", PositiveIntegerField(blank=True, null=True)),
                ("queue_retries_per_minute", PositiveIntegerField(blank=True, null=True)),
                ("refuse_unfittable", BooleanField(blank=True, null=True)),
                ("breaker", JSONField(blank=True, null=True)),
                ("retry_budget", JSONField(blank=True, null=True)),
                ("pod_defaults", JSONField(blank=True, null=True)),
                ("updated_at", DateTimeField(default=timezone.now)),
                ("domain", ForeignKey("sessions_app.domain", CASCADE, blank=True, null=True)),
                ("project", ForeignKey("sessions_app.project", CASCADE, blank=True, null=True)),
            ],
            options={
                "verbose_name": "retry settings",
                "verbose_name_plural": "retry settings",
                "constraints": [
                    UniqueConstraint(
                        "domain", "project", name="retry_settings_one_a_scope", nulls_distinct=False
                    ),
                    CheckConstraint(
                        condition=Q(
                            ("domain__isnull", True), ("project__isnull", True), _connector="OR"
                        ),
                        name="retry_settings_one_scope",
                    ),
                    CheckConstraint(
                        condition=Q(
                            ("global_max_retries__isnull", True),
                            Q(domain__isnull=True, project__isnull=True),
                            _connector="OR",
                        ),
                        name="retry_settings_limit_is_the_clusters",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(
                                default_policy="",
                                queue_retries_per_minute__isnull=True,
                                retries_per_minute__isnull=True,
                            ),
                            Q(domain__isnull=True, project__isnull=True),
                            _connector="OR",
                        ),
                        name="retry_settings_policy_is_the_clusters",
                    ),
                ],
            },
        ),
        CreateModel(
            "RetrySlots",
            [
                ("id", ID),
                ("minute", DateTimeField()),
                ("taken", PositiveIntegerField()),
                ("queue", ForeignKey("sessions_app.queue", CASCADE, null=True, related_name="+")),
            ],
            options={
                "verbose_name": "retry slots",
                "verbose_name_plural": "retry slots",
                "constraints": [
                    UniqueConstraint(
                        "queue", "minute", name="retry_slots_one_a_minute", nulls_distinct=False
                    )
                ],
            },
        ),
        CreateModel(
            "SavedSearch",
            [
                ("id", ID),
                ("name", CharField(max_length=60)),
                ("query", CharField(max_length=2000)),
                (
                    "user",
                    ForeignKey(
                        settings.AUTH_USER_MODEL,
                        CASCADE,
                        db_index=False,
                        related_name="reprise_searches",
                    ),
                ),
            ],
            options={
                "constraints": [UniqueConstraint("user", "name", name="saved_search_name_unique")]
            },
        ),
        CreateModel(
            "Schedule",
            [
                (
                    "id",
                    UUIDField(
                        default=compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", CharField(max_length=63)),
                ("queue", CharField(blank=True, max_length=63)),
                ("cron", CharField(blank=True, max_length=100)),
                ("time_zone", CharField(default="UTC", max_length=64)),
                ("every", PositiveIntegerField(blank=True, null=True)),
                ("template", JSONField()),
                (
                    "overlap",
                    CharField(
                        choices=[
                            ("allow", "run beside it"),
                            ("skip", "leave this time out"),
                            ("cancel_running", "cancel it"),
                        ],
                        default="allow",
                        max_length=16,
                    ),
                ),
                ("catch_up", PositiveIntegerField(default=60)),
                ("jitter", PositiveIntegerField(default=0)),
                ("starts_at", DateTimeField(blank=True, null=True)),
                ("until", DateTimeField(blank=True, null=True)),
                ("pause_after", PositiveSmallIntegerField(blank=True, null=True)),
                ("paused_at", DateTimeField(blank=True, null=True)),
                ("paused_reason", CharField(blank=True, max_length=300)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("next_at", DateTimeField(null=True)),
                ("due_at", DateTimeField(null=True)),
                ("last_at", DateTimeField(null=True)),
                ("last_problem", CharField(blank=True, max_length=300)),
                ("recent", ArrayField(base_field=UUIDField(), blank=True, default=list, size=None)),
                ("judged_from", DateTimeField(default=timezone.now)),
                ("by_hand", PositiveIntegerField(default=0)),
                (
                    "owner",
                    ForeignKey(
                        settings.AUTH_USER_MODEL, SET_NULL, blank=True, null=True, related_name="+"
                    ),
                ),
                (
                    "project",
                    ForeignKey("sessions_app.project", CASCADE, db_index=False, related_name="+"),
                ),
            ],
            options={
                "indexes": [
                    Index(
                        "due_at",
                        condition=Q(due_at__isnull=False, paused_at=None),
                        name="schedule_due",
                    )
                ],
                "constraints": [
                    UniqueConstraint("project", "name", name="schedule_name_unique"),
                    CheckConstraint(
                        condition=Q(name__regex="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="schedule_name_label",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(Q(("cron", ""), _negated=True), ("every", None)),
                            Q(cron="", every__gt=0),
                            _connector="OR",
                        ),
                        name="schedule_cron_or_every",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(due_at=None, next_at=None),
                            Q(due_at__isnull=False, next_at__isnull=False),
                            _connector="OR",
                        ),
                        name="schedule_due_has_time",
                    ),
                ],
            },
        ),
        CreateModel(
            "SessionEvent",
            [
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("session_id", UUIDField()),
                ("root_id", UUIDField()),
                ("job_set", CharField(blank=True, max_length=128)),
                ("attempt", PositiveIntegerField()),
                ("seq", IntegerField()),
                ("type", CharField(max_length=40)),
                ("time", DateTimeField()),
                ("epoch", BigIntegerField(db_default=RawSQL("reprise_epoch()", ()))),
                ("xid", TransactionIdField(db_default=RawSQL("pg_current_xact_id()", ()))),
                ("data", JSONField(default=dict)),
                (
                    "project",
                    ForeignKey(
                        "sessions_app.project",
                        DO_NOTHING,
                        db_constraint=False,
                        db_index=False,
                        related_name="+",
                    ),
                ),
            ],
            options={
                "indexes": [
                    Index(fields=["xid"], name="event_xid"),
                    Index(
                        condition=Q(("job_set", ""), _negated=True),
                        fields=["project", "job_set", "epoch", "xid", "id"],
                        name="event_job_set",
                    ),
                    Index(
                        condition=Q(attempt=0, type="session.archived"),
                        fields=["time"],
                        name="event_archived",
                    ),
                    Index(
                        "project",
                        KeyTextTransform(
                            "creation_id",
                            KeyTextTransform("session", KeyTextTransform("archive", "data")),
                        ),
                        condition=Q(type="session.archived"),
                        name="event_archived_named",
                    ),
                ],
                "constraints": [UniqueConstraint("session_id", "seq", name="event_seq_unique")],
            },
        ),
        CreateModel(
            "WebhookEndpoint",
            [
                ("epoch", BigIntegerField(null=True)),
                ("xid", TransactionIdField(null=True)),
                ("event_id", BigIntegerField(null=True)),
                (
                    "id",
                    UUIDField(
                        default=compat.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("url", CharField(max_length=2000)),
                ("host", CharField(max_length=300)),
                ("description", CharField(blank=True, max_length=300)),
                (
                    "event_types",
                    ArrayField(
                        base_field=CharField(max_length=64), blank=True, default=list, size=None
                    ),
                ),
                ("secret", CharField(max_length=300)),
                ("previous_secret", CharField(blank=True, max_length=300)),
                ("previous_secret_until", DateTimeField(null=True)),
                ("created_by", CharField(max_length=150)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("paused_at", DateTimeField(null=True)),
                ("paused_reason", CharField(blank=True, max_length=300)),
                ("failures", PositiveIntegerField(default=0)),
                ("failing_since", DateTimeField(null=True)),
                ("project", ForeignKey("sessions_app.project", CASCADE, related_name="+")),
            ],
            options={
                "verbose_name": "webhook",
                "indexes": [Index("project", condition=Q(paused_at=None), name="webhook_active")],
                "constraints": [
                    CheckConstraint(
                        condition=Q(
                            Q(paused_at=None, paused_reason=""),
                            Q(
                                ("paused_at__isnull", False),
                                Q(("paused_reason", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="webhook_paused_for_a_reason",
                    )
                ],
            },
        ),
        CreateModel(
            "WebhookDelivery",
            [
                ("id", BigAutoField(primary_key=True, serialize=False)),
                ("event_id", BigIntegerField(null=True)),
                ("session_id", UUIDField(null=True)),
                ("type", CharField(max_length=40)),
                (
                    "state",
                    CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("delivered", "delivered"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        max_length=12,
                    ),
                ),
                ("attempts", PositiveSmallIntegerField(default=0)),
                ("due_at", DateTimeField(null=True)),
                ("claim", UUIDField(null=True)),
                ("redelivery", BooleanField(default=False)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("attempted_at", DateTimeField(null=True)),
                ("finished_at", DateTimeField(null=True)),
                ("response_code", PositiveSmallIntegerField(null=True)),
                ("response_excerpt", TextField(blank=True)),
                ("error", CharField(blank=True, max_length=300)),
                ("latency_ms", PositiveIntegerField(null=True)),
                ("data", JSONField(null=True)),
                (
                    "endpoint",
                    ForeignKey(
                        "sessions_app.webhookendpoint", CASCADE, db_index=False, related_name="+"
                    ),
                ),
            ],
            options={
                "verbose_name": "webhook delivery",
                "verbose_name_plural": "webhook deliveries",
                "indexes": [
                    Index(
                        condition=Q(due_at__isnull=False),
                        fields=["endpoint", "due_at"],
                        name="webhook_due",
                    ),
                    Index(
                        condition=Q(state="waiting"),
                        fields=["endpoint", "session_id", "id"],
                        name="webhook_line",
                    ),
                    Index(
                        condition=Q(claim__isnull=False),
                        fields=["endpoint"],
                        name="webhook_in_flight",
                    ),
                    Index(
                        condition=Q(due_at__isnull=False, event_id=None),
                        fields=["due_at"],
                        name="webhook_ping_due",
                    ),
                    Index(fields=["endpoint", "id"], name="webhook_log"),
                    Index(fields=["endpoint", "session_id", "id"], name="webhook_of_session"),
                    Index(
                        condition=Q(state="failed"),
                        fields=["endpoint", "id"],
                        name="webhook_given_up",
                    ),
                    Index(
                        condition=Q(finished_at__isnull=False),
                        fields=["finished_at"],
                        name="webhook_finished",
                    ),
                ],
                "constraints": [
                    UniqueConstraint(
                        condition=Q(redelivery=False),
                        fields=("endpoint", "event_id"),
                        name="webhook_told_once",
                    ),
                    CheckConstraint(
                        condition=Q(
                            Q(finished_at=None, state="waiting"),
                            Q(
                                Q(("state", "waiting"), _negated=True),
                                ("claim", None),
                                ("due_at", None),
                                ("finished_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="webhook_finished_at",
                    ),
                ],
            },
        ),
        CreateModel(
            "FailureTotals",
            [
                ("id", ID),
                ("hour", DateTimeField()),
                ("sessions", ArrayField(base_field=IntegerField(), size=None)),
                ("chains", ArrayField(base_field=IntegerField(), null=True, size=None)),
                ("recovered_chains", ArrayField(base_field=IntegerField(), null=True, size=None)),
                ("lost_run_seconds", ArrayField(base_field=FloatField(), null=True, size=None)),
                (
                    "ledger",
                    ForeignKey(
                        "sessions_app.failureledger", CASCADE, db_index=False, related_name="+"
                    ),
                ),
            ],
            options={
                "indexes": [Index("hour", name="failure_totals_old")],
                "constraints": [
                    UniqueConstraint(fields=("ledger", "hour"), name="failure_totals_unique")
                ],
            },
        ),
        CreateModel(
            "RetryTrace",
            [
                (
                    "decision",
                    OneToOneField(
                        "sessions_app.retrydecision",
                        DO_NOTHING,
                        db_column="session_id",
                        db_constraint=False,
                        primary_key=True,
                        related_name="written_trace",
                        serialize=False,
                    ),
                ),
                ("steps", JSONField()),
            ],
        ),
        sql_file("storage.sql"),
        sql_file("retries.sql"),
        RunSQL(DEFAULT_CLASS),
        sql_file("config_version.sql"),
        followed(
            "sessions_app_retrysettings", updated=changed("*"), inserted="true", deleted="true"
        ),
        followed(
            "sessions_app_retrydefaults", updated=changed("*"), inserted="true", deleted="true"
        ),
        followed(
            "sessions_app_failurecategory", updated=changed("*"), inserted="true", deleted="true"
        ),
        followed(
            "sessions_app_retrypolicy",
            updated=changed("name", "project_id", "domain_id", "revision"),
            inserted="true",
            deleted="true",
        ),
        followed("sessions_app_project", updated=changed("domain_id")),
        followed(
            "sessions_app_queue",
            updated=changed("project_id", "retry_budget"),
            inserted="NEW.retry_budget IS NOT NULL",
            deleted="OLD.retry_budget IS NOT NULL",
        ),
        followed(
            "sessions_app_breaker",
            updated=changed("state", "probe"),
            inserted="NEW.state = 'open'",
            deleted="OLD.state = 'open'",
        ),
        followed(
            "sessions_app_failuresignature",
            updated=changed("muted"),
            inserted="NEW.muted",
            deleted="OLD.muted",
        ),
        followed(
            "sessions_app_retrybudgetstate",
            updated="(OLD.spent_since IS NULL) <> (NEW.spent_since IS NULL)",
            inserted="NEW.spent_since IS NOT NULL",
            deleted="OLD.spent_since IS NOT NULL",
        ),
        sql_file("audit.sql"),
        audited("sessions_app_domain", "domain", ["name"]),
        audited("sessions_app_project", "project", ["name", "domain_id"]),
        audited("sessions_app_membership", "membership", ["user_id", *SCOPE, "role"]),
        audited(
            "sessions_app_apitoken",
            "token",
            [
                *("name", "prefix", "user_id", "executor_name", "project_id"),
                *("read_only", "expires_at", "made_with"),
            ],
            secret=["digest"],
        ),
        audited(
            "sessions_app_queue",
            "queue",
            [
                *("project_id", "name", "is_default", "priority_factor", "cordoned"),
                *("cordon_reason", "resource_limits", "retry_policies", "breaker"),
                *("retry_budget", "time_limits"),
            ],
        ),
        audited("sessions_app_projectusage", "quota", [*SCOPE, "name", "limit"]),
        audited(
            "sessions_app_priorityclass",
            "priority_class",
            [
                *("name", "value", "preemptible", "may_preempt", "protected_for"),
                *("domains", "projects"),
            ],
        ),
        audited("sessions_app_retrydefaults", "retry_defaults", [*SCOPE, "policy", "bounds"]),
        audited(
            "sessions_app_retrysettings",
            "retry_settings",
            [
                *(*SCOPE, "mode", "global_max_retries", "default_policy"),
                *("retries_per_minute", "queue_retries_per_minute", "refuse_unfittable"),
                *("breaker", "retry_budget", "global_unlimited", "pod_defaults"),
            ],
        ),
        audited(
            "sessions_app_failurecategory", "failure_category", ["name", "position", "matchers"]
        ),
        audited(
            "sessions_app_webhookendpoint",
            "webhook",
            [
                *("project_id", "url", "description", "event_types", "created_by"),
                *("paused_at", "paused_reason"),
            ],
            secret=["secret", "previous_secret"],
        ),
        audited(
            "sessions_app_schedule",
            "schedule",
            [
                *("project_id", "name", "queue", "cron", "time_zone", "every", "template"),
                *("overlap", "catch_up", "jitter", "starts_at", "until", "pause_after"),
                *("owner_id", "paused_at", "paused_reason"),
            ],
        ),
        audited_by(
            "sessions_app_retrypolicy",
            "reprise_audit_policy()",
            [*SCOPE, "name", "revision", "archived_at"],
        ),
        audited_by(
            "sessions_app_retrypolicyrevision",
            "reprise_audit_revision()",
            ["policy_id", "revision", "document"],
        ),
        audited(
            "auth_user",
            "user",
            [
                *("username", "first_name", "last_name", "email"),
                *("is_superuser", "is_staff", "is_active"),
            ],
            secret=["password"],
        ),
        audited("auth_group", "group", ["name"]),
    ]
