"""Who runs what, until when."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.models import Project, Session
from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH


class Executor(models.Model):
    """A process beside one cluster. Its one row is renewed, not each of its leases."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    projects = models.ManyToManyField(Project, blank=True)
    """The only projects it serves; none means all."""
    incarnation = models.BigIntegerField(default=0)
    round = models.BigIntegerField(default=0, db_default=0)
    """Of the newest lease call of this incarnation."""
    driver = models.CharField(max_length=32, blank=True)
    nodes = models.JSONField(default=list)
    max_sessions = models.PositiveIntegerField(default=0)
    last_seen_at = models.DateTimeField(null=True)
    cordoned = models.BooleanField(default=False)
    unconfirmed_after = models.FloatField(null=True, blank=True)
    """Seconds; empty: the setting. 0 and less: never."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(name__regex=LABEL_PATTERN), name="executor_name_label"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Lease(models.Model):
    """The right of one executor to run one session. Counts while its token is the session's."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="lease")
    executor = models.ForeignKey(Executor, models.PROTECT, related_name="leases")
    fencing_token = models.BigIntegerField(unique=True)
    granted_at = models.DateTimeField()
    accepted = models.BooleanField(default=False)
    lost_at = models.DateTimeField(null=True)
    """When its executor had been silent for too long."""
    run_deadline = models.DateTimeField(null=True)
    """When even a run that nobody watches must have ended: acceptance + batch timeout + grace."""

    class Meta:
        indexes = [models.Index("granted_at", condition=Q(accepted=False), name="lease_unaccepted")]

    def __str__(self) -> str:
        return str(self.session_id)
