"""Relay connections with REST's cursors. Their pages stay stable while rows arrive."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import graphene
from django.db.models import Model
from graphene import relay

from interfaces.graphql.peers import Peer, Peers, Render
from interfaces.http.paging import MAX_PAGE, RowCursor, Rows
from sessions_app.core.errors import InvalidInput

PAGE = 100
"""The default number of rows of a page."""
Resolver = Callable[..., Any]
Row = TypeVar("Row")
Record = TypeVar("Record", bound=Model)


def connection_to(node: Any) -> Any:
    """Return the connection type of a node type."""
    meta = type("Meta", (), {"node": node, "strict_types": True})
    return type(f"{node.__name__}Connection", (relay.Connection,), {"Meta": meta})


def pages(
    connection: Any, description: str, resolver: Resolver | None = None, **arguments: Any
) -> graphene.Field:
    """Return a field that gives one page of a connection."""
    first = graphene.Int(default_value=PAGE, description=f"The page size, 1 to {MAX_PAGE}.")
    after = graphene.String(description="The cursor after which the page starts.")
    return one(connection, description, resolver, first=first, after=after, **arguments)


def one(
    kind: Any, description: str, resolver: Resolver | None = None, **arguments: Any
) -> graphene.Field:
    """Return a field that is never null."""
    return graphene.Field(
        kind, required=True, description=description, resolver=resolver, args=arguments
    )


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a field asks for."""

    first: int = PAGE
    after: str | None = None

    @classmethod
    def of(cls, asked: dict[str, Any]) -> "Page":
        """Take the page's arguments out of a field's arguments. Raises `InvalidInput`."""
        first, after = asked.pop("first", PAGE), asked.pop("after", None)
        if first is None or not 1 <= first <= MAX_PAGE:
            raise InvalidInput({"first": [f"must be from 1 to {MAX_PAGE}"]})
        return cls(first, after)


@dataclass(frozen=True, slots=True)
class Slice(Generic[Row]):
    """The rows of one page, each with its cursor."""

    rows: Sequence[Row]
    cursors: Sequence[str]
    more: bool
    """More rows follow."""


def slice_of(rows: Sequence[Row], page: Page, cursors: Sequence[str]) -> Slice[Row]:
    """Return a page of rows, of which one more was read than fits."""
    first = page.first
    return Slice(rows[:first], cursors[:first], len(rows) > first)


def read_page(rows: Rows[Record], order: RowCursor, page: Page) -> Slice[Record]:
    """Return one page of a list. Raises DRF's `NotFound` for an invalid cursor."""
    found, more = order.slice(rows, page.after, page.first)
    return Slice(found, order.cursors(found), more)


def connection_source(found: Slice[Row], page: Page, nodes: Sequence[Peer[Row]]) -> dict[str, Any]:
    """Return a page as the source of a connection."""
    edges = [
        {"node": node, "cursor": cursor} for node, cursor in zip(nodes, found.cursors, strict=True)
    ]
    return {
        "edges": edges,
        "page_info": {
            "has_next_page": found.more,
            "has_previous_page": page.after is not None,
            "start_cursor": found.cursors[0] if edges else None,
            "end_cursor": found.cursors[-1] if edges else None,
        },
    }


def page_of(
    kind: Any, rows: Rows[Record], order: RowCursor, page: Page, render: Render[Record]
) -> dict[str, Any]:
    """Return one page of a list as the source of a connection."""
    found = read_page(rows, order, page)
    return connection_source(found, page, Peers(kind, found.rows, render).each())


def pages_below(
    source: Peer[Any],
    key: Hashable,
    page: Page,
    load: Callable[[Sequence[Any]], Sequence[Slice[Any]]],
    peers: Callable[[Sequence[Any]], Peers[Any]],
) -> dict[str, Any]:
    """Return the page that belongs to a source; `load` reads the pages of all its peers at once.

    `peers` makes peers of the rows of all these pages, so that fields below are read at once, too.
    """

    def both(rows: Sequence[Any]) -> list[dict[str, Any]]:
        slices = load(rows)
        nodes = iter(peers([row for each in slices for row in each.rows]).each())
        return [
            connection_source(each, page, list(islice(nodes, len(each.rows)))) for each in slices
        ]

    return source.ask((key, page), both)
