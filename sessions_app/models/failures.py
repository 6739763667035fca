"""What the failures of a project have in common: their signatures, counted from the log."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from retry.signatures.signature import KEY_LENGTH, TITLE_LENGTH
from sessions_app.models.tenants import Project
from sessions_app.models.webhooks import Position

VALUE_LENGTH = 512
OTHER = "other"
"""The key under which what is new counts when too much is new."""


class FailureReader(Position):
    """The positions up to which the log was counted: a row for failures, one for reports.

    They are the same, unless one of them starts anew and reads on from its own place.
    """

    first_day = models.DateField(null=True)
    """Of reports: days before it stay as they were when all was counted anew."""
    summed_until = models.DateTimeField(null=True)
    """Of failures: totals are written for hours before it, where enough had changed."""


class Counts(models.Model):
    """What is counted of failures."""

    sessions = models.BigIntegerField(default=0)
    """Failed attempts."""
    chains = models.BigIntegerField(default=0)
    """Chains that failed so; each counts once, at its first such failure."""
    recovered_chains = models.BigIntegerField(default=0)
    """Those that succeeded later, each at its success."""
    lost_run_seconds = models.FloatField(default=0.0)
    """The run time of the failed attempts."""

    class Meta:
        abstract = True


class FailureSignature(Counts):
    """A signature of failures in one project. One sweep writes it; people write `muted` alone."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=KEY_LENGTH)
    title = models.CharField(max_length=TITLE_LENGTH, blank=True)
    cause = models.CharField(max_length=32)
    exit_code = models.IntegerField(null=True)
    """That of all such failures; null where it makes no difference, or where there is none."""
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    example = models.UUIDField()
    """The newest session that failed so."""
    muted = models.BooleanField(default=False)

    class Meta:
        verbose_name = "failure"
        constraints = [models.UniqueConstraint("project", "key", name="failure_signature_unique")]
        indexes = [
            models.Index("last_seen", name="failure_last_seen"),
            models.Index("key", condition=models.Q(muted=True), name="failure_muted"),
        ]

    def __str__(self) -> str:
        return self.key


class Dimension(models.TextChoices):
    """By what an hour's failures are told apart."""

    ALL = "", "all"
    QUEUE = "queue", "queue"
    IMAGE = "image", "image"
    NODE = "node", "node"


class FailureHour(Counts):
    """The failures of one signature in one hour: all of them, or those of one queue, image or node.

    An empty value in a dimension stands for those beyond the first 1,000 of the signature in the
    hour. A recovery counts in the hour and under the queue, image and node of the attempt that
    succeeded.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    dimension = models.CharField(max_length=8, choices=Dimension.choices, blank=True)
    value = models.CharField(max_length=VALUE_LENGTH, blank=True)
    hour = models.DateTimeField()
    key = models.CharField(max_length=KEY_LENGTH)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "dimension", "value", "hour", "key"], name="failure_hour_unique"
            )
        ]
        indexes = [
            models.Index("project", "key", "dimension", "hour", name="failure_hour_of_key"),
            models.Index("hour", name="failure_hour_old"),
        ]

    def __str__(self) -> str:
        return f"{self.key} {self.hour}"


class FailureLedger(models.Model):
    """What running totals are kept of, in the order in which it came.

    With a `key` these are the queues, images or nodes of a signature. Without, they are the keys of
    the signatures of a project, of one of its queues, images or nodes. Of several such ledgers the
    newest one goes on.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    dimension = models.CharField(max_length=8, choices=Dimension.choices, blank=True)
    value = models.CharField(max_length=VALUE_LENGTH, blank=True)
    key = models.CharField(max_length=KEY_LENGTH, blank=True)
    names = ArrayField(models.CharField(max_length=VALUE_LENGTH))

    class Meta:
        indexes = [
            models.Index("project", "dimension", "value", "key", "id", name="failure_ledger_of")
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.value or self.key}"


class FailureTotals(models.Model):
    """The totals of the names of a ledger before an hour, each since the ledger began.

    A name that came later has none yet. Ledgers with a key have the failed attempts alone.
    """

    ledger = models.ForeignKey(FailureLedger, models.CASCADE, related_name="+", db_index=False)
    hour = models.DateTimeField()
    sessions = ArrayField(models.IntegerField())
    chains = ArrayField(models.IntegerField(), null=True)
    recovered_chains = ArrayField(models.IntegerField(), null=True)
    lost_run_seconds = ArrayField(models.FloatField(), null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["ledger", "hour"], name="failure_totals_unique")
        ]
        indexes = [models.Index("hour", name="failure_totals_old")]

    def __str__(self) -> str:
        return str(self.hour)
