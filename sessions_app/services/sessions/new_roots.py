"""New roots: submissions on their way to be the first attempts of chains."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from uuid_utils.compat import uuid7

from retry.policies.inline import InlinePolicy
from sessions_app.core.dependencies import Parent, is_met
from sessions_app.core.errors import DomainError
from sessions_app.core.states import Phase, Status
from sessions_app.core.time_limits import Times
from sessions_app.services.sessions.submission import Placed


class Found(NamedTuple):
    """A dependency of a new chain, as it is stored."""

    root_id: UUID
    place: int
    when: str
    parent: Parent

    @property
    def met(self) -> bool | None:
        """Return whether it is met; None if nobody knows yet."""
        return is_met(self.when, self.parent.outcome) if self.parent.outcome else None


class NewRoot:
    """A submission, and what each step of submit finds out about it.

    With a `refusal` it is not inserted; a session that has its `creation_id` already still counts.
    """

    policy: InlinePolicy
    """The policy that the chain keeps."""
    policy_text: str
    policies: list[str]
    """The named policies of the chain."""
    times: Times
    """The times of its specification, within the limits of its queue."""

    def __init__(self, placed: Placed):
        self.placed = placed
        self.digest = placed.submission.digest(placed.queue)
        self.id, self.spec_id = uuid7(), uuid7()
        self.rank = 0
        """The value of its priority class."""
        self.warnings: tuple[str, ...] = ()
        self.depends_on: Sequence[Found] = ()
        self.refusal: DomainError | None = None
        self.inserted = False

    # Its first event is written as those of any session are.
    retry_count = 0
    status = Status.PENDING
    event_seq = 0

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
    def is_named(self) -> bool:
        """Return whether it came with a `creation_id`, so that it may be there already."""
        return self.placed.submission.creation_id is not None

    @property
    def creation_id(self) -> str:
        return self.placed.submission.creation_id or str(self.id)

    @property
    def phase(self) -> Phase:
        """Return the phase in which it begins: blocked if it has to wait, or never runs."""
        waits = self.unmet or any(each.met is None for each in self.depends_on)
        return Phase.BLOCKED if waits else Phase.WAITING

    @property
    def unmet(self) -> bool:
        """Return whether the chain is cancelled at once, for what it waits for ended otherwise."""
        cancels = self.placed.submission.on_dependency_failure == "cancel"
        return cancels and any(each.met is False for each in self.depends_on)
