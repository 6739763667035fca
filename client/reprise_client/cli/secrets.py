"""The output formats for secrets, which are shown only once."""

from enum import StrEnum
from typing import Annotated

import typer


class TokenForm(StrEnum):
    TOKEN = "token"  # noqa: S105  # the name of a form, not a token
    JSON = "json"
    YAML = "yaml"


TokenOutput = Annotated[
    TokenForm,
    typer.Option("--output", "-o", help="Print only the token, or the whole answer."),
]
