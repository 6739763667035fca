"""What the commands `apply`, `get`, `describe` and `delete` know of one kind of thing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar

from rich.console import RenderableType
from rich.text import Text

from reprise_client.cli.exits import INVALID, NOT_FOUND, CommandError
from reprise_client.cli.scope import Scope
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.api import Client

API_VERSION = "reprise/v1"
ARMADA = "armadaproject.io/v1"
"""What Armada's own documents of the same form have in its place."""
CREATED, CONFIGURED, UNCHANGED = "created", "configured", "unchanged"

P = ParamSpec("P")
Item = TypeVar("Item")
Row = Sequence[str | Text]


class How(Enum):
    """What is wanted of a document: to make what it describes, to change it, or whichever fits."""

    APPLY = auto()
    CREATE = auto()
    UPDATE = auto()

    def require(self, *, there: bool) -> None:
        """Raise `CommandError` if what is wanted cannot be, since the thing is there, or is not."""
        if there and self is How.CREATE:
            raise CommandError("it is there already; change it: reprise update -f FILE", INVALID)
        if not there and self is How.UPDATE:
            raise CommandError("there is none yet; make it: reprise create -f FILE", NOT_FOUND)


@dataclass(frozen=True)
class Applied:
    """What became of a document; `revision` is None of what has none."""

    address: str
    outcome: str
    revision: int | None = None
    warnings: Sequence[str] = field(default_factory=list)


class FieldError(CommandError):
    """A field of a document that cannot be sent as it is."""

    def __init__(self, path: str, said: str, code: int):
        super().__init__(said, code)
        self.path = path


class Kind(ABC, Generic[Item]):
    """One kind: `name` as documents write it, `words` as people type it, the plural first."""

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]]
    metadata_keys: ClassVar[tuple[str, ...]]
    needs_name: ClassVar[bool] = True
    heads: ClassVar[Sequence[str]]
    made_by: ClassVar[str] = "reprise apply -f FILE"
    """The command that makes the first one."""
    wide_heads: ClassVar[Sequence[str]]
    """Those that `-o wide` adds."""

    @property
    def label(self) -> str:
        """What stands before the name in the lines of `apply` and `delete`."""
        return self.name.lower()

    # Documents

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """What the server would not see that is wrong in a `spec`: paths, and what is wrong."""
        yield from ()

    def versions(self) -> tuple[str, ...]:
        """What a document may have as its `apiVersion`, our own first."""
        return (API_VERSION,)

    @abstractmethod
    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        """Make or change what a document says; `asked` is the scope that the options name.

        Raises `FieldError` and what the SDK raises.
        """

    def field_path(self, name: str) -> str:
        """The path in a document of a field that the server's answer names."""
        return name

    @abstractmethod
    def document(self, item: Item) -> dict[str, Any]:
        """Valid input for `apply`, with a `status` that it passes over."""

    # Things

    @abstractmethod
    def all(self, client: Client, home: Scope | None) -> Iterable[Item]:
        """Those within reach of a scope; without one all that may be seen."""

    @abstractmethod
    def find(self, client: Client, typed: str, home: Scope) -> Item:
        """The one that was typed; raises `CommandError` if there is none."""

    @abstractmethod
    def delete(self, client: Client, item: Item) -> str:
        """Delete it; what became of it, such as `deleted`."""

    @abstractmethod
    def address(self, item: Item) -> str:
        """What `find` finds it by."""

    @abstractmethod
    def row(self, item: Item, now: datetime) -> Row: ...

    @abstractmethod
    def wide_row(self, item: Item, now: datetime) -> Row: ...

    @abstractmethod
    def description(self, client: Client, item: Item, now: datetime) -> RenderableType: ...

    def warning(self, client: Client, item: Item) -> str:
        """What whoever deletes it should know before."""
        return ""


class Named(Protocol):
    """What a name alone tells apart, as the SDK's models are."""

    @property
    def name(self) -> str: ...

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]: ...


NamedItem = TypeVar("NamedItem", bound=Named)


class NamedKind(Kind[NamedItem]):
    """Of things that a name alone tells apart; `spec_keys` are what a document says of one."""

    metadata_keys = ("name",)
    spec_keys: ClassVar[Sequence[str]]

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if "name" in spec:
            yield "spec.name", "belongs in metadata"

    def field_path(self, name: str) -> str:
        return f"metadata.{name}" if name == "name" else f"spec.{name}"

    def document(self, item: NamedItem) -> dict[str, Any]:
        told = item.model_dump(mode="json", exclude_unset=True)
        return {
            "apiVersion": API_VERSION,
            "kind": self.name,
            "metadata": {"name": item.name},
            "spec": {key: told[key] for key in self.spec_keys if key in told},
            "status": {k: v for k, v in told.items() if k not in {"name", *self.spec_keys}},
        }

    def address(self, item: NamedItem) -> str:
        return item.name


def found_or_none(read: Callable[P, Item], *args: P.args, **kwargs: P.kwargs) -> Item | None:
    """What a call of the SDK reads; None if there is no such thing."""
    try:
        return read(*args, **kwargs)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def found_or_made(
    read: Callable[[], Item | None], create: Callable[[], Item], how: How
) -> tuple[Item | None, Item | None]:
    """What is there, or else what was made now; raises what `create` and `How.require` do."""
    before = read()
    how.require(there=before is not None)
    if before is not None:
        return before, None
    try:
        return None, create()
    except ApiError as error:
        # Somebody else may have made it since.
        if error.status != 409 or how is How.CREATE or (before := read()) is None:
            raise
        return before, None


def changed(before: Any, after: Any, *fields: str) -> str:
    """`configured` or `unchanged`, by what an answer says before and after."""
    same = all(getattr(before, name) == getattr(after, name) for name in fields)
    return UNCHANGED if same else CONFIGURED


def missing(what: str, typed: str, where: str, plural: str) -> CommandError:
    text = f"there is no {what} {typed!r}{where and f' in {where}'}; see: reprise get {plural}"
    return CommandError(text, NOT_FOUND)
