"""The log of everything that happened to sessions."""

from typing import Any

from django.db import models
from django.db.models.expressions import RawSQL

from sessions_app.models.tenants import Project


class TransactionIdField(models.Field):  # type: ignore[type-arg]  # not generic at run time
    """PostgreSQL's `xid8`: the id of the writing transaction, which orders what readers may see."""

    def db_type(self, connection: Any) -> str:  # noqa: ARG002  # Django's signature
        return "xid8"


class SessionEvent(models.Model):
    """One fact of one session. Append-only; `seq` has no gaps in a session.

    `session_id` and `root_id` are no foreign keys: events outlive the rows.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.UUIDField()
    root_id = models.UUIDField()
    project = models.ForeignKey(Project, models.PROTECT, related_name="+", db_index=False)
    job_set = models.CharField(max_length=128, blank=True)
    attempt = models.PositiveIntegerField()
    seq = models.IntegerField()
    type = models.CharField(max_length=40)
    time = models.DateTimeField()
    xid = TransactionIdField(db_default=RawSQL("pg_current_xact_id()", ()))
    data = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint("session_id", "seq", name="event_seq_unique")]
