"""An option for each field of the inline retry policy, made from the fields of the SDK."""

import inspect
from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from reprise_client.cli.limits import UNLIMITED, limit
from reprise_client.retry_policy_fields import OPTIONS, RetryPolicyFields

OPTION_OF = {name: option.replace("-", "_") for name, (option, _) in OPTIONS.items()}
"""By field: the parameter of a command that says it."""


def policy_parameters() -> Iterator[inspect.Parameter]:
    """Return the parameters for typer; each is None if its option is not given."""
    for name, field in RetryPolicyFields.model_fields.items():
        option, metavar = OPTIONS[name]
        limited = UNLIMITED in _words(field.annotation)
        kind = Any if limited else _typed(field.annotation)
        text = str(field.description)
        if get_origin(kind) is list:
            text = f"{text.removesuffix('.')}; repeatable."
        flags = f"--{option}/--no-{option}" if kind is bool else f"--{option}"
        given = typer.Option(flags, help=text, metavar=metavar, parser=limit if limited else None)
        yield inspect.Parameter(
            OPTION_OF[name],
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[Union[kind, None], given],  # noqa: UP007  # `kind` is a value
        )


def _words(annotation: Any) -> list[Any]:
    """Return the words that may replace a value of the SDK."""
    return [word for each in get_args(annotation) for word in get_args(each)]


def _typed(annotation: Any) -> Any:
    """Return what is typed for a value of the SDK; the server checks its members."""
    arguments = [each for each in get_args(annotation) if each is not NoneType]
    if get_origin(annotation) is tuple:
        return list[arguments[0]]  # type: ignore[valid-type]  # known only here
    if get_origin(annotation) is Literal:
        return str
    return _typed(arguments[0]) if arguments else annotation
