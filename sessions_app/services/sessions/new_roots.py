"""New roots as values: those about to be inserted, and those that are refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from retry.policies.inline import InlinePolicy
from sessions_app.core.errors import DomainError
from sessions_app.core.states import Phase, Status
from sessions_app.core.time_limits import Times
from sessions_app.services.sessions.dependencies import Found
from sessions_app.services.sessions.submission import Placed


@dataclass(frozen=True, slots=True)
class Root:
    """A session about to be inserted with its events, and the values it is made of."""

    id: UUID
    placed: Placed
    policy: InlinePolicy
    policy_text: str
    policies: list[str]
    digest: str
    spec_id: UUID
    warnings: tuple[str, ...]
    times: Times
    """The times of its specification, within the limits of its queue."""
    phase: Phase = Phase.WAITING
    depends_on: Sequence[Found] = ()
    rank: int = 0
    """The value of its priority class."""
    retry_count: int = 0
    status: Status = Status.PENDING
    event_seq: int = 0

    @property
    def root_id(self) -> UUID:
        return self.id

    @property
    def project_id(self) -> int:
        return self.placed.project_id

    @property
    def job_set(self) -> str:
        return self.placed.submission.job_set

    @property
    def creation_id(self) -> str:
        return self.placed.submission.creation_id or str(self.id)

    def refused(self, error: DomainError) -> "Refused":
        """Return a refusal in its place; a session that already exists still counts."""
        return Refused(self.placed, error, self.digest, self.id)


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission that is refused, unless its session already exists."""

    placed: Placed
    error: DomainError
    digest: str
    id: UUID

    @property
    def project_id(self) -> int:
        return self.placed.project_id

    @property
    def creation_id(self) -> str:
        return self.placed.submission.creation_id or ""


Roots = list[Root | Refused]
