"""Rows that were read together. A field asked of one of them is read for all at once.

So the number of statements of a query depends on its fields, not on the number of rows of a page.
The rows read for all of them are peers of each other in turn.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")
Thing = TypeVar("Thing")
Render = Callable[[Sequence[Row]], Sequence[dict[str, Any]]]
"""A function that returns the rows in REST's form, in the same order."""


class Peers(Generic[Row]):
    """Rows of one GraphQL type, and what was read for them so far."""

    def __init__(self, kind: type, rows: Sequence[Row], render: Render[Row]):
        self.kind = kind
        self.rows = rows
        self.render = render
        self._read: dict[Hashable, Sequence[Any]] = {}

    def each(self) -> "list[Peer[Row]]":
        """Return the rows as sources of GraphQL objects."""
        return [Peer(row, self, at) for at, row in enumerate(self.rows)]

    def read(
        self, key: Hashable, load: Callable[[Sequence[Row]], Sequence[Thing]]
    ) -> Sequence[Thing]:
        """Return what `load` finds, one result for each row. It is called once for each key."""
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
        """Return the graphene type of the object."""
        return self.peers.kind

    def ask(self, key: Hashable, load: Callable[[Sequence[Row]], Sequence[Thing]]) -> Thing:
        """Return what `load` finds for this row; it reads for all peers at once."""
        return self.peers.read(key, load)[self._at]

    def rest_fields(self) -> dict[str, Any]:
        """Return the row in REST's form."""
        return self.ask("rest_fields", self.peers.render)


def one_by_one(render: Callable[[Row], dict[str, Any]]) -> Render[Row]:
    """Return a `Render` that renders each row separately."""
    return lambda rows: [render(row) for row in rows]


def single_peer(kind: type, row: Row, render: Render[Row]) -> Peer[Row]:
    """Return a single row as a peer."""
    return Peers(kind, [row], render).each()[0]


def belonging(
    kind: type, keys: Sequence[Any], found: Mapping[Any, Row], render: Render[Row]
) -> list[Peer[Row] | None]:
    """Return the found object for each key, None if there is none. Each object is made once."""
    wanted = [key for key in dict.fromkeys(keys) if key in found]
    things = Peers(kind, [found[key] for key in wanted], render).each()
    by_key = dict(zip(wanted, things, strict=True))
    return [by_key.get(key) for key in keys]


def field_of(name: str, default: Any, source: Any, _info: Any, **_arguments: Any) -> Any:
    """Return a field by its REST name. This is graphene's default resolver here.

    A name that is a word of Python, such as `from`, has a `_` behind it in classes.
    """
    fields = source.rest_fields() if isinstance(source, Peer) else source
    return fields.get(name.removesuffix("_"), default)
