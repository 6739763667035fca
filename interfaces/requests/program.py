"""What a program is started with: arguments and variables that Linux accepts."""

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, StrictStr

MOST_ARGUMENT = 128 * 1024 - 1
"""Most bytes of an argument, or of a variable with its name: Linux' MAX_ARG_STRLEN without NUL."""
_VARIABLE = r"[^=\x00-\x1f\x7f]+"


def _variable(value: str) -> str:
    if not re.fullmatch(_VARIABLE, value):
        raise ValueError(
            "the name of a variable must not be empty, or contain '=' or control characters"
        )
    return value


def _argument(value: str) -> str:
    if (size := len(value.encode())) > MOST_ARGUMENT:
        why = f"has {size:,} bytes; Linux starts no program with an argument of over "
        raise ValueError(f"{why}{MOST_ARGUMENT:,} bytes: put it into a file")
    return value


_T = TypeVar("_T", str, "str | None")


def _starts(environ: dict[str, _T]) -> dict[str, _T]:
    """Return variables, each short enough for a program to be started with it."""
    for name, value in environ.items():
        if value is not None and (size := len(f"{name}={value}".encode())) > MOST_ARGUMENT:
            why = f"{name} has {size:,} bytes with its name; Linux starts no program with a "
            raise ValueError(f"{why}variable of over {MOST_ARGUMENT:,} bytes: put it into a file")
    return environ


Variable = Annotated[
    StrictStr,
    Field(min_length=1, max_length=256, json_schema_extra={"pattern": f"^{_VARIABLE}$"}),
    AfterValidator(_variable),
]
Argument = Annotated[StrictStr, AfterValidator(_argument)]
Environ = Annotated[dict[Variable, StrictStr], Field(max_length=4096), AfterValidator(_starts)]
EnvironChanges = Annotated[
    dict[Variable, StrictStr | None], Field(max_length=4096), AfterValidator(_starts)
]
"""Variables to set; null removes one."""
