"""Who did what."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.audit.context import ENGINE
from sessions_app.models.tenants import NAME_LENGTH

DISPATCH = "retry.dispatch"


class _Entry(models.Model):
    """What is told of an act."""

    time = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=150)
    """A user, `executor:<name>`, `reprise`, `manage.py`, or `sql:<role>`."""
    door = models.CharField(max_length=16, blank=True, default="", db_default="")
    """Through which they came, see `sessions_app/audit/context.py`; empty: not known."""
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
        abstract = True

    def __str__(self) -> str:
        return f"{self.action} {self.object_id}"


class AuditEntry(_Entry):
    """One act of a person, or what the engine dispatched before it had a table of its own.

    Append-only, which the database sees to. Changes of the configuration are written by its
    triggers, acts on sessions by the services.
    """

    id = models.BigAutoField(primary_key=True)

    class Meta:
        # All newest first. Of before the engine's dispatches had a table of their own there may be
        # a thousand times as many of them as of people's acts: what finds these does without them.
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


class AutomaticDispatch(models.Model):
    """A retry that the engine brought: most of the audit log, and kept for a time only.

    What is the same for all of them, such as their actor, is said by the view of the whole log.
    """

    id = models.BigIntegerField(primary_key=True)
    """From the sequence of `AuditEntry`, so that both together are one list."""
    time = models.DateTimeField()
    via = models.JSONField(default=dict)
    object_id = models.CharField(max_length=200)
    """The session that was retried."""
    project = models.CharField(max_length=128)
    domain = models.CharField(max_length=NAME_LENGTH)
    root = models.UUIDField(null=True)
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [
            # The whole list, and what is old enough to be deleted.
            models.Index("time", "id", name="dispatch_newest"),
            # What a maintainer sees, and an admin of a domain.
            models.Index("project", "time", "id", name="dispatch_project"),
            models.Index("domain", "time", "id", name="dispatch_domain"),
            # `session=`, and the history of a session in the admin.
            models.Index("object_id", name="dispatch_object"),
            # `chain=`.
            models.Index("root", name="dispatch_chain"),
        ]
        verbose_name = "automatic dispatch"
        verbose_name_plural = "automatic dispatches"


class AuditLog(_Entry):
    """The whole log: a view of both tables, over which each part goes by its own indexes."""

    id = models.BigIntegerField(primary_key=True)

    class Meta:
        managed = False
        db_table = "sessions_app_auditlog"
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
