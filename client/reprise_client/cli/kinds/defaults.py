"""The kind of retry defaults: inline policy and bounds of the cluster, domains and projects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from reprise_client.cli.exits import USAGE, CommandError
from reprise_client.cli.kinds.base import (
    CONFIGURED,
    CREATED,
    UNCHANGED,
    Applied,
    FieldError,
    How,
    Kind,
    Row,
    changed,
    found_or_none,
    missing,
)
from reprise_client.cli.output import facts, grid, heading
from reprise_client.cli.scope import Scope, home_scope
from reprise_client.cli.words import when

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import EffectiveField, RetryDefaults, RetrySettings

LAYER = ("policy", "bounds")
SPEC = (*LAYER, "settings")
SETTINGS = (
    *("refuse_unfittable", "breaker", "retry_budget", "global_max_retries"),
    "pod_defaults",
)


class DefaultsKind(Kind["RetryDefaults"]):
    name = "RetryDefaults"
    words = ("defaults", "default", "rd", "retrydefaults")
    metadata_keys = ("domain", "project")
    spec_keys = SPEC
    identity = ("scope",)
    address_key = "scope"
    needs_name = False
    heads = ("SCOPE", "POLICY", "BOUNDS")
    wide_heads = ("CHANGED",)

    def faults(self, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key, value in spec.items():
            if key not in SPEC:
                yield f"spec.{key}", "is not a known field"
            elif value is not None and not isinstance(value, dict):
                yield f"spec.{key}", "must be a mapping of fields"
        for name in spec.get("settings") or ():
            if name not in SETTINGS:
                yield f"spec.settings.{name}", "is not a known setting"

    def apply(
        self, client: Client, data: Mapping[str, Any], asked: Scope | None, how: How
    ) -> Applied:
        named = Scope.from_metadata(data["metadata"])
        if asked is not None and named not in {Scope(), asked}:
            path = f"metadata.{'project' if named.project else 'domain'}"
            raise FieldError(path, f"must match the options, which name {asked.words}", USAGE)
        policy, bounds = (data["spec"].get(key) or {} for key in LAYER)
        settings = data["spec"].get("settings") or {}
        query = (asked or named).query
        before = client.retry_defaults(**query)
        new = before.updated_at is None
        how.require(there=not new)
        set_now = _set(client, settings, (asked or named).query)
        if (before.policy, before.bounds) == (policy, bounds):
            # Writing would add an audit entry even without a change.
            return Applied(self.address(before), CONFIGURED if set_now else UNCHANGED)
        after = client.retry_defaults_put(
            policy=policy, bounds=bounds, if_match=before.etag, **query
        )
        outcome = CREATED if new else changed(before, after, *LAYER)
        return Applied(self.address(after), CONFIGURED if set_now and not new else outcome)

    def field_path(self, name: str) -> str:
        return f"spec.settings.{name}" if name in SETTINGS else f"spec.{name}"

    def metadata(self, item: RetryDefaults) -> dict[str, str]:
        return Scope.at(item.scope).metadata

    def all(self, client: Client, home: Scope | None) -> Iterable[RetryDefaults]:
        """Return the layers of a scope and of those above it, the cluster's first.

        A token of one project does not see its domain's.
        """
        scope = home or home_scope(client, None)
        layers = [_read(client, each) for each in reversed(scope.with_parents())]
        if layers[-1] is None:
            raise self._missing(scope)
        return [layer for layer in layers if layer is not None]

    def find(self, client: Client, typed: str, home: Scope) -> RetryDefaults:
        """Return the layer of `cluster`, a domain or `domain/project`; if nothing is typed, of the
        scope."""
        scope = Scope.at(typed) if typed else home
        found = _read(client, scope, effective=True)
        if found is None:
            raise self._missing(scope)
        return found

    def _missing(self, scope: Scope) -> CommandError:
        return missing("domain or project", scope.address, "", self.words[0])

    def delete(self, client: Client, item: RetryDefaults) -> str:
        client.retry_defaults_delete(**Scope.at(item.scope).query)
        return "deleted: it inherits everything again"

    def row(self, item: RetryDefaults, now: datetime) -> Row:
        return [item.scope, _listed(item.policy), _listed(item.bounds)]

    def wide_row(self, item: RetryDefaults, now: datetime) -> Row:
        return [when(item.updated_at, now)]

    def description(self, client: Client, item: RetryDefaults, now: datetime) -> RenderableType:
        scope = Scope.at(item.scope)
        settings = client.retry_settings(**scope.query)
        return Group(
            facts(
                [
                    ("Retry defaults", f"of {scope.words}"),
                    ("Changed", when(item.updated_at, now) or "never"),
                    ("Retries", _switch(settings)),
                    ("Submissions", _unfittable(settings)),
                    ("Pods get", _pods_get(settings)),
                    *(_limits(settings) if scope == Scope() else ()),
                ]
            ),
            heading("What a session gets that says nothing itself"),
            _effective("FIELD", item.effective, own=item.policy),
            *_bounds(item),
        )


def _read(client: Client, scope: Scope, *, effective: bool = False) -> RetryDefaults | None:
    return found_or_none(client.retry_defaults, **scope.query, effective=effective)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_written(value)}" for name, value in values.items())


def _written(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(str(item) for item in value) or "none"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _switch(settings: RetrySettings) -> str:
    if settings.effective_mode == settings.mode:
        return settings.mode
    return f"{settings.effective_mode}, by a scope above (here they are {settings.mode})"


def _unfittable(settings: RetrySettings) -> str:
    told = "refused" if settings.effective_refuse_unfittable else "accepted with a warning"
    inherited = "" if settings.refuse_unfittable is not None else ", by a scope above or by default"
    return f"{told} if they fit on no executor{inherited}"


def _pods_get(settings: RetrySettings) -> str:
    return json.dumps(settings.pod_defaults) if settings.pod_defaults else ""


def _set(client: Client, settings: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    """Set the given settings of a scope; others stay. Return whether any of them was different."""
    if not settings:
        return False
    before = client.retry_settings(**query)
    if all(getattr(before, name) == value for name, value in settings.items()):
        return False
    after = client.retry_settings_update(**query, **settings)
    # A budget gets the shipped values where the document says none.
    return any(getattr(before, name) != getattr(after, name) for name in settings)


def _limits(settings: RetrySettings) -> Iterator[tuple[str, str]]:
    per_minute = (settings.retries_per_minute, settings.queue_retries_per_minute)
    yield "Most retries of a chain", _limit(settings.global_max_retries)
    yield "Default policy", settings.default_policy or "none"
    yield "Retries a minute", _limit(per_minute[0])
    yield "Of one queue", _limit(per_minute[1])


def _limit(value: int | None) -> str:
    return "no limit" if value is None else str(value)


def _effective(
    head: str, values: Mapping[str, EffectiveField], *, own: Mapping[str, Any]
) -> RenderableType:
    made = grid(
        [head, "FROM", "VALUE"],
        (
            [name, f"{each.layer}{', here' if name in own else ''}", _written(each.value)]
            for name, each in values.items()
        ),
    )
    made.columns[-1].no_wrap = False  # there are many causes
    return made


def _bounds(item: RetryDefaults) -> list[RenderableType]:
    if not item.effective_bounds:
        return []
    table = _effective("BOUND", item.effective_bounds, own=item.bounds)
    return [heading("What nobody may ask for beyond"), table]
