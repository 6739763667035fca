"""The tables of executors, leases and nodes."""

from django.db import migrations
from django.db.migrations import CreateModel
from django.db.models import (
    CASCADE,
    DO_NOTHING,
    PROTECT,
    SET_NULL,
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    CheckConstraint,
    DateTimeField,
    FloatField,
    ForeignKey,
    Index,
    JSONField,
    ManyToManyField,
    OneToOneField,
    PositiveIntegerField,
    Q,
    SmallIntegerField,
    TextField,
    UniqueConstraint,
    UUIDField,
)
from django.db.models.functions import Now
from django.utils import timezone

from sessions_app.migrations._triggers import audited, sql_file
from sessions_app.models.events import TransactionIdField

ID = BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    initial = True
    dependencies = [("sessions_app", "0001_initial")]
    operations = [
        CreateModel(
            "NodeReader",
            [
                ("id", ID),
                ("epoch", BigIntegerField(null=True)),
                ("xid", TransactionIdField(null=True)),
                ("event_id", BigIntegerField(null=True)),
                ("listed", JSONField(default=dict)),
                ("to_judge", BooleanField(default=False)),
            ],
        ),
        CreateModel(
            "QueueBelow",
            [
                (
                    "queue",
                    OneToOneField(
                        "sessions_app.queue",
                        CASCADE,
                        primary_key=True,
                        related_name="below",
                        serialize=False,
                    ),
                ),
                ("since", DateTimeField()),
            ],
        ),
        CreateModel(
            "QueueUsage",
            [
                (
                    "queue",
                    OneToOneField(
                        "sessions_app.queue",
                        CASCADE,
                        primary_key=True,
                        related_name="usage",
                        serialize=False,
                    ),
                ),
                ("used", JSONField(default=dict)),
                ("cost", FloatField()),
                ("current_priority", FloatField()),
                ("computed_at", DateTimeField()),
            ],
            options={"verbose_name": "usage of a queue", "verbose_name_plural": "usage of queues"},
        ),
        CreateModel(
            "Executor",
            [
                ("id", ID),
                ("name", CharField(max_length=63, unique=True)),
                ("incarnation", BigIntegerField(default=0)),
                ("round", BigIntegerField(db_default=0, default=0)),
                ("state_id", CharField(blank=True, db_default="", max_length=64)),
                ("fenced_at", DateTimeField(null=True)),
                ("driver", CharField(blank=True, max_length=32)),
                ("nodes", JSONField(default=list)),
                ("nodes_digest", CharField(blank=True, db_default="", default="", max_length=32)),
                ("node_templates", JSONField(db_default=[], default=list)),
                ("pod_placing", JSONField(db_default={}, default=dict)),
                ("extended_tolerations", BooleanField(db_default=False, default=False)),
                ("max_sessions", PositiveIntegerField(default=0)),
                ("trouble", TextField(blank=True, db_default="", default="")),
                ("project_troubles", JSONField(db_default={}, default=dict)),
                ("warnings", JSONField(db_default=[], default=list)),
                ("last_seen_at", DateTimeField(null=True)),
                ("warned_at", DateTimeField(null=True)),
                ("cordoned", BooleanField(default=False)),
                ("cordon_reason", CharField(blank=True, db_default="", default="", max_length=256)),
                ("draining_since", DateTimeField(null=True)),
                ("drained_by", CharField(blank=True, db_default="", default="", max_length=150)),
                ("drain_force", BooleanField(db_default=False, default=False)),
                (
                    "placement",
                    CharField(
                        choices=[
                            ("node", "the server: each pod is bound to the node that was planned"),
                            ("cluster", "the cluster's own scheduler alone"),
                        ],
                        db_default="node",
                        default="node",
                        max_length=8,
                    ),
                ),
                (
                    "avoid_suspects",
                    CharField(
                        choices=[
                            ("off", "nobody: no node is suspected"),
                            ("retries", "retries"),
                            ("all", "retries and first attempts"),
                        ],
                        db_default="off",
                        default="off",
                        max_length=8,
                    ),
                ),
                ("auto_quarantine", BooleanField(db_default=False, default=False)),
                ("refusals", JSONField(db_default={}, default=dict)),
                (
                    "preemption",
                    CharField(
                        blank=True,
                        choices=[
                            ("off", "no"),
                            ("dry_run", "no, but it is recorded which would"),
                            ("on", "yes"),
                        ],
                        db_default="",
                        default="",
                        max_length=8,
                    ),
                ),
                ("labels", JSONField(blank=True, db_default={}, default=dict)),
                ("unconfirmed_after", FloatField(blank=True, null=True)),
                ("created_at", DateTimeField(default=timezone.now)),
                ("projects", ManyToManyField("sessions_app.project", blank=True)),
            ],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(name__regex="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                        name="executor_name_label",
                    )
                ]
            },
        ),
        CreateModel(
            "Lease",
            [
                (
                    "session",
                    OneToOneField(
                        "sessions_app.session",
                        CASCADE,
                        primary_key=True,
                        related_name="lease",
                        serialize=False,
                    ),
                ),
                ("fencing_token", BigIntegerField()),
                ("granted_at", DateTimeField()),
                ("accepted", BooleanField(default=False)),
                ("queue_id", BigIntegerField()),
                ("scheduling_key", BigIntegerField()),
                ("nodes", JSONField(null=True)),
                ("template", CharField(blank=True, db_default="", default="", max_length=63)),
                ("lost_at", DateTimeField(null=True)),
                ("run_deadline", DateTimeField(null=True)),
                ("progress", JSONField(null=True)),
                ("verify_at", DateTimeField(null=True)),
                ("pod", JSONField(null=True)),
                ("pod_created_at", DateTimeField(null=True)),
                ("initializing_since", DateTimeField(null=True)),
                ("initializing_checks", SmallIntegerField(db_default=0, default=0)),
                ("unknown_checks", SmallIntegerField(db_default=0, default=0)),
                ("suspected", BooleanField(db_default=False, default=False)),
                (
                    "executor",
                    ForeignKey(
                        "scheduler.executor", PROTECT, db_index=False, related_name="leases"
                    ),
                ),
            ],
            options={
                "indexes": [
                    Index("verify_at", condition=Q(verify_at__isnull=False), name="lease_verify")
                ],
                "constraints": [
                    UniqueConstraint("executor", "fencing_token", name="lease_of_executor")
                ],
            },
        ),
        CreateModel(
            "Node",
            [
                ("id", ID),
                ("name", CharField(max_length=253)),
                ("address", CharField(max_length=317, unique=True)),
                ("present", BooleanField(default=False)),
                ("counted_from", DateTimeField(null=True)),
                ("suspected_at", DateTimeField(null=True)),
                ("suspected_until", DateTimeField(null=True)),
                ("cleared_at", DateTimeField(null=True)),
                ("reason", TextField(blank=True, default="")),
                ("ratio", FloatField(null=True)),
                ("quarantined_at", DateTimeField(null=True)),
                ("quarantined_by", CharField(blank=True, default="", max_length=150)),
                ("quarantine_reason", CharField(blank=True, default="", max_length=256)),
                (
                    "executor",
                    ForeignKey(
                        "scheduler.executor", CASCADE, db_index=False, related_name="node_rows"
                    ),
                ),
            ],
            options={
                "indexes": [
                    Index(
                        "executor",
                        condition=Q(
                            ("suspected_until__isnull", False),
                            ("quarantined_at__isnull", False),
                            _connector="OR",
                        ),
                        name="node_out",
                    )
                ],
                "constraints": [UniqueConstraint("executor", "name", name="node_of_executor")],
            },
        ),
        CreateModel(
            "NodeAttempt",
            [
                ("id", ID),
                ("ended_at", DateTimeField()),
                ("work", BigIntegerField()),
                ("chain", UUIDField()),
                ("cause", CharField(blank=True, max_length=32)),
                ("signature", CharField(blank=True, max_length=12)),
                (
                    "node",
                    ForeignKey("scheduler.node", CASCADE, db_index=False, related_name="attempts"),
                ),
            ],
            options={"indexes": [Index("node", "id", name="node_attempt_newest")]},
        ),
        CreateModel(
            "Pool",
            [
                ("id", SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("amounts", JSONField(default=dict)),
                ("computed_at", DateTimeField()),
            ],
            options={"constraints": [CheckConstraint(condition=Q(id=1), name="pool_is_one")]},
        ),
        CreateModel(
            "Preemption",
            [
                ("id", ID),
                (
                    "executor_name",
                    CharField(
                        db_default="",
                        default="",
                        editable=False,
                        max_length=63,
                        verbose_name="executor",
                    ),
                ),
                ("planned_at", DateTimeField()),
                ("until", DateTimeField()),
                ("rule", CharField(max_length=16)),
                ("dry_run", BooleanField()),
                ("nodes", JSONField()),
                ("taker_id", UUIDField()),
                ("taker_rank", SmallIntegerField()),
                ("victim_id", UUIDField()),
                ("victim_rank", SmallIntegerField()),
                (
                    "executor",
                    ForeignKey(
                        "scheduler.executor",
                        SET_NULL,
                        db_index=False,
                        null=True,
                        related_name="preemptions",
                    ),
                ),
                (
                    "taker_project",
                    ForeignKey(
                        "sessions_app.project",
                        CASCADE,
                        db_constraint=False,
                        db_index=False,
                        related_name="+",
                    ),
                ),
                (
                    "victim_project",
                    ForeignKey(
                        "sessions_app.project",
                        CASCADE,
                        db_constraint=False,
                        db_index=False,
                        related_name="+",
                    ),
                ),
            ],
            options={
                "indexes": [
                    Index("planned_at", "id", name="preemption_newest"),
                    Index("taker_id", name="preemption_taker"),
                ]
            },
        ),
        CreateModel(
            "Reservation",
            [
                ("id", ID),
                ("nodes", JSONField()),
                ("since", DateTimeField(db_default=Now(), default=timezone.now)),
                ("limited_since", DateTimeField(null=True)),
                (
                    "executor",
                    ForeignKey("scheduler.executor", CASCADE, related_name="reservations"),
                ),
                (
                    "session",
                    ForeignKey(
                        "sessions_app.session",
                        DO_NOTHING,
                        db_constraint=False,
                        related_name="reservations",
                    ),
                ),
            ],
            options={
                "constraints": [
                    UniqueConstraint("executor", "session", name="reservation_one_a_session")
                ]
            },
        ),
        sql_file("executors.sql", __file__),
        audited(
            "scheduler_executor",
            "executor",
            [
                *("name", "cordoned", "cordon_reason", "draining_since", "drained_by"),
                *("drain_force", "unconfirmed_after", "placement", "avoid_suspects"),
                *("auto_quarantine", "preemption", "labels"),
            ],
        ),
    ]
