"""The options that describe a session, shared by `run` and `session create`."""

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import typer
import yaml
from typer.core import TyperCommand

from reprise_client.cli.completion import complete_policy, complete_queue
from reprise_client.cli.documents import StrictLoader
from reprise_client.cli.policy_options import OPTION_OF, policy_parameters

P = ParamSpec("P")
T = TypeVar("T")


def _option(text: str, metavar: str, **more: Any) -> Any:
    return typer.Option(help=text, metavar=metavar, **more)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """The values of the options; None and empty mean that an option was not given."""

    name: Annotated[str | None, typer.Option(help="Name of the session, for people.")] = None
    project: Annotated[str | None, _option("Project (default: the context's).", "DOMAIN/NAME")] = (
        None
    )
    queue: Annotated[
        str | None,
        _option(
            "Queue (default: the project's default queue).", "NAME", autocompletion=complete_queue
        ),
    ] = None
    job_set: Annotated[str | None, typer.Option(help="Job set of the session.")] = None
    priority: Annotated[
        int | None, typer.Option(help="Priority in the queue; higher goes first.")
    ] = None
    priority_class: Annotated[
        str | None, _option("Priority class; higher classes go first.", "NAME")
    ] = None
    env: Annotated[list[str] | None, _option("Environment variable; repeatable.", "KEY=VALUE")] = (
        None
    )
    secret_env: Annotated[
        list[str] | None,
        _option(
            "Secret variable, with its value in this environment or from a file; repeatable.",
            "NAME|NAME=@FILE",
        ),
    ] = None
    label: Annotated[list[str] | None, _option("A label; repeatable.", "KEY=VALUE")] = None
    cpu: Annotated[str | None, typer.Option(help="CPUs, such as 2 or 500m.")] = None
    memory: Annotated[str | None, typer.Option(help="Memory, such as 4Gi.")] = None
    resources: Annotated[
        list[str] | None,
        typer.Option(
            "--resources",
            "--resource",
            metavar="NAME=QUANTITY",
            help="Another resource; repeatable.",
        ),
    ] = None
    timeout: Annotated[float | None, _option("Maximum run time of one attempt.", "SECONDS")] = None
    queue_timeout: Annotated[
        float | None, _option("Maximum time that each attempt waits.", "SECONDS")
    ] = None
    depends_on: Annotated[
        list[str] | None,
        _option(
            "Session that has to end first, by its id or creation_id; WHEN is succeeded (the "
            "default), ended or failed; repeatable.",
            "[WHEN=]ID",
        ),
    ] = None
    on_dependency_failure: Annotated[
        str | None, _option("If a dependency cannot be met: cancel (default) or run.", "cancel|run")
    ] = None
    policy: Annotated[
        list[str] | None,
        _option("Named retry policy; repeatable.", "NAME", autocompletion=complete_policy),
    ] = None
    retry_policy: dict[str, Any] = field(default_factory=dict)
    """The fields of the inline policy; their options are made from those of the SDK."""

    def body(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return the create body: `base` (a document), overridden by the options."""
        flat = {
            "name": self.name,
            "project": self.project,
            "queue": self.queue,
            "job_set": self.job_set,
            "priority": self.priority,
            "priority_class": self.priority_class,
            "batch_timeout": self.timeout,
            "queue_timeout": self.queue_timeout,
            "retry_policies": self.policy,
            "depends_on": dependencies(self.depends_on),
            "on_dependency_failure": self.on_dependency_failure,
        }
        nested = {
            "environ": pairs("--env", self.env),
            "secret_environ": secrets_named(self.secret_env),
            "labels": pairs("--label", self.label),
            "resources": {
                **pairs("--resources", self.resources),
                **_given_only({"cpu": self.cpu, "memory": self.memory}),
            },
            "retry_policy": _given_only(self.retry_policy),
        }
        merged = {
            key: {**_mapping(key, base.get(key)), **value} for key, value in nested.items() if value
        }
        return {**base, **_given_only(flat), **merged}


_WHEN = ("succeeded", "ended", "failed")


def dependencies(texts: list[str] | None) -> list[dict[str, str]]:
    """Return the dependencies of `[WHEN=]ID` texts."""
    found = []
    for text in texts or []:
        when, equals, name = text.partition("=")
        known = bool(equals) and when in _WHEN
        found.append(
            {"session": name, "when": when} if known else {"session": text, "when": "succeeded"}
        )
    return found


class BehindDashes(TyperCommand):
    """A command that takes the words after `--` as the session's command, never as its image."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own, command = args, []
        if "--" in args:
            cut = args.index("--")
            own, command = args[:cut], args[cut + 1 :]
        rest = super().parse_args(ctx, own)
        ctx.params["command"] = [*(ctx.params.get("command") or ()), *command]
        return rest


def with_options(
    kind: type[T],
) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """Return a decorator that replaces a command's first parameter, a dataclass, by options.

    Each field of the dataclass becomes one option.
    """
    return _opened(_parameters(kind), lambda given: kind(**given))


def _parameters(kind: type) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=hints[each.name],
        )
        for each in fields(kind)
        if each.default is not MISSING
    ]


