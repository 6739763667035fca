"""Options of a command line that say what a variable could say."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from variables.kinds import Kind, T, WrongValueError


def option(kind: Kind[T]) -> Callable[[str], T]:
    """Return what argparse takes as the type of an option."""

    def parse(text: str) -> T:
        try:
            return kind.read(text)
        except WrongValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return parse
