"""Decisions after failures, and the settings that they depend on."""

from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from retry.engine.decide import Mode
from retry.engine.decision import GLOBAL_MAX_RETRIES, SWITCH
from sessions_app.models.queues import Queue
from sessions_app.models.sessions import Session
from sessions_app.models.tenants import NAME_LENGTH, Domain, Project

MODE_CHOICES = [(mode.value, mode.value) for mode in Mode]
DECISION_STATES = ("scheduled", "held", "dispatched", "cancelled", "final")


class RetryDecision(models.Model):
    """The decision about one failure: what, by whom and why. One for each failed session."""

    session = models.OneToOneField(
        Session, models.CASCADE, primary_key=True, related_name="decision"
    )
    project_id = models.BigIntegerField(null=True)
    """The session's project. Null in decisions of before this column that wait for nothing."""
    state = models.CharField(max_length=12, choices=[(s, s) for s in DECISION_STATES])
    action = models.CharField(max_length=8)
    reason = models.CharField(max_length=32)
    cause = models.CharField(max_length=32)
    rule = models.CharField(max_length=130, blank=True)
    paid_by = models.CharField(max_length=130, blank=True)
    used = models.IntegerField(null=True)
    limit = models.IntegerField(null=True)
    delay = models.FloatField(null=True)
    """Seconds, jitter included."""
    due_at = models.DateTimeField(null=True)
    avoid_node = models.CharField(max_length=253, blank=True)
    avoid_executor = models.CharField(max_length=63, blank=True)
    termination = models.JSONField(default=dict)
    policy_revisions = models.JSONField(default=dict)
    decided_at = models.DateTimeField()
    next_session_id = models.UUIDField(null=True)
    dispatched_at = models.DateTimeField(null=True)
    dispatched_by = models.CharField(max_length=150, blank=True)
    """Who dispatched the child; "" for the engine itself."""
    resources = models.JSONField(null=True)
    """All resources of the next attempt, if they differ from those of this one."""
    paced = models.BooleanField(default=False, db_default=False)
    """Whether it has its slot under the storm limits."""
    preempted_at = models.DateTimeField(null=True)
    """The first observation of the preemption that ended the run."""
    requested_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    """Who asked for the retry that waits for its slot; "" for the engine itself."""

    held_for = models.CharField(max_length=16, blank=True, default="", db_default="")
    """What holds it while its state is `held`: `switch`, `breaker`, `shared_budget`, `parked`."""
    held_key = models.CharField(max_length=130, blank=True, default="", db_default="")
    """Which one of these holds it, such as a signature; "" where there is only one."""

    held_order = models.DateTimeField(null=True)
    """When its chain was submitted, if a shared budget holds it: the oldest chain goes first."""
    changes = models.JSONField(null=True)
    """What its rule changes for the next attempt, or the person who asked for the retry that waits:
    `retry_changes.py`."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(state="scheduled") | Q(due_at__isnull=False),
                name="decision_scheduled_has_due",
            ),
            models.CheckConstraint(
                condition=Q(state="dispatched", next_session_id__isnull=False)
                | (~Q(state="dispatched") & Q(next_session_id__isnull=True)),
                name="decision_child_when_dispatched",
            ),
        ]
        indexes = [
            models.Index("due_at", "session", condition=Q(state="scheduled"), name="decision_due"),
            models.Index(
                "project_id",
                F("session").asc(nulls_first=True),
                condition=Q(state="scheduled"),
                name="decision_scheduled",
            ),
            models.Index(
                "due_at", condition=Q(state="scheduled", paced=True), name="decision_paced"
            ),
            models.Index(
                "project_id",
                "session",
                condition=Q(state="held", held_for=SWITCH),
                name="decision_switched",
            ),
            models.Index(
                "project_id",
                "session",
                condition=Q(state="held", held_for=SWITCH) & ~Q(requested_by=""),
                name="decision_switched_by_hand",
            ),
            models.Index(
                "due_at",
                "session",
                condition=Q(state="held", held_for="parked"),
                name="decision_parked",
            ),
            models.Index(
                "held_key",
                "due_at",
                "session",
                condition=Q(state="held", held_for="breaker"),
                name="decision_breaker",
            ),
            models.Index(
                "held_key",
                "held_order",
                "session",
                condition=Q(state="held", held_for="shared_budget"),
                name="decision_over_budget",
            ),
            # Finds secrets to encrypt again, and the keys in use. Dispatch takes them out.
            models.Index(
                "session", condition=Q(changes__has_key="secrets"), name="decision_secrets"
            ),
        ]

    def __str__(self) -> str:
        return str(self.session_id)

    @property
    def trace(self) -> list[dict[str, Any]]:
        """Return the steps that led to the decision, in order.

        It takes a query, unless `written_trace` was read with the decision.
        """
        written: RetryTrace | None = getattr(self, "written_trace", None)
        return [] if written is None else list(written.steps)


TRACE = "coalesce(t.steps, '[]')"
"""`RetryDecision.trace` in SQL: `t` is the decision's `RetryTrace` in a left join."""


