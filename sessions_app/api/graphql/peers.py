"""Rows that were read together: what is asked of one of them is read for all of them at once.

So the statements of a query depend on the fields that it names, and not on how many rows a page
has. The rows that are read for all of them are peers of each other in turn.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")
Thing = TypeVar("Thing")
Tell = Callable[[Sequence[Row]], Sequence[dict[str, Any]]]
"""The rows as REST tells them, in their order."""


class Peers(Generic[Row]):
    """Rows of one GraphQL type, and what was read for them so far."""

    def __init__(self, kind: type, rows: Sequence[Row], tell: Tell[Row]):
        self.kind = kind
        self.rows = rows
        self.tell = tell
        self._read: dict[Hashable, Sequence[Any]] = {}

    def each(self) -> "list[Peer[Row]]":
        """The rows as sources of GraphQL objects."""
        return [Peer(row, self, at) for at, row in enumerate(self.rows)]

    def read(
        self, key: Hashable, load: Callable[[Sequence[Row]], Sequence[Thing]]
    ) -> Sequence[Thing]:
        """What `load` finds, one thing for each row; it is asked once for each key."""
        if key not in self._read:
            found = load(self.rows)
            assert len(found) == len(self.rows), key  # noqa: S101  # the contract of `load`
            self._read[key] = found
        return self._read[key]


class Peer(Generic[Row]):
    """One row, the source of a GraphQL object."""

    __slots__ = ("_at", "peers", "row")

    def __init__(self, row: Row, peers: Peers[Row], at: int):
        self.row = row
        self.peers = peers
        self._at = at

    @property
    def kind(self) -> type:
        """The graphene type that this is."""
        return self.peers.kind

    def ask(self, key: Hashable, load: Callable[[Sequence[Row]], Sequence[Thing]]) -> Thing:
        """What `load` finds for this row, read for all of its peers."""
        return self.peers.read(key, load)[self._at]

    def told(self) -> dict[str, Any]:
        """The row as REST tells it."""
        return self.ask("told", self.peers.tell)


def one_by_one(tell: Callable[[Row], dict[str, Any]]) -> Tell[Row]:
    """How rows are told of which each is told by itself."""
    return lambda rows: [tell(row) for row in rows]


def alone(kind: type, row: Row, tell: Tell[Row]) -> Peer[Row]:
    """A row that was read by itself."""
    return Peers(kind, [row], tell).each()[0]


def belonging(
    kind: type, keys: Sequence[Any], found: Mapping[Any, Row], tell: Tell[Row]
) -> list[Peer[Row] | None]:
    """For each key the thing that was found for it, each of them once; None where none was."""
    wanted = [key for key in dict.fromkeys(keys) if key in found]
    things = Peers(kind, [found[key] for key in wanted], tell).each()
    by_key = dict(zip(wanted, things, strict=True))
    return [by_key.get(key) for key in keys]


def field_of(name: str, default: Any, source: Any, _info: Any, **_arguments: Any) -> Any:
    """graphene's default resolver here: a field by the name that it has in REST."""
    told = source.told() if isinstance(source, Peer) else source
    return told.get(name, default)
