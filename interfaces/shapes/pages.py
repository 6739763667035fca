"""The shape of all pages of lists."""

from typing import Generic, TypeVar

from pydantic import BaseModel

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """The base of pages, which link to the pages around them."""

    next: str | None
    previous: str | None
    results: list[Item]


class ForwardPage(BaseModel, Generic[Item]):
    """The base of pages that can be read in one direction only."""

    next: str | None
    previous: None
    results: list[Item]
