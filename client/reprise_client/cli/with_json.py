"""`--json`, as every command has it that has `-o json`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

ANSWER = "output"
"""The parameter that says how to print the answer."""
_FLAG = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="The same as -o json.")],
)


def offer_json(app: typer.Typer) -> None:
    """Let every command of `app`, and of the groups in it, that takes `-o json` take `--json`."""
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
