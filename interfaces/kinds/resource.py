"""How a plain kind is declared. REST's views and GraphQL's types and mutations are made from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from django.db.models import QuerySet
from pydantic import BaseModel

from interfaces.requests.queries import PageQuery
from sessions_app.authorization import Action, Actor

Row = TypeVar("Row")
Render = Callable[[Actor, Sequence[Any]], Sequence[dict[str, Any]]]
"""A function that returns rows as JSON values, as far as the caller may see them."""


def showing(render: Callable[[Row], dict[str, Any]]) -> Callable[[Actor, Row], dict[str, Any]]:
    """Return a `show` that shows everybody the same."""
    return lambda _actor, result: render(result)


def each(render: Callable[[Row], dict[str, Any]]) -> Render:
    """Return a `Render` that shows each row by itself, and everybody the same."""
    return lambda _actor, rows: [render(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Listing:
    """How a kind is listed."""

    action: Action
    says: str
    rows: Callable[[Actor], QuerySet[Any]]
    """The rows that the caller may see."""
    order: Sequence[str]
    """The fields by which pages go; none of them is ever null."""
    query: type[PageQuery] = PageQuery
    _: KW_ONLY
    unique: bool = True
    """Whether the first of these fields is unique."""
    named: str = ""
    """The `operationId`, if it is not the usual one."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: who may make it, what it does, and the sentence that documents it."""

    action: Action
    says: str
    run: Callable[..., Any]
    """The operation. Its arguments are the caller and the key of the object, if there is one; to
    read also the action, to write the body, if there is one, and the expected version, if the kind
    has versions."""
    body: type[BaseModel] | None = None
    _: KW_ONLY
    shape: type[BaseModel] | None = None
    """The shape of the answer, if it is not the usual one of the kind."""
    show: Callable[[Actor, Any], dict[str, Any]] | None = None
    """What renders the result of `run`, if the answer is not the object in its usual form."""
    row: Callable[[Any], Any] = lambda result: result
    """What finds the object in the result of `run`."""
    creates: bool = False
    """Whether `run` returns the object and whether it was created."""
    status: int = 200
    location: Callable[[Any], str] | None = None
    """The address of what the call made, if it is not the object itself; from that of the call."""
    once: bool = False
    """Whether nobody is to keep the answer, because it has a secret that is shown only once."""
    named: str = ""
    """The `operationId`, if it is not the usual one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """A plain kind. A call that is None does not exist, or is special and written by hand."""

    name: str
    """One of them, such as `priority_class`; part of the names of calls."""
    many: str = ""
    """Several of them, if they are listed."""
    address: str
    """The address of the list below `/api/v2/`."""
    place: str
    """The pattern of one object's address below the list."""
    key: Callable[..., tuple[Any, ...]] = lambda **names: tuple(names.values())
    """What makes the key of an object, which operations take, of the names in its address."""
    at: Callable[[Any], str] = lambda row: str(row.pk)
    """The address of an object below the list; it is also its key in GraphQL."""
    shape: type[BaseModel]
    page: type[BaseModel] | None = None
    render: Render
    version: Callable[[Any], str] | None = None
    """The version of an object, if concurrent changes are noticed (`ETag`, `If-Match`)."""
    listing: Listing | None = None
    read: Call | None = None
    create: Call | None = None
    put: Call | None = None
    patch: Call | None = None
    delete: Call | None = None
    acts: Mapping[str, Call] = field(default_factory=dict)
    """What one can do to an object, by the last part of its address."""

    def shown(self, actor: Actor, call: Call, result: Any) -> dict[str, Any]:
        """Return the result of a call as JSON values."""
        if call.show is not None:
            return call.show(actor, result)
        (body,) = self.render(actor, [result])
        return body
