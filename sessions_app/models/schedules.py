"""Schedules: chains that are made at times."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from uuid_utils.compat import uuid7

from sessions_app.core.cadence import MAX_CRON, Cadence
from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH, Project

MAX_REASON = 300
KEPT = 50
"""Number of chains that a schedule remembers."""


class Overlap(models.TextChoices):
    """What happens at a time at which an earlier chain of the schedule has not ended."""

    ALLOW = "allow", "run beside it"
    SKIP = "skip", "leave this time out"
    CANCEL_RUNNING = "cancel_running", "cancel it"


class Schedule(models.Model):
    """A chain for each of its times, submitted as its owner.

    `next_at` moves in the transaction that makes the chain.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    name = models.CharField(max_length=NAME_LENGTH)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    queue = models.CharField(max_length=NAME_LENGTH, blank=True)
    """The name of a queue of the project; "" is the default queue."""
    cron = models.CharField(max_length=MAX_CRON, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    every = models.PositiveIntegerField(null=True, blank=True)
    """Seconds from one time to the next, without a cron expression."""
    template = models.JSONField()
    """The body of a submission, without what the schedule itself says."""
    overlap = models.CharField(max_length=16, choices=Overlap.choices, default=Overlap.ALLOW)
    catch_up = models.PositiveIntegerField(default=60)
    """Seconds for which missed times are made up."""
    jitter = models.PositiveIntegerField(default=0)
    """Most seconds by which a chain is made later than its time, but never later than its next
    one."""
    starts_at = models.DateTimeField(null=True, blank=True)
    until = models.DateTimeField(null=True, blank=True)
    pause_after = models.PositiveSmallIntegerField(null=True, blank=True)
    """Number of failed chains in a row after which it is paused."""
    paused_at = models.DateTimeField(null=True, blank=True)
    paused_reason = models.CharField(max_length=MAX_REASON, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    next_at = models.DateTimeField(null=True)
    """Its next time; null after the last one."""
    due_at = models.DateTimeField(null=True)
    """When it is looked at: `next_at` with the jitter, or later after a refusal."""
    last_at = models.DateTimeField(null=True)
    """The latest time for which a chain was made."""
    last_problem = models.CharField(max_length=MAX_REASON, blank=True)
    """Why the latest time has no chain; "" if it has one."""
    recent = ArrayField(models.UUIDField(), default=list, blank=True)
    """The roots of its latest chains without those of backfills, newest first."""
    judged_from = models.DateTimeField(default=timezone.now)
    """`pause_after` counts chains that began later."""
    by_hand = models.PositiveIntegerField(default=0)
    """Number of triggers and backfills."""

    class Meta:
        constraints = [
            models.UniqueConstraint("project", "name", name="schedule_name_unique"),
            models.CheckConstraint(
                condition=Q(name__regex=LABEL_PATTERN), name="schedule_name_label"
            ),
            models.CheckConstraint(
                condition=(~Q(cron="") & Q(every=None)) | Q(cron="", every__gt=0),
                name="schedule_cron_or_every",
            ),
            models.CheckConstraint(
                condition=Q(next_at=None, due_at=None)
                | Q(next_at__isnull=False, due_at__isnull=False),
                name="schedule_due_has_time",
            ),
        ]
        indexes = [
            models.Index(
                "due_at", condition=Q(paused_at=None, due_at__isnull=False), name="schedule_due"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project.address}/{self.name}"

    @property
    def cadence(self) -> Cadence:
        """Return its times."""
        return Cadence(
            anchor=self.created_at.replace(microsecond=0),
            cron=self.cron,
            time_zone=self.time_zone,
            every=self.every,
            first=self.starts_at,
            last=self.until,
        )

    @property
    def paused(self) -> bool:
        """Return whether it is paused."""
        return self.paused_at is not None
