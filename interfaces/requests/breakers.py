"""The queries and the bodies of calls about breakers."""

from typing import Annotated, Any

from django.db.models import QuerySet
from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from interfaces.requests.bodies import MAX_REASON, OneLine, ProjectAddress
from interfaces.requests.queries import PageQuery, Text, lowered
from interfaces.requests.strict import StrictModel
from sessions_app.authorization import Actor
from sessions_app.models.breakers import BreakerState
from sessions_app.selectors.sessions import projects_visible

_KEY = r"^[0-9a-f]{12}$"
_Reason = Annotated[OneLine, Field(max_length=MAX_REASON)]


class BreakerFilter(PageQuery):
    """The query parameters of `GET /breakers/`."""

    project: Text | None = None
    """`domain/name`: only its own, without the cluster's."""
    state: Annotated[BreakerState, BeforeValidator(lowered)] | None = None
    signature: Text | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the breakers that match the filters."""
        if self.project is not None:
            rows = rows.filter(project__in=projects_visible(actor, self.project))
        if self.state is not None:
            rows = rows.filter(state=self.state)
        return rows if self.signature is None else rows.filter(signature=self.signature)


class BreakerOpen(StrictModel):
    """The breaker to open, and why."""

    signature: Annotated[StrictStr, Field(pattern=_KEY)]
    """The key of the failure, as `failure_signature` of sessions has it."""
    project: ProjectAddress | None = None
    """`domain/name`. Null means the cluster."""
    queue: Annotated[StrictStr, Field(min_length=1, max_length=63)] | None = None
    """A queue of the project; null for the whole project."""
    reason: _Reason = ""


class BreakerClose(StrictModel):
    """Why the breaker closes."""

    reason: _Reason = ""
    mute: StrictBool = False
    """Whether it is not to open by itself any more. Opening it by hand takes that back."""
