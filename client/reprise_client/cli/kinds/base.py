"""The base of all kinds of things that `apply`, `get`, `describe` and `delete` handle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

from rich.console import RenderableType

from reprise_client.cli.exits import INVALID, NOT_FOUND, CommandError
from reprise_client.cli.output import plain
from reprise_client.cli.scope import Scope
from reprise_client.cli.text import Text
from reprise_client.errors import ApiError

if TYPE_CHECKING:
    from reprise_client.answers import Answer
    from reprise_client.api import Client
    from reprise_client.models import (
        Domain,
        Executor,
        FailureCategory,
        PriorityClass,
        Queue,
        Schedule,
        Webhook,
    )

API_VERSION = "reprise/v1"
CREATED, CONFIGURED, UNCHANGED = "created", "configured", "unchanged"

P = ParamSpec("P")
Item = TypeVar("Item", bound="Answer")
NamedItem = TypeVar("NamedItem", bound="Domain | Executor | FailureCategory | PriorityClass")
ProjectItem = TypeVar("ProjectItem", bound="Queue | Schedule | Webhook")
Row = Sequence[str | Text]


class How(Enum):
    """The mode of a command: create what a document describes, change it, or whichever fits."""

    APPLY = auto()
    CREATE = auto()
    UPDATE = auto()

    def require(self, *, there: bool) -> None:
        """Raise `CommandError` if the mode does not allow that the thing exists, or does not
        exist."""
        if there and self is How.CREATE:
            raise CommandError("it exists; to change it: reprise update -f FILE", INVALID)
        if not there and self is How.UPDATE:
            raise CommandError("it does not exist; to create it: reprise create -f FILE", NOT_FOUND)


@dataclass(frozen=True)
class Applied:
    """The result of applying a document. `revision` is None for kinds without revisions."""

    address: str
    outcome: str
    revision: int | None = None
    warnings: Sequence[str] = field(default_factory=list)


class FieldError(CommandError):
    """A field of a document that cannot be sent as it is."""

    def __init__(self, path: str, message: str, code: int):
        super().__init__(message, code)
        self.path = path


class Kind(ABC, Generic[Item]):
    """The base of a kind.

    `name` is its name in documents; `words` are typed names, the plural first.
    """

    name: ClassVar[str]
    words: ClassVar[tuple[str, ...]]
    metadata_keys: ClassVar[tuple[str, ...]]
    spec_keys: ClassVar[Sequence[str]] = ()
    identity: ClassVar[Sequence[str]] = ("name",)
    """The fields of an answer that `metadata` tells."""
    address_key: ClassVar[str] = "name"
    """The field of an answer by which `find` finds the item."""
    needs_name: ClassVar[bool] = True
    heads: ClassVar[Sequence[str]]
    made_by: ClassVar[str] = "reprise apply -f FILE"
    """The command that creates the first one."""
    wide_heads: ClassVar[Sequence[str]] = ()
    """The further columns of `-o wide`."""

    @property
    def label(self) -> str:
        """Return the prefix of names in the lines of `apply` and `delete`."""
        return self.name.lower()

    # Documents

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield faults of a `spec` that the server would not find: the path and the fault."""
        yield from ()

    def unknown_fields(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the fields of a `spec` that are none of `spec_keys`, as faults."""
        for key in spec:
            if key not in self.spec_keys:
                yield f"spec.{key}", "is not a known field"

    def is_foreign(self, version: object) -> bool:
        """Return whether a document of this `apiVersion` is another system's, in the same form.

        The server reads it, and warns of the fields that it does not know.
        """
        return False

    @abstractmethod
    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        """Create or change what a document describes; `asked` is the scope from the options.

        Raises `FieldError` and what the SDK raises.
        """

    def field_path(self, name: str) -> str:
        """Return the path in the document of a field that the server names."""
        return name

    def document(self, item: Item) -> dict[str, Any]:
        """Return the item as valid input for `apply`, with a `status` that `apply` ignores."""
        values = plain(item)
        return {
            "apiVersion": API_VERSION,
            "kind": self.name,
            "metadata": self.metadata(item),
            "spec": {key: values[key] for key in self.spec_keys if key in values},
            "status": {
                k: v for k, v in values.items() if k not in {*self.identity, *self.spec_keys}
            },
        }

    def metadata(self, item: Item) -> dict[str, str]:
        """Return the `metadata` of the item's document."""
        return {key: getattr(item, key) for key in self.identity}

    # Things

    @abstractmethod
    def all(self, client: Client, home: Scope | None) -> Iterable[Item]:
        """Return the items usable in a scope; without a scope all that the user may see."""

    @abstractmethod
    def find(self, client: Client, typed: str, home: Scope) -> Item:
        """Return the item with the typed name. Raises `CommandError` if there is none."""

    @abstractmethod
    def delete(self, client: Client, item: Item) -> str:
        """Delete the item. Return the result, such as `deleted`."""

    def address(self, item: Item) -> str:
        """Return the name by which `find` finds the item."""
        return str(getattr(item, self.address_key))

    @abstractmethod
    def row(self, item: Item, now: datetime) -> Row: ...

    def wide_row(self, item: Item, now: datetime) -> Row:
        return []

    @abstractmethod
    def description(self, client: Client, item: Item, now: datetime) -> RenderableType: ...

    def warning(self, client: Client, item: Item) -> str:
        """Return what the user should know before deleting the item, or ""."""
        return ""


class NamedKind(Kind[NamedItem]):
    """The base of kinds that are identified by a name alone."""

    metadata_keys = ("name",)
    noun: ClassVar[str]
    """Its name in messages."""

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if "name" in spec:
            yield "spec.name", "belongs in metadata"

    def field_path(self, name: str) -> str:
        return f"metadata.{name}" if name == "name" else f"spec.{name}"

    @abstractmethod
    def read(self, client: Client, name: str) -> NamedItem:
        """Return the item with a name. Raises `ApiError`."""

    def find(self, client: Client, typed: str, home: Scope) -> NamedItem:
        found = found_or_none(self.read, client, typed)
        if found is None:
            raise missing(self.noun, typed, "", self.words[0])
        return found


def found_or_none(read: Callable[P, Item], *args: P.args, **kwargs: P.kwargs) -> Item | None:
    """Return the result of an SDK call, or None if the thing does not exist."""
    try:
        return read(*args, **kwargs)
    except ApiError as error:
        if error.status == 404:
            return None
        raise


def found_or_made(
    read: Callable[[], Item | None], create: Callable[[], Item], how: How
) -> tuple[Item | None, Item | None]:
    """Return (existing item, None), or (None, new item).

    Raises what `create` and `How.require` raise.
    """
    before = read()
    how.require(there=before is not None)
    if before is not None:
        return before, None
    try:
        return None, create()
    except ApiError as error:
        # Somebody else may have created it since.
        if error.status != 409 or how is How.CREATE or (before := read()) is None:
            raise
        return before, None


def listed_within(
    listed: Callable[..., Iterable[ProjectItem]], home: Scope | None
) -> Iterable[ProjectItem]:
    """Return what an SDK call lists of a project or a domain; without a scope all."""
    if home is None or home.project is not None:
        return listed(project=home.address if home else None)
    return (each for each in listed() if home.domain in {None, Scope.at(each.project).domain})


def changed(before: Any, after: Any, *fields: str) -> str:
    """Return `configured` or `unchanged`, by comparing fields of the answers before and after."""
    same = all(getattr(before, name) == getattr(after, name) for name in fields)
    return UNCHANGED if same else CONFIGURED


def missing(what: str, typed: str, where: str, plural: str) -> CommandError:
    text = f"there is no {what} {typed!r}{where and f' in {where}'}; see: reprise get {plural}"
    return CommandError(text, NOT_FOUND)
