"""The query parameters of lists: strict, so that a misspelt filter does not silently do nothing."""

from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import QueryDict
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)
from rest_framework.request import Request

from retry.causes import RetryCause
from sessions_app.cursors import START, Cursor, parse_cursor
from sessions_app.models import Project, Queue, Session
from sessions_app.states import Phase, RetryState, Status, phase_of


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Model = TypeVar("Model", bound=BaseModel)


def _storable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not hold a NUL")
    return value


Text = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_storable)]


def _written_out(value: object) -> object:
    if isinstance(value, str) and value.removeprefix("-").replace(".", "").isdigit():
        raise ValueError("must be an ISO 8601 time with its zone, such as 2030-01-31T12:00:00Z")
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_written_out)]
"""A bare number, which pydantic would take for seconds since 1970, is none."""


class PageQuery(BaseModel):
    """Which page of a list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50


class SessionConditions(BaseModel):
    """Which sessions are meant; all given ones must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: Text | None = None
    queue: Text | None = None
    job_set: Text | None = None
    status: Annotated[Status, BeforeValidator(_upper)] | None = None
    session_type: (
        Annotated[Literal["batch", "interactive", "inference"], BeforeValidator(_lower)] | None
    ) = None
    retry_cause: Annotated[RetryCause, BeforeValidator(_lower)] | None = None
    failure_category: Text | None = None
    retry_state: Annotated[RetryState, BeforeValidator(_lower)] | None = None
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

    def apply(self, sessions: QuerySet[Session]) -> QuerySet[Session]:
        """The sessions that all given filters hold for."""
        return sessions.filter(*self._conditions())

    def _conditions(self) -> list[Q]:
        plain = {
            "job_set": self.job_set,
            "session_type": self.session_type,
            "retry_cause": self.retry_cause,
            "failure_category": self.failure_category,
            "retry_state": self.retry_state,
            "exit_code": self.exit_code,
            "root_id": self.root,
            "parent_id": self.parent,
            "tip": self.tip,
            "executor": self.executor,
            "node": self.node,
            "created_at__gte": self.created_after,
            "created_at__lt": self.created_before,
        }
        found = [Q(**{name: value}) for name, value in plain.items() if value is not None]
        if self.status is not None:
            # The phase is what the partial indexes are made for.
            found.append(Q(status=self.status.value, phase=phase_of(self.status).value))
        if self.retry_cause or self.exit_code is not None:
            found.append(Q(phase=Phase.FINAL.value))
        found += self._named()
        if self.search:
            found.append(_search(self.search))
        return found

    def _named(self) -> list[Q]:
        """What is given by name, as keys: only of a key does the database know how many rows it
        has, and so whether its index or the newest sessions are to be read."""
        found = []
        if self.project:
            domain, _, name = self.project.partition("/")
            found.append(_key("project", Project.objects.filter(domain__name=domain, name=name)))
        if self.queue:
            found.append(_key("queue", Queue.objects.filter(name=self.queue)))
        if self.owner:
            found.append(_key("owner", User.objects.filter(username=self.owner)))
        return found


class SessionFilter(SessionConditions):
    """The query parameters of `GET /sessions/`."""

    ordering: Literal["created_at", "-created_at"] = "-created_at"
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50


def _key(field: str, named: QuerySet[Any]) -> Q:
    keys = list(named.values_list("pk", flat=True)[:2])
    return Q(**{f"{field}__in": named if len(keys) > 1 else keys})


def _search(text: str) -> Q:
    found, ids = Q(name__startswith=text), ids_beginning(text)
    return found if ids is None else found | Q(pk__range=ids)


def ids_beginning(text: str) -> tuple[UUID, UUID] | None:
    """The first and the last id that begin with `text`; None if no id does."""
    compact = text.replace("-", "").lower()
    if len(compact) > 32 or not all(letter in "0123456789abcdef" for letter in compact):
        return None
    return UUID(compact.ljust(32, "0")), UUID(compact.ljust(32, "f"))


class EventFilter(BaseModel):
    """The query parameters of a session's events."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after: Annotated[int, Field(ge=0, lt=2**63)] = 0
    page_size: Annotated[int, Field(ge=1, le=500)] = 500


def events_wanted(model: type[Model], request: Request) -> Model:
    """The query of a list of events, which goes on after `Last-Event-ID` if nothing else is said.

    The query wins: a client that follows `next` may go on sending its header.
    """
    seen = {"after": last} if (last := request.headers.get("Last-Event-ID")) else {}
    return model.model_validate(seen | request.query_params.dict())


def _cursor(value: object) -> object:
    return parse_cursor(value) if isinstance(value, str) else value


class JobSetEventFilter(BaseModel):
    """The query parameters of a job set's events."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: Text | None = None
    """`domain/name`."""
    after: Annotated[Cursor, BeforeValidator(_cursor), WithJsonSchema({"type": "string"})] = START
    page_size: Annotated[int, Field(ge=1, le=500)] = 500


class JobSetFilter(PageQuery):
    """The query parameters of `GET /job-sets/`."""

    project: Text | None = None
    """`domain/name`."""
    cursor: Annotated[str, Field(max_length=1000)] | None = None


class LogQuery(BaseModel):
    """Which part of a log is wanted: from a byte on, or the last lines."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    offset: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    tail: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    follow: bool = False


def of_project(address: str) -> dict[str, str]:
    """What a record of the project `domain/name` has; an address that is none is no project's."""
    domain, _, name = address.partition("/")
    return {"project__domain__name": domain, "project__name": name}


def query_of(model: type[Model], query: QueryDict) -> Model:
    """The query parameters as `model`; a parameter that is given twice counts with its last."""
    return model.model_validate(query.dict())
