"""Webhooks: the endpoints that get events, and the deliveries."""

from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.db.models import Q
from django.utils import timezone
from uuid_utils.compat import uuid7

from sessions_app.core.cursors import Cursor
from sessions_app.models.events import TransactionIdField
from sessions_app.models.tenants import Project

MAX_URL = 2_000
MAX_REASON = 300
MAX_SECRET = 300

# A ping also goes to a webhook that is paused.
_ANY = """
    SELECT EXISTS (SELECT FROM sessions_app_webhookendpoint WHERE paused_at IS NULL)
        OR EXISTS (SELECT FROM sessions_app_webhookdelivery
            WHERE event_id IS NULL AND due_at IS NOT NULL)
"""


class Position(models.Model):
    """A position up to which the log was read; without one, all columns are null."""

    epoch = models.BigIntegerField(null=True)
    xid = TransactionIdField(null=True)
    event_id = models.BigIntegerField(null=True)

    class Meta:
        abstract = True

    @property
    def position(self) -> Cursor | None:
        """Return the position as a cursor."""
        if self.epoch is None or self.event_id is None:
            return None
        return Cursor(self.epoch, int(self.xid), self.event_id)


class WebhookReader(Position):
    """The position up to which the log was read for all webhooks that keep up: one row."""


class WebhookSender(models.Model):
    """A task that sends webhooks, until it ends or its time is over."""

    number = models.SmallIntegerField(primary_key=True)
    token = models.UUIDField()
    until = models.DateTimeField()


class WebhookEndpoint(Position):
    """A URL that gets a project's events.

    A webhook that keeps up has no position of its own: it shares the reader's. `paused_at` stops
    it; events that happen meanwhile wait in the log, after its position.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    url = models.CharField(max_length=MAX_URL)
    host = models.CharField(max_length=300)
    """Host and port; limits on connections count all webhooks with the same host."""
    description = models.CharField(max_length=MAX_REASON, blank=True)
    event_types = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    """Event types, or prefixes followed by `*`; empty: all."""
    secret = models.CharField(max_length=MAX_SECRET)
    """Encrypted; or as an older version left it: `whsec_` and base64."""
    previous_secret = models.CharField(max_length=MAX_SECRET, blank=True)
    previous_secret_until = models.DateTimeField(null=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now)
    paused_at = models.DateTimeField(null=True)
    paused_reason = models.CharField(max_length=MAX_REASON, blank=True)
    failures = models.PositiveIntegerField(default=0)
    """Number of failed attempts since the last success."""
    failing_since = models.DateTimeField(null=True)

    new_secret = ""
    """The secret in the clear, only if it was created just now, to be shown once."""

    class Meta:
        verbose_name = "webhook"
        indexes = [models.Index("project", name="webhook_active", condition=Q(paused_at=None))]
        constraints = [
            models.CheckConstraint(
                condition=Q(paused_at=None, paused_reason="")
                | (Q(paused_at__isnull=False) & ~Q(paused_reason="")),
                name="webhook_paused_for_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class DeliveryState(models.TextChoices):
    """The state of a delivery."""

    WAITING = "waiting", "waiting"
    DELIVERED = "delivered", "delivered"
    FAILED = "failed", "failed"
    """Given up."""


class WebhookDelivery(models.Model):
    """One event on its way to one webhook; pings and events of the cluster are not in the log.

    Of each session only the first waiting delivery is due; the next one follows when that has
    ended.
    """

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(WebhookEndpoint, models.CASCADE, related_name="+", db_index=False)
    event_id = models.BigIntegerField(null=True)
    session_id = models.UUIDField(null=True)
    type = models.CharField(max_length=40)
    state = models.CharField(
        max_length=12, choices=DeliveryState.choices, default=DeliveryState.WAITING
    )
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    """For a delivery that is being sent: when it counts as lost with its sender."""
    claim = models.UUIDField(null=True)
    """The id of the batch in which it is being sent."""
    redelivery = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    attempted_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    response_code = models.PositiveSmallIntegerField(null=True)
    response_excerpt = models.TextField(blank=True)
    error = models.CharField(max_length=MAX_REASON, blank=True)
    latency_ms = models.PositiveIntegerField(null=True)
    data = models.JSONField(null=True)
    """What an event of the cluster says; null for a ping, and if the log has the event."""

    class Meta:
        verbose_name = "webhook delivery"
        verbose_name_plural = "webhook deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "event_id"],
                condition=Q(redelivery=False),
                name="webhook_told_once",
            ),
            models.CheckConstraint(
                condition=Q(state="waiting", finished_at=None)
                | (~Q(state="waiting") & Q(finished_at__isnull=False, due_at=None, claim=None)),
                name="webhook_finished_at",
            ),
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "due_at"],
                condition=Q(due_at__isnull=False),
                name="webhook_due",
            ),
            models.Index(
                fields=["endpoint", "session_id", "id"],
                condition=Q(state="waiting"),
                name="webhook_line",
            ),
            models.Index(
                fields=["endpoint"], condition=Q(claim__isnull=False), name="webhook_in_flight"
            ),
            models.Index(
                fields=["due_at"],
                condition=Q(event_id=None, due_at__isnull=False),
                name="webhook_ping_due",
            ),
            models.Index(fields=["endpoint", "id"], name="webhook_log"),
            models.Index(fields=["endpoint", "session_id", "id"], name="webhook_of_session"),
            models.Index(
                fields=["endpoint", "id"], condition=Q(state="failed"), name="webhook_given_up"
            ),
            models.Index(
                fields=["finished_at"],
                condition=Q(finished_at__isnull=False),
                name="webhook_finished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.pk}"

    @property
    def message_id(self) -> str:
        """Return the `webhook-id`: the same for every attempt and redelivery of an event."""
        return message_id(self.pk, self.event_id, ping=self.data is None)


def message_id(delivery: int, event: int | None, *, ping: bool) -> str:
    """Return the `webhook-id` of a delivery; `event` None: the log does not have it."""
    if event is not None:
        return f"evt_{event}"
    return f"ping_{delivery}" if ping else f"cluster_{delivery}"


def webhooks_any() -> bool:
    """Return whether a webhook is active or a ping is due."""
    with connection.cursor() as cursor:
        cursor.execute(_ANY)
        return bool(cursor.fetchone()[0])
