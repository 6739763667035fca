"""The shapes of bulk calls: an outcome for each session."""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from interfaces.shapes.session_shapes import Problem


class BulkOutcome(BaseModel):
    """The outcome of one item: `created`, `exists` (its `creation_id` was known) or `refused`."""

    outcome: str
    session_id: UUID | None
    problem: Problem | None
    warnings: list[str]
    """Warnings about values of the item that have no effect."""


class BulkOutcomes(BaseModel):
    """An outcome for each item, in the order of the request."""

    results: list[BulkOutcome]


class BulkCancelOutcome(BaseModel):
    """The outcome for one session: `cancelled` or `refused`."""

    session_id: UUID
    outcome: str
    problem: Problem | None


class BulkGiveUpOutcome(BulkCancelOutcome):
    """The outcome for one session: `given_up` or `refused`."""


class BulkPreemptOutcome(BulkCancelOutcome):
    """The outcome for one session: `preempted` or `refused`."""


class BulkUpdateOutcome(BulkCancelOutcome):
    """The outcome for one session: `updated` or `refused`."""


class BulkRetryOutcome(BaseModel):
    """The outcome for one session: `retried`, `scheduled` (for the slot at `due_at`) or `refused`.

    In a dry run `next_session_id` is null.
    """

    session_id: UUID
    outcome: str
    next_session_id: UUID | None
    due_at: datetime | None
    problem: Problem | None
    secrets_dropped: list[str] = []
    """The names of secrets that the new attempt does not get, because somebody else gave them and
    the call changes what runs; left out if there are none."""
    warnings: list[str] = []
    """That it fits on no executor with the changes; left out if there are none."""


class BulkCancelOutcomes(BaseModel):
    """One outcome for each session, newest first.

    If more sessions match than one call takes, send `next` as `after` in the next call. `remaining`
    is the number of sessions left, counted up to 10,000.
    """

    dry_run: bool
    results: list[BulkCancelOutcome]
    next: UUID | None
    remaining: int


class BulkRetryOutcomes(BulkCancelOutcomes):
    """The outcomes of a bulk retry. The fields are those of `BulkCancelOutcomes`."""

    results: list[BulkRetryOutcome]  # type: ignore[assignment]
    downstream: list[UUID] = []
    """The new attempts of the sessions downstream that do not match themselves, or in a dry run the
    failed ones; left out if there are none."""


class BulkGiveUpOutcomes(BulkCancelOutcomes):
    """The outcomes of giving up in bulk. The fields are those of `BulkCancelOutcomes`."""

    results: list[BulkGiveUpOutcome]  # type: ignore[assignment]


class BulkPreemptOutcomes(BulkCancelOutcomes):
    """The outcomes of a bulk preemption. The fields are those of `BulkCancelOutcomes`."""

    results: list[BulkPreemptOutcome]  # type: ignore[assignment]


class BulkUpdateOutcomes(BulkCancelOutcomes):
    """The outcomes of a bulk update. The fields are those of `BulkCancelOutcomes`."""

    results: list[BulkUpdateOutcome]  # type: ignore[assignment]
