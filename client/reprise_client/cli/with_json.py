"""Adds `--json` to every command that has `-o json`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

ANSWER = "output"
"""The name of the parameter for the output format."""
_FLAG = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Same as -o json.")],
)


def offer_json(app: typer.Typer) -> None:
    """Add `--json` to every command of `app` and of its groups that takes `-o json`."""
    for command in app.registered_commands:
        if command.callback and ANSWER in inspect.signature(command.callback).parameters:
            command.callback = _with_json(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            offer_json(group.typer_instance)


def _with_json(command: Callable[..., Any]) -> Callable[..., Any]:
    own = inspect.signature(command, eval_str=True)
    usual = own.parameters[ANSWER].default

    @functools.wraps(command)
    def opened(*args: Any, as_json: bool, **given: Any) -> None:
        if as_json:
            form = type(usual)("json")
            if given[ANSWER] not in {usual, form}:
                raise typer.BadParameter("give --json or -o, not both")
            given[ANSWER] = form
        command(*args, **given)

    signature = own.replace(parameters=[*own.parameters.values(), _FLAG])
    opened.__signature__ = signature  # type: ignore[attr-defined]
    opened.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    return opened
