"""Command-line options that stand for variables."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from base.variables.kinds import Kind, T, WrongValueError


def option(kind: Kind[T]) -> Callable[[str], T]:
    """Return the function that argparse takes as the type of an option of this kind."""

    def parse(text: str) -> T:
        try:
            return kind.read(text)
        except WrongValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return parse
