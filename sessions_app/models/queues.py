"""Queues: where sessions wait."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH, Project


class Queue(models.Model):
    """A line of waiting sessions in one project; a lower factor is more important."""

    project = models.ForeignKey(Project, models.PROTECT, related_name="queues")
    name = models.CharField(max_length=NAME_LENGTH)
    is_default = models.BooleanField(default=False)
    priority_factor = models.FloatField(default=1.0)
    cordoned = models.BooleanField(default=False)
    cordon_reason = models.CharField(max_length=256, blank=True)
    resource_limits = models.JSONField(default=dict, db_default={}, blank=True)
    """Limits on what its sessions hold: Kubernetes quantities by resource, and "sessions"."""
    time_limits = models.JSONField(default=dict, db_default={}, blank=True)
    """By the name of a time of sessions: its `default` and its `max`, in seconds."""
    retry_policies = models.JSONField(default=list, db_default=[], blank=True)
    """Names of policies, in order; each exists in a scope that contains this queue."""
    breaker = models.JSONField(null=True, blank=True)
    """The `BreakerRule` of its sessions; null: none of its own."""
    retry_budget = models.JSONField(null=True, blank=True)
    """Its shared retry budget: the fields of `SharedBudget`; null: none."""
    created_at = models.DateTimeField(default=timezone.now)

    scope_text: str | None = None
    """The value of `retry_scope.SCOPE` for its project, if it was read together with the queue."""

    class Meta:
        constraints = [
            models.UniqueConstraint("project", "name", name="queue_name_unique"),
            models.UniqueConstraint(
                "project", condition=Q(is_default=True), name="queue_one_default"
            ),
            models.CheckConstraint(condition=Q(name__regex=LABEL_PATTERN), name="queue_name_label"),
            models.CheckConstraint(
                condition=Q(priority_factor__gt=0), name="queue_factor_positive"
            ),
        ]
        indexes = [
            models.Index(
                "project", condition=Q(retry_budget__isnull=False), name="queue_with_retry_budget"
            )
        ]

    def __str__(self) -> str:
        return f"{self.project.address}/{self.name}"
