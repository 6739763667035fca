"""Breakers across chains: signatures whose retries are held, and the failures that opened them."""

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from retry.signatures.signature import KEY_LENGTH
from sessions_app.models.queues import Queue
from sessions_app.models.tenants import Project

MAX_REASON = 256


class BreakerState(models.TextChoices):
    """Whether a breaker holds retries."""

    OPEN = "open", "open"
    CLOSED = "closed", "closed"


class Breaker(models.Model):
    """One signature in the cluster (no project), a project (no queue) or a queue.

    One sweep, and people, write it, all under the lock of the breakers. It stays when it closes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    scope = models.CharField(max_length=32)
    """`scope_key` of `retry/breakers.py`; with the signature, the `held_key` of what it holds."""
    project = models.ForeignKey(Project, models.CASCADE, null=True, related_name="+")
    """Also the project of the queue."""
    queue = models.ForeignKey(Queue, models.CASCADE, null=True, related_name="+")
    signature = models.CharField(max_length=KEY_LENGTH)
    state = models.CharField(max_length=8, choices=BreakerState.choices)
    muted = models.BooleanField(default=False)
    """Whether it does not open by itself any more."""
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    """Why it opened or closed last, in words."""
    chains = models.IntegerField(default=0)
    """Number of chains that failed so when it opened."""
    opened_at = models.DateTimeField(default=timezone.now)
    opened_by = models.CharField(max_length=150, blank=True)
    """Who opened it; "" for the engine itself. Likewise `closed_by`."""
    closed_at = models.DateTimeField(null=True)
    closed_by = models.CharField(max_length=150, blank=True)
    probe_delay = models.FloatField(default=0.0)
    """Seconds before the next probe."""
    probe_at = models.DateTimeField(null=True)
    """When the next probe may begin, while there is none."""
    probe = models.UUIDField(null=True)
    """The failed session whose retry is the probe."""
    probe_since = models.DateTimeField(null=True)
    probes = models.IntegerField(default=0)
    """Number of probes since it opened."""
    projects = models.JSONField(default=list)
    """Ids of the projects whose logs tell of it."""
    event_seq = models.IntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint("scope", "signature", name="breaker_one_a_scope"),
        ]
        indexes = [
            models.Index("project", condition=Q(state="open"), name="breaker_open"),
        ]

    def __str__(self) -> str:
        return f"{self.scope}/{self.signature}"

    @property
    def address(self) -> str:
        """Return the name of its scope: `cluster`, `domain/project` or `domain/project/queue`."""
        if self.queue is not None and self.project is not None:
            return f"{self.project.address}/{self.queue.name}"
        return "cluster" if self.project is None else self.project.address


class BreakerFailure(models.Model):
    """A chain that failed with a signature, at the last such time. One sweep writes it."""

    signature = models.CharField(max_length=KEY_LENGTH)
    root_id = models.UUIDField()
    project_id = models.BigIntegerField()
    queue_id = models.BigIntegerField()
    failed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint("signature", "root_id", name="breaker_failure_unique"),
        ]
        indexes = [models.Index("failed_at", name="breaker_failure_old")]

    def __str__(self) -> str:
        return f"{self.signature} {self.root_id}"
