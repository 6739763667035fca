"""The overview of present activity, as a call and its answer."""

from datetime import datetime

from pydantic import Field

from reprise_client.calls import Calls, present
from reprise_client.models import Answer
from reprise_client.operator_models import Executor


class Counted(Answer):
    """A count. With `more` there are at least so many."""

    value: int = 0
    more: bool = False


class RetriesWaiting(Answer):
    """Retries that wait for their time, or are held by a switch."""

    scheduled: Counted = Counted()
    held: Counted = Counted()


class Pace(Answer):
    """The numbers of the last `window` seconds, and the causes of failures in `cause_window`."""

    window: float = 10.0
    submitted: int = 0
    settled: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    cause_window: float = 60.0
    causes: dict[str, int] = Field(default_factory=dict)

    def rate(self, count: int) -> float:
        """Return a count within the window as a rate per second."""
        return count / self.window if self.window > 0 else 0.0


class QueueLook(Answer):
    """A queue in which sessions wait or run. `share` is its part of the whole pool."""

    project: str
    name: str
    priority_factor: float = 1.0
    cordoned: bool = False
    waiting: Counted = Counted()
    live: int = 0
    share: float = 0.0
    effective_priority: float = 0.0

    @property
    def address(self) -> str:
        """Return `domain/project/name`."""
        return f"{self.project}/{self.name}"


class Overview(Answer):
    """The whole overview. `executors` is None for users who may not see them."""

    at: datetime
    waiting: Counted = Counted()
    live: int = 0
    retries: RetriesWaiting = RetriesWaiting()
    pace: Pace = Pace()
    queues: list[QueueLook] = Field(default_factory=list)
    more_queues: int = 0
    executors: list[Executor] | None = None


class OverviewCalls(Calls):
    """The call for the overview."""

    def overview(self, *, project: str | None = None) -> Overview:
        """Return the overview of a project, or of everything that the user may see."""
        return self._get(Overview, "/overview/", present({"project": project}))
