"""Many sessions in one call: each item has an outcome of its own, in the order of the request."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import responses
from sessions_app.api.problems import problem_of
from sessions_app.api.requests import SessionCreate
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.errors import DomainError
from sessions_app.selectors import project_resolve, queue_resolve
from sessions_app.services.submit import Placed, Submitted, sessions_submit

MAX_SESSIONS = 1000
Found = TypeVar("Found")
Refusal = DomainError | ValidationError


class SessionsBulkCreate(BaseModel):
    """The body of `POST /sessions/bulk/`: bodies of `POST /sessions/`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sessions: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_SESSIONS)


class _Described(SessionsBulkCreate):
    """As `SessionsBulkCreate`, for the OpenAPI document: its items are read one by one."""

    model_config = ConfigDict(title="SessionsBulkCreate")

    sessions: list[SessionCreate] = Field(min_length=1, max_length=MAX_SESSIONS)  # type: ignore[assignment]


class SessionsBulkView(RestView):
    """`/sessions/bulk/`."""

    actions: ClassVar = {"POST": Action.SESSION_CREATE}
    body_limit = settings.BULK_BODY_LIMIT_BYTES

    @extend_schema(
        operation_id="sessions_bulk_create", request=_Described, responses=responses.BulkOutcomes
    )
    def post(self, request: Request) -> Response:
        """Submit up to 1,000 sessions; one that is refused does not stop the others."""
        placer = _Placer(self.actor)
        asked = SessionsBulkCreate.model_validate(body_of(request))
        placed = [placer.place(item) for item in asked.sessions]
        made = iter(sessions_submit([each for each in placed if isinstance(each, Placed)]))
        outcomes = [next(made) if isinstance(each, Placed) else each for each in placed]
        return Response({"results": [_outcome_json(outcome) for outcome in outcomes]})


class _Placer:
    """Reads items and finds where they go; each project and queue is looked up once."""

    def __init__(self, actor: Actor):
        self._actor = actor
        self._owner = require_user(actor)
        self._found: dict[Any, Any] = {}

    def place(self, item: Mapping[str, Any]) -> Placed | Refusal:
        """The item as the service takes it, or why it cannot be."""
        try:
            asked = SessionCreate.model_validate(item)
            project = self._once(project_resolve, self._actor, asked.project, Action.SESSION_CREATE)
            queue = self._once(queue_resolve, project, asked.queue)
            return Placed(project, queue, self._owner.pk, asked.submission())
        except (DomainError, ValidationError) as error:
            return error

    def _once(self, find: Callable[..., Found], *arguments: Any) -> Found:
        key = (find, *arguments)
        if key not in self._found:
            try:
                self._found[key] = find(*arguments)
            except DomainError as error:
                self._found[key] = error
        if isinstance(self._found[key], DomainError):
            raise self._found[key]
        found: Found = self._found[key]
        return found


def _outcome_json(outcome: Submitted | Refusal) -> dict[str, Any]:
    if isinstance(outcome, Submitted):
        said = "created" if outcome.created else "exists"
        return {"outcome": said, "session_id": outcome.session_id, "problem": None}
    return {"outcome": "refused", "session_id": None, "problem": problem_of(outcome)}
