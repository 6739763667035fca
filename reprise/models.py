"""Records that the processes keep about themselves, for operators. The domain does not use them."""

from django.db import models
from django.db.models import Q

NAME_LENGTH = 200


class Heartbeat(models.Model):
    """A process that is alive, or could write (part `disk`), by the database's clock."""

    part = models.CharField(max_length=16)
    name = models.CharField(max_length=NAME_LENGTH)
    """The name of the host and the number of the process."""
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    doing = models.TextField(blank=True, default="", db_default="")
    """What it does beside its usual work, and why; "" for nothing."""

    class Meta:
        constraints = [models.UniqueConstraint("part", "name", name="heartbeat_one_a_process")]

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


class PeriodicRun(models.Model):
    """The last run of a periodic task, and the counts of runs and failures."""

    name = models.CharField(max_length=NAME_LENGTH, primary_key=True)
    """The name of django-celery-beat's row."""
    started_at = models.DateTimeField()
    duration = models.FloatField()
    """Duration in seconds."""
    result = models.TextField(blank=True)
    error = models.TextField(blank=True)
    runs = models.BigIntegerField(default=1)
    failures = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = "periodic run"


class SweepStart(models.Model):
    """The last time a worker began a sweep of deadlines, by the database's clock."""

    task = models.CharField(max_length=NAME_LENGTH, primary_key=True)
    taken_at = models.DateTimeField()

    class Meta:
        verbose_name = "start of a sweep"


class ParkedState(models.TextChoices):
    """The state of a parked task."""

    PARKED = "parked", "parked"
    SENT = "sent", "sent again"
    DISCARDED = "discarded", "discarded"


class ParkedTask(models.Model):
    """A task that was taken off its queue because every worker that took it died with it."""

    task_id = models.CharField(max_length=NAME_LENGTH, unique=True)
    name = models.CharField(max_length=NAME_LENGTH)
    arguments = models.TextField(blank=True)
    queue = models.CharField(max_length=NAME_LENGTH)
    reason = models.CharField(max_length=64)
    """RabbitMQ's reason: `delivery_limit` or `rejected`."""
    state = models.CharField(max_length=12, choices=ParkedState.choices, default=ParkedState.PARKED)
    first_parked_at = models.DateTimeField()
    parked_at = models.DateTimeField()
    """The last time that it was parked, by the broker's clock."""
    times = models.IntegerField(default=1)
    """Number of times that it was parked."""
    handled_at = models.DateTimeField(null=True)
    handled_by = models.CharField(max_length=150, blank=True)
    message = models.BinaryField()
    """The message as it was received, to be sent again."""

    class Meta:
        verbose_name = "parked task"
        indexes = [models.Index("parked_at", condition=Q(state="parked"), name="parked_waiting")]

    def __str__(self) -> str:
        return self.task_id


class EventCount(models.Model):
    """Counts of the events up to `EventCursor`, for `/metrics`; they outlive pruned events."""

    metric = models.CharField(max_length=64)
    labels = models.JSONField(default=dict)
    value = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint("metric", "labels", name="event_count_one_a_series")]


class EventCursor(models.Model):
    """The position up to which events are counted, and the next mark: one row.

    All events up to `fence_id` are visible once no transaction older than `fence_xid` runs.
    """

    counted_id = models.BigIntegerField(default=0)
    fence_id = models.BigIntegerField(default=0)
    fence_xid = models.BigIntegerField(default=0)
    fence_at = models.DateTimeField()


class HourCount(models.Model):
    """Number of events of one kind in one hour, up to `EventCursor`, for the trends of operators.

    Not a metric: servers of the previous release would not know it.
    """

    hour = models.DateTimeField()
    """Its beginning."""
    type = models.CharField(max_length=40)
    cause = models.CharField(max_length=32, blank=True)
    """The cause of a failure; "" for all other events."""
    value = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint("hour", "type", "cause", name="hour_count_one_a_kind")
        ]
