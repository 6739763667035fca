"""The shapes of shared retry budgets, for the OpenAPI document."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from interfaces.shapes.pages import ForwardPage


class RetryBudget(BaseModel):
    """A shared retry budget, and how it stands in its window."""

    scope: str
    """`cluster`, or the name of the domain, the project (`domain/name`) or the queue
    (`domain/project/name`)."""
    level: Literal["cluster", "domain", "project", "queue"]
    key: str
    """What `held_key` of a retry says that waits for it."""
    ratio: float
    burst: int
    window: int
    over: Literal["postpone", "fail"]
    platform: bool
    first_attempts: int
    """First attempts in the window, counted since the budget was set."""
    retries: int
    """Automatic retries in the window."""
    allowed: int
    """The most retries in the window, with these first attempts."""
    left: int
    held: int
    """Retries that wait for it, counted up to 10,000."""
    spent_since: datetime | None
    """Null while it has room; at most a few seconds late."""
    spent_times: int
    """How often it was spent."""


class RetryBudgetPage(ForwardPage[RetryBudget]):
    """A page of shared retry budgets."""