def _opened(
    options: list[inspect.Parameter], made: Callable[[dict[str, Any]], T]
) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """A decorator that gives a command `options` in the place of what is `made` of their values."""

    def decorate(command: Callable[Concatenate[T, P], None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        _, *rest = own.parameters.values()

        @functools.wraps(command)
        def opened(*args: Any, **given: Any) -> None:
            bundle = made({option.name: given.pop(option.name) for option in options})
            command(bundle, *args, **given)

        signature = own.replace(parameters=[*rest, *options])
        opened.__signature__ = signature  # type: ignore[attr-defined]
        opened.__annotations__ = {
            name: parameter.annotation for name, parameter in signature.parameters.items()
        }
        return opened

    return decorate


def _spec(given: dict[str, Any]) -> Spec:
    policy = {name: given.pop(option) for name, option in OPTION_OF.items()}
    return Spec(**given, retry_policy=policy)


with_spec = _opened([*_parameters(Spec), *policy_parameters()], _spec)


def document(path: Path | None) -> dict[str, Any]:
    """Return the mapping in a YAML or JSON file (`-` is standard input); empty without a path."""
    if path is None:
        return {}
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        data = yaml.load(text, Loader=StrictLoader)  # noqa: S506  # a SafeLoader
        json.dumps(data, allow_nan=False)
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise typer.BadParameter(f"cannot read {path}: {error}") from error
    return _mapping(str(path), data)


def _mapping(name: str, data: Any) -> dict[str, Any]:
    if data is not None and not isinstance(data, dict):
        raise typer.BadParameter(f"{name} is not a mapping of fields")
    return data or {}


def pairs(flag: str, texts: list[str] | None) -> dict[str, str]:
    """Return the `KEY=VALUE` texts of an option as a mapping."""
    found = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{flag} takes KEY=VALUE, not {text!r}")
        found[key] = value
    return found


def secrets_named(texts: list[str] | None) -> dict[str, str]:
    """Return the secret variables of `NAME` and `NAME=@FILE` texts.

    Values are never in the texts.
    """
    return dict(_secret(text) for text in texts or [])


def _secret(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not equals and name in os.environ:
        return name, os.environ[name]
    if not equals:
        raise typer.BadParameter(f"--secret-env: there is no variable {name} in the environment")
    if not name or not source.startswith("@"):
        # The text is not repeated here, because it may be the secret.
        raise typer.BadParameter(
            "--secret-env takes NAME or NAME=@FILE: a value on the command line is seen by all "
            "users of this machine, and kept by the shell"
        )
    path = source[1:]
    try:
        value = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"--secret-env {name}: cannot read {path}: {error}") from error
    return name, value.removesuffix("\n")


def _given_only(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != []}
