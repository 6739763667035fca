"""Sessions: one row for each attempt, and the specification that a whole chain shares."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.indexes import OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Left
from django.utils import timezone

from retry.evidence.causes import RetryCause
from retry.policies.inline import whole
from retry.signatures.signature import KEY_LENGTH, TITLE_LENGTH
from sessions_app.core.encryption import ID_LENGTH
from sessions_app.core.priorities import unfolded
from sessions_app.core.states import (
    ENDED_STATES,
    FINAL_STATUSES,
    LIVE_STATUSES,
    UNFINISHED_PHASES,
    Phase,
    RetryState,
    Status,
)
from sessions_app.models.queues import Queue
from sessions_app.models.tenants import Project

STATUS_CHOICES = [(status.value, status.value) for status in Status]
PHASE_CHOICES = [(phase.value, phase.value) for phase in Phase]
NEWEST = F("id").asc(nulls_first=True)
"""The order of lists, which read it backwards. Ids ascend, so new entries come last, which leaves
pages full; with descending ids each split would leave two halves, and log one. An id is never null:
the expression gives an order that the primary key does not have, so that no plan walks through all
sessions by it to find a few."""
NOT_FAILED = ["", RetryCause.USER_CANCELLED.value]
"""The usual causes of final sessions that are not `ERROR`. Of failed dependencies the index below
has the few that there are."""
RETRY_STATE_CHOICES = [(state.value, state.value) for state in RetryState]


class SessionType(models.TextChoices):
    """The type of a session. Only batch sessions are ever retried."""

    BATCH = "batch"
    INTERACTIVE = "interactive"
    INFERENCE = "inference"


class OnDependencyFailure(models.TextChoices):
    """What becomes of a session whose dependency cannot be met any more."""

    CANCEL = "cancel", "it is cancelled"
    RUN = "run", "it runs once all its dependencies have ended"


class SessionSpec(models.Model):
    """The specification of a run. Immutable and shared by all attempts of a chain."""

    id = models.UUIDField(primary_key=True)
    image = models.CharField(max_length=512, blank=True)
    command = models.JSONField(default=list)
    environ = models.JSONField(default=dict)
    resources = models.JSONField(default=dict)
    mounts = models.JSONField(default=list)
    ports = models.JSONField(default=list)
    labels = models.JSONField(default=dict)
    pod_spec = models.JSONField(null=True)
    cluster_size = models.PositiveIntegerField(default=1)
    batch_timeout = models.FloatField(null=True)
    scheduling_timeout = models.FloatField(null=True)
    queue_timeout = models.FloatField(null=True)
    termination_grace_period = models.FloatField(default=30.0)
    request_digest = models.CharField(max_length=64)
    """SHA-256 of the validated creation request, without the values of secrets: a repeated
    `creation_id` must come with the same digest."""
    secret_names = models.JSONField(null=True)
    """The names of the variables of `secret_environ`; null if there are none."""
    secret_environ = models.TextField(null=True)  # noqa: DJ001  # no bytes where there is none
    """A JSON object of variables, encrypted; the text begins with the id of its key."""
    secrets_by = models.IntegerField(null=True)
    """The id of the user who gave the secrets with a retry; null: the owner of the session gave
    them. Whoever else changes what runs does not pass them on."""
    on_dependency_failure = models.CharField(  # noqa: DJ001  # no bytes where there is none
        max_length=8, null=True, choices=OnDependencyFailure.choices
    )
    """What happens if a dependency cannot be met any more; null: the chain has no dependencies."""
    executor_labels = models.JSONField(null=True)
    """The labels that its executors must have, by a rule; null: any executor will do."""

    class Meta:
        indexes = [
            # By key: finds secrets to encrypt again, and the keys in use.
            models.Index(
                Left("secret_environ", ID_LENGTH),
                condition=Q(secret_environ__isnull=False),
                name="spec_secrets",
            )
        ]


class Session(models.Model):
    """One attempt. The row is narrow and changes often; its history is in the events."""

    id = models.UUIDField(primary_key=True)
    # A foreign key without an index of its own is served by one of those below. `spec` has no
    # constraint, for which each delete of a specification would have to search all sessions: a
    # specification is written with its first session and deleted with its chain.
    spec = models.ForeignKey(
        SessionSpec,
        models.PROTECT,
        related_name="sessions",
        db_index=False,
        db_constraint=False,
    )
    project = models.ForeignKey(Project, models.PROTECT, related_name="sessions", db_index=False)
    queue = models.ForeignKey(Queue, models.PROTECT, related_name="sessions", db_index=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        related_name="reprise_sessions",
        db_index=False,
    )
    name = models.CharField(max_length=128, blank=True)
    job_set = models.CharField(max_length=128, blank=True)
    creation_id = models.CharField(max_length=255)
    """A retry has the root's, followed by `:retry:` and its number."""
    session_type = models.CharField(max_length=12, choices=SessionType.choices)
    stored_priority = models.IntegerField(default=0, db_column="priority")
    """The value of its class and its priority in one number: `core/priorities.py`."""

    status = models.CharField(max_length=12, choices=STATUS_CHOICES)
    phase = models.CharField(max_length=8, choices=PHASE_CHOICES)
    status_message = models.CharField(max_length=1024, blank=True)
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField(null=True)
    accepted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    terminating_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    node = models.CharField(max_length=253, blank=True)
    executor = models.CharField(max_length=63, blank=True)

    # Without a constraint, which would need an index of its own: an attempt is found by its root,
    # whose constraint keeps the chain together.
    parent = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        related_name="children",
        db_index=False,
        db_constraint=False,
    )
    root = models.ForeignKey("self", models.PROTECT, related_name="chain", db_index=False)
    root_submitted_at = models.DateTimeField()
    tip = models.BooleanField(default=True)
    retry_count = models.PositiveIntegerField(default=0)
    max_retries = models.PositiveIntegerField(default=0)
    """The number in the chain's policy, for SQL; the largest one if that is unlimited."""
    retry_policy = models.JSONField(default=dict)
    """The fields of the chain's policy that are not as shipped; `policy` has all."""
    retry_policies = models.JSONField(default=list)
    retry_counters = models.JSONField(default=dict)
    changes = models.JSONField(null=True)
    """What the person who asked for this attempt, or a rule, changed, as everybody may see it."""
    progress = models.JSONField(null=True)
    """How far the ended attempt came, if it told: `core/progress.py`. That of a live one stands
    beside its lease."""
    chain_progress = models.JSONField(null=True)
    """How far the attempts before it came; null if none told."""
    retry_marks = models.JSONField(null=True)
    """The counters when an attempt before it last made progress; null if none did."""
    retry_cause = models.CharField(max_length=32, blank=True)
    failure_category = models.CharField(max_length=63, blank=True)
    failure_signature = models.CharField(max_length=KEY_LENGTH, blank=True, db_default="")
    """The key of `retry.signatures`; "" after a success or a cancel."""
    failure_title = models.CharField(max_length=TITLE_LENGTH, blank=True, default="", db_default="")
    """The title of that signature. It may quote the output, so no event has it, and it goes with
    the row."""
    retry_state = models.CharField(
        max_length=12, choices=RETRY_STATE_CHOICES, default=RetryState.NONE
    )
    resting = models.CharField(max_length=12, default="", db_default="")
    """The retry state if the session stays in it until somebody acts; "" if it does not.

    No index contains `retry_state` or `tip`: a dispatch changes both, and so writes to no index of
    the failed session (HOT).
    """
    cancel_requested_at = models.DateTimeField(null=True)
    """On a root: when the whole chain was cancelled."""
    preempt_requested_at = models.DateTimeField(null=True)
    gave_way_to = models.UUIDField(null=True)
    """The waiting session for which Reprise itself preempted it."""
    """When an operator asked for the end of this run; its executor is told to stop it."""
    start_failure = models.JSONField(null=True)
    """The facts of its failed start. They decide its end, whatever the stop does to the pod."""

    scheduling_key = models.BigIntegerField(null=True)
    """Equal for sessions that ask for the same and may run on the same executors and nodes:
    `scheduling_key.py`. Null: the next lease round computes it."""
    avoid_node = models.CharField(max_length=253, blank=True)
    avoid_executors = models.JSONField(default=list)
    lease_returns = models.PositiveSmallIntegerField(default=0)
    placement_refusals = models.PositiveSmallIntegerField(null=True)
    """How often its cluster refused the node that was planned for it; null for never."""
    wait_deadline = models.DateTimeField(null=True)
    """When its `queue_timeout` is over; null without one, and while it waits for others."""
    fencing_token = models.BigIntegerField(null=True)
    """The token of the lease that counts; every report must carry it."""
    report_seq = models.IntegerField(default=0)
    event_seq = models.IntegerField(default=0)

    chain_ids: list[UUID] | None = None
    chain_count: int | None = None
    """The ids of its chain, oldest first, and their number, if they were read together with it."""
    scope_text: str | None = None
    """The value of `retry_scope.SCOPE` for its project, if it was read, too."""
    live_progress: str | None = None
    """The progress of a live attempt, as JSON text, if that was read together with the session."""
    has_quotas: bool | None = None
    """Whether its project or domain has quotas, if that was read together with the session."""
    archived_chain: tuple[UUID, ...] | None = None
    """The ids of its chain, oldest first, for a session that exists only in the log."""

    class Meta:
        constraints = [
            models.UniqueConstraint("project", "creation_id", name="session_creation_id_unique"),
            models.UniqueConstraint("root", "retry_count", name="session_attempt_unique"),
            models.UniqueConstraint(
                "root",
                condition=Q(phase__in=UNFINISHED_PHASES),
                name="session_one_unfinished",
            ),
            models.CheckConstraint(
                condition=Q(status=Status.PENDING, phase__in=[Phase.BLOCKED, Phase.WAITING])
                | Q(status__in=LIVE_STATUSES, phase=Phase.LIVE)
                | Q(status__in=sorted(FINAL_STATUSES), phase=Phase.FINAL),
                name="session_phase_of_status",
            ),
            models.CheckConstraint(
                condition=Q(phase=Phase.FINAL, finished_at__isnull=False)
                | (~Q(phase=Phase.FINAL) & Q(finished_at__isnull=True)),
                name="session_finished_when_final",
            ),
            models.CheckConstraint(
                condition=Q(parent__isnull=True, retry_count=0, root=F("id"))
                | Q(parent__isnull=False, retry_count__gt=0),
                name="session_root_has_no_parent",
            ),
        ]
        indexes = [
            models.Index(
                "queue",
                "scheduling_key",
                F("stored_priority").desc(),
                "root_submitted_at",
                "root",
                condition=Q(phase=Phase.WAITING),
                name="session_in_line",
            ),
            models.Index(
                "id",
                condition=Q(phase=Phase.WAITING, scheduling_key__isnull=True),
                name="session_without_key",
            ),
            # Of live ones `session_live` is read instead: leases do not write to this one.
            models.Index(
                "project",
                "executor",
                NEWEST,
                condition=Q(phase=Phase.FINAL) & ~Q(executor=""),
                name="session_executor_ended",
            ),
            # For the filters of lists: one `LATERAL` for each project reads its newest, or else one
            # for each queue (`session_pages.py`). No index contains a column that changes while a
            # session is live, so that updates of live sessions write to no index (HOT).
            models.Index("queue", NEWEST, name="session_by_queue"),
            # Those whose retry is due at some time, and those that have been retried.
            models.Index(
                "project",
                NEWEST,
                condition=Q(phase=Phase.FINAL, resting=""),
                name="session_unrested",
            ),
            models.Index(
                "project",
                NEWEST,
                condition=Q(phase=Phase.WAITING),
                name="session_waiting",
            ),
            models.Index(
                "project",
                NEWEST,
                condition=Q(phase=Phase.BLOCKED),
                name="session_blocked",
            ),
            models.Index(
                "project",
                NEWEST,
                condition=Q(phase=Phase.LIVE),
                name="session_live",
            ),
            models.Index(
                "project",
                NEWEST,
                condition=Q(phase=Phase.FINAL) & ~Q(retry_cause__in=NOT_FAILED),
                name="session_failures",
            ),
            models.Index("owner", "project", NEWEST, name="session_by_owner"),
            models.Index(
                "project",
                "job_set",
                NEWEST,
                condition=~Q(job_set=""),
                name="session_by_job_set",
            ),
            models.Index(
                "project",
                "session_type",
                NEWEST,
                condition=~Q(session_type=SessionType.BATCH),
                name="session_by_type",
            ),
            models.Index(
                "project",
                "retry_cause",
                NEWEST,
                condition=Q(phase=Phase.FINAL),
                name="session_by_cause",
            ),
            models.Index(
                "project",
                "failure_category",
                NEWEST,
                condition=~Q(failure_category=""),
                name="session_by_category",
            ),
            # This one and the next leave out successes without a cause, which is nearly all: these
            # are in `session_by_cause`.
            models.Index(
                "project",
                "failure_signature",
                NEWEST,
                condition=~Q(failure_signature=""),
                name="session_signature",
            ),
            models.Index(
                "project",
                "resting",
                NEWEST,
                condition=~Q(resting="") & ~Q(resting=RetryState.SUCCEEDED, retry_cause=""),
                name="session_rests",
            ),
            models.Index(
                "project",
                "exit_code",
                NEWEST,
                condition=Q(exit_code__isnull=False) & ~Q(exit_code=0, retry_cause=""),
                name="session_exits",
            ),
            models.Index("project", "node", NEWEST, condition=~Q(node=""), name="session_by_node"),
            models.Index(
                "project",
                OpClass("name", "varchar_pattern_ops"),
                condition=~Q(name=""),
                name="session_name",
            ),
            models.Index(
                "project", "id", condition=Q(resting=RetryState.HELD), name="session_on_hold"
            ),
            models.Index(
                "finished_at",
                condition=Q(resting__in=[state.value for state in ENDED_STATES]),
                name="session_chain_ended",
            ),
            # Only of those that have a deadline: all others cost nothing here.
            models.Index(
                "wait_deadline",
                condition=Q(phase=Phase.WAITING, wait_deadline__isnull=False),
                name="session_wait_deadline",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)

    @property
    def policy(self) -> dict[str, Any]:
        """Return all fields of the chain's inline policy, as JSON values."""
        return whole(self.retry_policy)

    @property
    def priority(self) -> int:
        """Return its priority within its class."""
        return unfolded(self.stored_priority).within

    @property
    def rank(self) -> int:
        """Return the value of its priority class."""
        return unfolded(self.stored_priority).rank

    @property
    def preemption(self) -> str:
        """Return who preempted it and why; "" if nobody did or it ended by itself first."""
        asked = self.preempt_requested_at is not None
        ending = self.status == Status.TERMINATING or self.retry_cause == RetryCause.PREEMPTED
        return self.status_message if asked and ending else ""

    @property
    def age(self) -> float:
        """Return the seconds since creation."""
        return (timezone.now() - self.created_at).total_seconds()
