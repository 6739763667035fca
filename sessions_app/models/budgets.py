"""What counts in shared retry budgets, each behind the key of its scope.

A key is `cluster`, or `domain:ID`, `project:ID`, `queue:ID`. No row belongs to a record, so nothing
but the sweep deletes one.
"""

from django.db import models

SCOPE_LENGTH = 40


class RetryBudgetMinute(models.Model):
    """What a scope with a shared budget did in one minute.

    What commits charged side by side has rows of its own until the sweep merges them, at one of the
    first seconds of the minute: one row would let them wait for each other.
    """

    scope = models.CharField(max_length=SCOPE_LENGTH)
    minute = models.DateTimeField()
    first_attempts = models.PositiveIntegerField(default=0)
    retries = models.PositiveIntegerField(default=0)
    """Automatic ones, of causes that the budget counts."""

    class Meta:
        constraints = [models.UniqueConstraint("scope", "minute", name="retry_budget_one_a_minute")]

    def __str__(self) -> str:
        return f"{self.scope} {self.minute}: {self.retries} of {self.first_attempts}"


class RetryBudgetState(models.Model):
    """The verdict of the sweep about a shared budget."""

    scope = models.CharField(max_length=SCOPE_LENGTH, unique=True)
    spent_since = models.DateTimeField(null=True)
    """Since when it has been spent; null: it has room."""
    judged_at = models.DateTimeField()
    spent_times = models.PositiveIntegerField(default=0)
    """How often it was spent."""

    def __str__(self) -> str:
        return f"{self.scope}: {'spent' if self.spent_since else 'has room'}"
