"""What changes from one attempt to another: the changes of a retry, and two sessions compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from reprise_client.cli.spec import document, pairs, secrets_named

_COMPARED = (
    *("image", "command", "environ", "secret_environ", "resources", "pod_spec", "mounts", "ports"),
    *("labels", "cluster_size", "priority", "batch_timeout", "scheduling_timeout"),
    "queue_timeout",
    *("termination_grace_period", "retry_policy", "retry_policies", "queue", "status"),
    *("retry_cause", "failure_category", "failure_signature", "exit_code", "executor", "node"),
)


@dataclass(frozen=True, kw_only=True)
class RetryOptions:
    """The values of the options that change the next attempt."""

    resources: Annotated[
        list[str] | None,
        typer.Option(
            "--resources",
            "--resource",
            metavar="NAME=QUANTITY",
            help="Resource that replaces the attempt's own; repeatable.",
        ),
    ] = None
    image: Annotated[
        str | None, typer.Option(metavar="IMAGE", help="Another image from this attempt on.")
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="NAME=VALUE", help="Variable to set; repeatable."),
    ] = None
    secret_env: Annotated[
        list[str] | None,
        typer.Option(
            "--secret-env",
            metavar="NAME|NAME=@FILE",
            help="Secret variable, with its value in this environment or from a file; repeatable.",
        ),
    ] = None
    changes: Annotated[
        Path | None,
        typer.Option(
            "--changes",
            metavar="FILE",
            help="File with the changes as YAML or JSON; - is stdin. Options override it.",
        ),
    ] = None
    reason: Annotated[str, typer.Option(help="Reason, shown with the attempt.")] = ""

    def asked(self) -> dict[str, Any]:
        """Return what the client's calls take."""
        env, secrets = pairs("--env", self.env), secrets_named(self.secret_env)
        return {
            "resources": pairs("--resources", self.resources),
            "changes": retry_changes(document(self.changes), self.image, env, secrets),
            "reason": self.reason,
        }


def secrets_dropped_words(names: Sequence[str], *, dry: bool) -> str:
    """Return that new attempts do not get secrets, because somebody else gave them."""
    verb = "would not get" if dry else "does not get"
    return f"it {verb} the secrets {', '.join(names)}: somebody else gave them"


def retry_changes(
    given: Mapping[str, Any],
    image: str | None,
    env: Mapping[str, str],
    secrets: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the changes of a file, with those of the options over them."""
    changes = dict(given)
    if image is not None:
        changes["image"] = image
    if env:
        changes["environ"] = {**(changes.get("environ") or {}), **env}
    if secrets:
        changes["secret_environ"] = {**(changes.get("secret_environ") or {}), **secrets}
    return changes


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the fields in which two sessions differ, with both values; mappings by their keys."""
    rows: list[tuple[str, Any, Any]] = []
    for name in _COMPARED:
        was, now = first.get(name), second.get(name)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            keys = list(dict.fromkeys([*was, *now]))
            rows += [
                (f"{name}.{key}", was.get(key, "-"), now.get(key, "-"))
                for key in keys
                if was.get(key) != now.get(key)
            ]
        elif was != now:
            rows.append((name, "-" if was is None else was, "-" if now is None else now))
    return rows
