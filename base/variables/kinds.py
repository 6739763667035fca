"""The kinds of variables: how a text becomes a value, and which texts are allowed. Pure."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_network
from math import isfinite
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

YES = ("1", "true", "yes", "on")
NO = ("0", "false", "no", "off")
MOST = 1_000_000_000
"""The bound of every whole number, because PostgreSQL's integers have one, too."""
CENTURY = 100 * 365 * 86_400
"""The longest time in seconds. Much longer times overflow when added to a date."""


class WrongValueError(ValueError):
    """A value that is not allowed. The text says why, without the value of a secret."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of variable. `parse` raises `ValueError` for a text that is not `allowed`.

    An empty text counts as absent, unless `refuses_empty`.
    """

    parse: Callable[[str], T]
    allowed: str
    secret: bool = False
    refuses_empty: bool = False

    def read(self, text: str) -> T:
        """Return the value of a text. Raises `WrongValueError`."""
        try:
            return self.parse(text)
        except WrongValueError:
            raise
        except ValueError:
            shown = "the value" if self.secret else repr(text)
            raise WrongValueError(f"{shown} is not {self.allowed}") from None


def choice(*allowed: str) -> Kind[str]:
    """Return the kind that allows only these values."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return Kind(parse, f"one of {', '.join(allowed)}")


def whole(least: int = 0, most: int = MOST) -> Kind[int]:
    """Return the kind of whole numbers in a range."""

    def parse(text: str) -> int:
        return _within(int(text), least, most)

    return Kind(parse, f"a whole number from {least} to {most}")


def seconds(*, most: int = CENTURY) -> Kind[float]:
    """Return the kind of numbers of seconds; 0 is allowed."""

    def parse(text: str) -> float:
        return _within(float(text), 0, most)

    return Kind(parse, f"a number of seconds from 0 to {most}")


def above_zero(unit: str, most: int = CENTURY) -> Kind[float]:
    """Return the kind of numbers above 0 in a unit."""

    def parse(text: str) -> float:
        if (number := _within(float(text), 0, most)) == 0:
            raise ValueError(text)
        return number

    return Kind(parse, f"a number of {unit} above 0, up to {most}")


N = TypeVar("N", int, float)


def _within(number: N, least: float, most: float) -> N:
    if not (isfinite(number) and least <= number <= most):
        raise ValueError(number)
    return number


def listed(item: Kind[T], *, separator: str = ",", between: str = "commas") -> Kind[tuple[T, ...]]:
    """Return the kind of lists. Blanks around items and empty items are ignored."""

    def parse(text: str) -> tuple[T, ...]:
        items = [each.strip() for each in text.split(separator) if each.strip()]
        if not items:
            raise WrongValueError("must not be empty: unset the variable instead")
        return tuple(item.read(each) for each in items)

    return Kind(parse, f"separated by {between}, each {item.allowed}", item.secret)


def matching(accepts: Callable[[str], object], allowed: str) -> Kind[str]:
    """Return the kind of texts that a function accepts, such as the `fullmatch` of a pattern."""

    def parse(text: str) -> str:
        if not accepts(text):
            raise ValueError(text)
        return text

    return Kind(parse, allowed)


def one_of(paths: Iterable[str], allowed: str) -> Kind[str]:
    """Return the kind of texts in a long list; `allowed` says which list."""
    return matching(frozenset(paths).__contains__, allowed)


def _flag(text: str) -> bool:
    if text.lower() not in YES + NO:
        raise ValueError(text)
    return text.lower() in YES


def _share(text: str) -> float:
    return _within(float(text), 0, 1)


def _network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError as error:
        raise WrongValueError(f"{error}; write networks such as 10.1.0.0/16") from None
    return text


TEXT = Kind(str, "any text")
SECRET = Kind(str, "any text", secret=True)
FLAG = Kind(_flag, f"one of {', '.join(YES + NO)}")
SHARE = Kind(_share, "a number from 0 to 1")
PORT = whole(1, 65535)
PATH = Kind(Path, "a path")
PATHS = listed(PATH, separator=os.pathsep, between="colons")
NETWORK = Kind(_network, "a network such as 10.1.0.0/16")
