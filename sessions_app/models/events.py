"""The log of everything that happened to sessions."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KT

from sessions_app.core.cursors import Cursor
from sessions_app.models.tenants import Project

ARCHIVED = "session.archived"
"""The last event of a session whose row was deleted: it holds what no other event contains."""


class TransactionIdField(models.Field):  # type: ignore[type-arg]  # not generic at run time
    """PostgreSQL's `xid8`: the id of the writing transaction, which orders what readers may see."""

    def db_type(self, connection: Any) -> str:  # noqa: ARG002  # Django's signature
        return "xid8"


class SessionEvent(models.Model):
    """One fact of one session. Append-only; `seq` has no gaps in a session.

    `session_id` and `root_id` are no foreign keys, since events outlive the rows.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.UUIDField()
    root_id = models.UUIDField()
    # Without a constraint: deleting a project would have to search all events for it.
    # `project_delete` checks in another way whether there are any.
    project = models.ForeignKey(
        Project, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False
    )
    job_set = models.CharField(max_length=128, blank=True)
    attempt = models.PositiveIntegerField()
    seq = models.IntegerField()
    type = models.CharField(max_length=40)
    time = models.DateTimeField()
    epoch = models.BigIntegerField(db_default=RawSQL("reprise_epoch()", ()))
    """The epoch of the database: grows whenever it is set back to an earlier moment."""
    xid = TransactionIdField(db_default=RawSQL("pg_current_xact_id()", ()))
    data = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint("session_id", "seq", name="event_seq_unique")]
        indexes = [
            models.Index(fields=["xid"], name="event_xid"),
            models.Index(
                fields=["project", "job_set", "epoch", "xid", "id"],
                condition=~Q(job_set=""),
                name="event_job_set",
            ),
            models.Index(
                fields=["time"], condition=Q(type=ARCHIVED, attempt=0), name="event_archived"
            ),
            # The session that had a `creation_id`.
            models.Index(
                "project",
                KT("data__archive__session__creation_id"),
                condition=Q(type=ARCHIVED),
                name="event_archived_named",
            ),
        ]

    @property
    def address(self) -> str:
        """Return the address of its project: `domain/name`."""
        return self.project.address

    @property
    def cursor(self) -> Cursor:
        """Return its position in the streams of job sets."""
        return Cursor(self.epoch, int(self.xid), self.pk)
