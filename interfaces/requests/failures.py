"""The queries and the body of calls about failures."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictBool

from interfaces.requests.queries import ADDRESS_PATTERN, PageQuery, Text, Time, lowered
from interfaces.requests.strict import StrictModel
from retry.evidence.causes import RetryCause
from sessions_app.selectors.failures import FailuresWanted

MOST_OFFSET = 5_000_000


class FailureFilter(PageQuery):
    """The query parameters of `GET /failures/`."""

    project: Text | None = None
    """`domain/name`."""
    since: Time | None = None
    """The beginning of the time, counted from its hour on; by default a day before `until`."""
    until: Time | None = None
    """The end of the time; by default now."""
    cause: Annotated[RetryCause, BeforeValidator(lowered)] | None = None
    queue: Text | None = None
    """Only what failed in it; only one of `queue`, `image` and `node` may be given."""
    image: Text | None = None
    node: Text | None = None
    """`executor/name`, or the name alone for the nodes of all executors that have it."""
    muted: bool | None = None
    ordering: Literal[
        "sessions", "-sessions", "chains", "-chains", "recovered_chains", "-recovered_chains",
        "lost_run_seconds", "-lost_run_seconds", "last_seen", "-last_seen", "first_seen",
        "-first_seen",
    ] = "-sessions"  # fmt: skip

    def wanted(self, now: datetime) -> FailuresWanted:
        """Return the filter in the selector's form. Raises `InvalidInput`."""
        return FailuresWanted.of(now, **self.model_dump(exclude={"project", "cursor", "page_size"}))


class FailureQuery(StrictModel):
    """The query parameters of one failure."""

    project: Annotated[Text, Field(json_schema_extra={"pattern": ADDRESS_PATTERN})] | None = None
    """`domain/name`."""
    since: Time | None = None
    """The beginning of the time, counted from its hour on; by default a day before `until`."""
    until: Time | None = None
    """The end of the time; by default now."""


class FailureChanges(StrictModel):
    """The field that `PATCH` may change."""

    muted: StrictBool
    """Whether somebody knows it: pages and lists can leave it out."""
