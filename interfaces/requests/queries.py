"""The query parameters of lists. They are strict: a misspelt filter must not be ignored."""

from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django.http import QueryDict
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    Field,
    WithJsonSchema,
)
from rest_framework.request import Request

from interfaces.requests.strict import StrictModel
from retry.evidence.causes import RetryCause
from sessions_app.authorization import Actor
from sessions_app.core.cursors import START, Cursor, parse_cursor
from sessions_app.core.errors import InvalidInput
from sessions_app.core.states import RetryState, Status
from sessions_app.selectors.session_pages import SessionsWanted


def uppered(value: object) -> object:
    """Return a text in upper case, and other values as they are."""
    return value.upper() if isinstance(value, str) else value


def lowered(value: object) -> object:
    """Return a text in lower case, and other values as they are."""
    return value.lower() if isinstance(value, str) else value


Model = TypeVar("Model", bound=BaseModel)


def _storable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain a NUL")
    return value


ADDRESS_PATTERN = "^[^/]+/[^/]+$"
"""The pattern of `domain/name` for the OpenAPI document. Error messages do not quote it."""
Text = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_storable)]


def _written_out(value: object) -> object:
    number = value.removeprefix("-").replace(".", "").isdigit() if isinstance(value, str) else True
    if number:
        raise ValueError("must be an ISO 8601 time with its zone, such as 2030-01-31T12:00:00Z")
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_written_out)]
"""A time. A bare number, which pydantic would read as seconds since 1970, is refused."""


class PageQuery(StrictModel):
    """The page of a list."""

    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows of the list that are asked for, of those that the actor may see."""
        return rows


class SessionConditions(StrictModel):
    """The conditions on sessions; all given ones must hold."""

    project: Text | None = None
    queue: Text | None = None
    job_set: Text | None = None
    status: Annotated[Status, BeforeValidator(uppered)] | None = None
    session_type: (
        Annotated[Literal["batch", "interactive", "inference"], BeforeValidator(lowered)] | None
    ) = None
    retry_cause: Annotated[RetryCause, BeforeValidator(lowered)] | None = None
    failure_category: Text | None = None
    signature: Text | None = None
    retry_state: Annotated[RetryState, BeforeValidator(lowered)] | None = None
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    root: UUID | None = None
    parent: UUID | None = None
    tip: bool | None = None
    owner: Text | None = None
    executor: Text | None = None
    node: Text | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    search: Text | None = None

    def wanted(self) -> SessionsWanted:
        """Return the conditions in the selectors' form."""
        return SessionsWanted(**{name: getattr(self, name) for name in _CONDITIONS})


_CONDITIONS = tuple(each.name for each in fields(SessionsWanted))


class SessionFilter(SessionConditions):
    """The query parameters of `GET /sessions/`."""

    ordering: Literal["created_at", "-created_at"] = "-created_at"
    expand: Literal["chain"] | None = None
    """`chain`: each with `retry_chain`, the ids of its attempts."""
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50


class AttemptsQuery(StrictModel):
    """A page of a chain, if one is asked for."""

    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] | None = None

    @property
    def paged(self) -> bool:
        """Return whether a page of the chain is asked for."""
        return bool(self.model_fields_set)

    @property
    def size(self) -> int:
        """Return the size of the page."""
        return self.page_size or 50


class EventFilter(StrictModel):
    """The query parameters of a session's events."""

    after: Annotated[int, Field(ge=0, lt=2**63)] = 0
    page_size: Annotated[int, Field(ge=1, le=500)] = 500


def events_wanted(model: type[Model], request: Request) -> Model:
    """Return the query of a list of events, which continues after `Last-Event-ID` by default.

    The query wins, because a client that follows `next` may still send its header.
    """
    seen = {"after": last} if (last := request.headers.get("Last-Event-ID")) else {}
    query = request.query_params.copy()
    for name in seen.keys() - query.keys():
        query[name] = seen[name]
    return query_of(model, query)


def _cursor(value: object) -> object:
    return parse_cursor(value) if isinstance(value, str) else value


_AS_TEXT = WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,19}-[0-9]{1,18}$"})


class JobSetEventFilter(StrictModel):
    """The query parameters of a job set's events."""

    project: Annotated[Text, Field(json_schema_extra={"pattern": ADDRESS_PATTERN})] | None = None
    """`domain/name`."""
    after: Annotated[Cursor, BeforeValidator(_cursor), _AS_TEXT] = START
    page_size: Annotated[int, Field(ge=1, le=500)] = 500


class JobSetFilter(PageQuery):
    """The query parameters of `GET /job-sets/`."""

    project: Text | None = None
    """`domain/name`."""
    cursor: Annotated[str, Field(max_length=1000)] | None = None


class LogQuery(StrictModel):
    """The wanted part of a log: from a byte on, or the last lines."""

    offset: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    tail: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    follow: bool = False


def of_project(address: str) -> dict[str, str]:
    """Return the conditions on records of the project `domain/name`; an invalid address matches
    none."""
    domain, _, name = address.partition("/")
    return {"project__domain__name": domain, "project__name": name}


def query_of(model: type[Model], query: QueryDict) -> Model:
    """Return the query parameters as `model`. Raises `InvalidInput` for a repeated one."""
    if repeated := {name for name, values in query.lists() if len(values) > 1}:
        raise InvalidInput({name: ["is repeated"] for name in sorted(repeated)})
    return model.model_validate(query.dict())