class RetryTrace(models.Model):
    """The steps that led to a decision: written with it.

    Only what holds the retry later adds a step, before the last one. Dispatch writes the row of a
    decision again, and would write these 1.4 kB again with it.
    """

    # A key in the database would be looked up at each insert. A trigger on the decisions deletes
    # traces, whoever deletes the decisions.
    decision = models.OneToOneField(
        RetryDecision,
        models.DO_NOTHING,
        primary_key=True,
        db_column="session_id",
        db_constraint=False,
        related_name="written_trace",
    )
    steps = models.JSONField()

    def __str__(self) -> str:
        return str(self.decision_id)


class RetryDefaults(models.Model):
    """The inline policy and the bounds of the cluster (no scope), a domain or a project."""

    domain = models.ForeignKey(Domain, models.CASCADE, null=True, blank=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True)
    policy = models.JSONField(default=dict)
    bounds = models.JSONField(default=dict)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "domain", "project", name="retry_defaults_one_a_scope", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(domain__isnull=True) | Q(project__isnull=True),
                name="retry_defaults_one_scope",
            ),
        ]
        verbose_name = verbose_name_plural = "retry defaults"

    def __str__(self) -> str:
        return str(self.project or self.domain or "cluster")


class RetrySettings(models.Model):
    """The switch of the cluster (no scope), a domain or a project; the strictest one applies."""

    domain = models.ForeignKey(Domain, models.CASCADE, null=True, blank=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True)
    mode = models.CharField(max_length=8, choices=MODE_CHOICES, default=Mode.ON)
    global_max_retries = models.PositiveIntegerField(null=True, blank=True)
    """The most retries of any chain; null: the shipped number, or none if `global_unlimited`."""
    global_unlimited = models.BooleanField(null=True, blank=True)
    """True or null, so that no other row tells of it."""
    default_policy = models.CharField(max_length=NAME_LENGTH, blank=True, default="", db_default="")
    """The policy of chains whose queue and session name none; "" for none."""
    retries_per_minute = models.PositiveIntegerField(null=True, blank=True)
    queue_retries_per_minute = models.PositiveIntegerField(null=True, blank=True)
    """The storm limits, of all queues together and of each; null: no limit.

    These two and the three fields above are set in the cluster's row only.
    """
    refuse_unfittable = models.BooleanField(null=True, blank=True)
    """Whether submissions that fit on no executor are refused; null: as the scope above says."""
    breaker = models.JSONField(null=True, blank=True)
    """The `BreakerRule` of the cluster or of a project; null: none. A domain has none."""
    retry_budget = models.JSONField(null=True, blank=True)
    """The shared retry budget of the scope: the fields of `SharedBudget`; null: none."""
    pod_defaults = models.JSONField(null=True, blank=True)
    """What pods of a project get where their sessions say nothing: `podspec/pod_defaults.py`; null:
    nothing. Only projects have some."""
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "domain", "project", name="retry_settings_one_a_scope", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(domain__isnull=True) | Q(project__isnull=True),
                name="retry_settings_one_scope",
            ),
            models.CheckConstraint(
                condition=Q(global_max_retries__isnull=True)
                | Q(domain__isnull=True, project__isnull=True),
                name="retry_settings_limit_is_the_clusters",
            ),
            models.CheckConstraint(
                condition=Q(
                    default_policy="",
                    retries_per_minute__isnull=True,
                    queue_retries_per_minute__isnull=True,
                )
                | Q(domain__isnull=True, project__isnull=True),
                name="retry_settings_policy_is_the_clusters",
            ),
        ]
        verbose_name = verbose_name_plural = "retry settings"

    def __str__(self) -> str:
        return str(self.project or self.domain or "cluster")

    @property
    def most_retries(self) -> int | None:
        """Return the cluster's limit of retries for any chain; None if it has none."""
        if self.global_max_retries is None and not self.global_unlimited:
            return GLOBAL_MAX_RETRIES
        return self.global_max_retries


class RetrySlots(models.Model):
    """Number of retries in one minute, in the cluster (no queue) or in one queue."""

    queue = models.ForeignKey(Queue, models.CASCADE, null=True, related_name="+")
    minute = models.DateTimeField()
    taken = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                "queue", "minute", name="retry_slots_one_a_minute", nulls_distinct=False
            )
        ]
        verbose_name = verbose_name_plural = "retry slots"

    def __str__(self) -> str:
        return f"{self.queue_id or 'cluster'} {self.minute}: {self.taken}"
