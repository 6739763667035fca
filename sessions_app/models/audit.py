"""The audit log."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.audit.context import ENGINE
from sessions_app.models.tenants import NAME_LENGTH

DISPATCH = "retry.dispatch"


class _Entry(models.Model):
    """The common columns of the audit log."""

    time = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=150)
    """A user, `executor:<name>`, `reprise`, `manage.py`, or `sql:<role>`."""
    door = models.CharField(max_length=16, blank=True, default="", db_default="")
    """The door of the change, see `sessions_app/audit/context.py`; "" if not known."""
    via = models.JSONField(default=dict, db_default={}, blank=True)
    """The token's prefix, the id of the request or the name of the task, as far as there is one."""
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32)
    object_id = models.CharField(max_length=200)
    project = models.CharField(max_length=128, blank=True)
    domain = models.CharField(max_length=NAME_LENGTH, blank=True, default="", db_default="")
    """Also set if there is a project."""
    root = models.UUIDField(null=True)
    """The root of the chain, for acts on a session."""
    data = models.JSONField(default=dict)
    """For a change of configuration: `before` and `after`, with the fields that differ."""

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.action} {self.object_id}"


class AuditEntry(_Entry):
    """One act of a person, or a dispatch by the engine from before those had their own table.

    Append-only, which the database enforces. Its triggers write the changes of configuration; the
    services write the acts on sessions.
    """

    id = models.BigAutoField(primary_key=True)

    class Meta:
        # All newest first. Old dispatches of the engine may outnumber the acts of people by a
        # thousand, so the indexes for acts of people leave them out.
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
    """A retry that the engine dispatched: most of the audit log, kept for a limited time only.

    The view of the whole log adds the values that are the same for all, such as the actor.
    """

    id = models.BigIntegerField(primary_key=True)
    """From the sequence of `AuditEntry`, so that both tables form one list."""
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
            # The whole list, and rows old enough to be deleted.
            models.Index("time", "id", name="dispatch_newest"),
            # The lists of a maintainer and of a domain's admin.
            models.Index("project", "time", "id", name="dispatch_project"),
            models.Index("domain", "time", "id", name="dispatch_domain"),
            # The filter `session=`, and the history of a session in the admin.
            models.Index("object_id", name="dispatch_object"),
            # The filter `chain=`.
            models.Index("root", name="dispatch_chain"),
        ]
        verbose_name = "automatic dispatch"
        verbose_name_plural = "automatic dispatches"


class AuditLog(_Entry):
    """The whole log: a view of both tables, each of which uses its own indexes."""

    id = models.BigIntegerField(primary_key=True)

    class Meta:
        managed = False
        db_table = "sessions_app_auditlog"
        verbose_name = "audit entry"
        verbose_name_plural = "audit entries"
