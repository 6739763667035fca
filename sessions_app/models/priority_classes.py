"""Priority classes: ranks of sessions that cluster admins define."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.core.priorities import MOST_RANK
from sessions_app.models.tenants import NAME_LENGTH


class PriorityClass(models.Model):
    """A rank of sessions. Its value is stored with each session that names it: it never changes."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    value = models.IntegerField(unique=True)
    """Sessions of a higher value go first within their queue."""
    preemptible = models.BooleanField(default=True)
    """Whether its running sessions may have to make room for others."""
    may_preempt = models.BooleanField(default=False)
    """Whether its waiting sessions may take the room of lower classes."""
    protected_for = models.FloatField(default=0.0)
    """Seconds of running in which a session is no victim."""
    domains = models.JSONField(default=list)
    """Names of the domains whose projects may name it."""
    projects = models.JSONField(default=list)
    """Projects that may name it, as `domain/name`. If both are empty, only cluster admins may name
    it; the default class is for all."""
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "priority classes"
        constraints = [
            models.CheckConstraint(
                condition=Q(value__gte=-MOST_RANK, value__lte=MOST_RANK),
                name="priority_class_value",
            ),
            models.CheckConstraint(
                condition=Q(protected_for__gte=0), name="priority_class_protection"
            ),
        ]

    def __str__(self) -> str:
        return self.name
