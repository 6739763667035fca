"""What retries were worth, counted from the log."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from sessions_app.core.retry_worth import Dimension
from sessions_app.models.tenants import Project

VALUE_LENGTH = 512
DIMENSIONS = [(each.value, each.value or "all") for each in Dimension]


class RetryDay(models.Model):
    """The chains of a project that ended on one day (UTC): all, or those with one value.

    One sweep writes it. An empty value in a dimension stands for those beyond the first 1,000
    values of the day. `docs/reports.md` defines the figures; times are seconds.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    dimension = models.CharField(max_length=12, choices=DIMENSIONS, blank=True)
    value = models.CharField(max_length=VALUE_LENGTH, blank=True)
    day = models.DateField()
    chains = models.BigIntegerField()
    retried = models.BigIntegerField()
    recovered = models.BigIntegerField()
    given_up = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    attempts = models.BigIntegerField()
    run = models.FloatField()
    rescued = models.FloatField()
    wasted = models.FloatField()
    """Run time of failed attempts, without the part that the next attempt kept (`kept_parts`)."""
    waiting = models.FloatField()
    recoveries = ArrayField(models.BigIntegerField())
    """Number of recovered chains in each bucket of the time that it took (`bucket_of`)."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "dimension", "day", "value"], name="retry_day_unique"
            )
        ]
        indexes = [models.Index("day", name="retry_day_old")]

    def __str__(self) -> str:
        return f"{self.dimension} {self.value} {self.day}"


class RetryAdvice(models.Model):
    """What a replay of a project's chains showed last: `retry.advice`. One task writes it."""

    project = models.OneToOneField(Project, models.CASCADE, primary_key=True, related_name="+")
    computed_at = models.DateTimeField()
    facts = models.JSONField()

    def __str__(self) -> str:
        return str(self.project_id)
