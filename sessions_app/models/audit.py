"""Who did what."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.audit_context import ENGINE
from sessions_app.models.tenants import NAME_LENGTH

DISPATCH = "retry.dispatch"


class AuditEntry(models.Model):
    """One act of a person or of the engine. Append-only, which the database sees to.

    Changes of the configuration are written by its triggers, acts on sessions by the services.
    """

    id = models.BigAutoField(primary_key=True)
    time = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=150)
    """A user, `executor:<name>`, `reprise`, `manage.py`, or `sql:<role>`."""
    door = models.CharField(max_length=16, blank=True, default="", db_default="")
    """Through which they came, see `sessions_app/audit_context.py`; empty: not known."""
    via = models.JSONField(default=dict, db_default={}, blank=True)
    """The token's prefix, the id of the request or the name of the task, if there is one."""
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=200)
    project = models.CharField(max_length=128, blank=True)
    domain = models.CharField(max_length=NAME_LENGTH, blank=True, default="", db_default="")
    """The project's, too."""
    root = models.UUIDField(null=True)
    """Of the chain, for what was done to a session."""
    data = models.JSONField(default=dict)
    """Of a change of the configuration `before` and `after`, with the fields that differ."""

    class Meta:
        # All newest first. The engine's own acts, dispatches of sessions, are a thousand times as
        # many as those of people: what finds these is not burdened with them.
        indexes = [
            models.Index("object_type", "object_id", "id", name="audit_object"),
            models.Index("time", "id", name="audit_newest"),
            models.Index("time", "id", condition=~Q(actor=ENGINE), name="audit_of_people"),
            models.Index("project", "time", "id", name="audit_project"),
            models.Index("domain", "time", "id", name="audit_domain"),
            models.Index(
                "project", "time", "id", condition=~Q(actor=ENGINE), name="audit_project_people"
            ),
            models.Index(
                "domain", "time", "id", condition=~Q(actor=ENGINE), name="audit_domain_people"
            ),
            models.Index("actor", "time", "id", condition=~Q(actor=ENGINE), name="audit_actor"),
            models.Index("door", "time", "id", condition=~Q(actor=ENGINE), name="audit_door"),
            models.Index(
                "action", "time", "id", condition=~Q(action=DISPATCH), name="audit_action"
            ),
            models.Index(
                "object_type",
                "time",
                "id",
                condition=~Q(object_type="session"),
                name="audit_type",
            ),
            models.Index("root", condition=Q(root__isnull=False), name="audit_chain"),
        ]
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.action} {self.object_id}"
