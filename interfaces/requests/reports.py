"""The query of reports."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator

from interfaces.requests.queries import Text, Time, lowered
from interfaces.requests.strict import StrictModel
from retry.evidence.causes import RetryCause
from sessions_app.selectors.reports import ReportWanted

By = Literal["cause", "rule", "policy", "queue", "owner", "image", "node", "signature", "day"]


class ReportQuery(StrictModel):
    """The query parameters of `GET /reports/retries/`."""

    project: Text | None = None
    """`domain/name`; by default all that one may see, together."""
    since: Time | None = None
    """The beginning of the time, whose day (UTC) counts as a whole; by default 30 days."""
    until: Time | None = None
    """The end of the time; by default now. Its day counts, unless it is midnight."""
    by: Annotated[By, BeforeValidator(lowered)] = "cause"
    cause: Annotated[RetryCause, BeforeValidator(lowered)] | None = None
    """Only attempts with this cause, and the chains that have one; likewise the others."""
    rule: Text | None = None
    """`policy/rule`."""
    policy: Text | None = None
    queue: Text | None = None
    owner: Text | None = None
    image: Text | None = None
    node: Text | None = None
    """`executor/name`, or the name alone for the nodes of all executors that have it."""
    signature: Text | None = None

    def wanted(self, now: datetime) -> ReportWanted:
        """Return the query in the selector's form. Raises `InvalidInput`."""
        return ReportWanted.of(now, **self.model_dump(exclude={"project"}))
