"""The switches and bounds that apply to a project at the moment of a decision.

Each decision asks for the version of the configuration (`ConfigVersion`); what belongs to a version
is read once.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q

from retry.breakers import OpenBreaker
from retry.engine.decide import Mode, Settings
from retry.engine.decision import GLOBAL_MAX_RETRIES
from retry.policies.inline import STORED, Bounds, InlinePolicy
from retry.policies.matching import CompiledCategory
from retry.policies.merge import Layer, MergedBounds, merge_bounds
from retry.storm_limits import StormLimits
from sessions_app.in_force.kept import VERSION, Kept
from sessions_app.in_force.named_policies import CATEGORIES, compiled_categories
from sessions_app.in_force.shared_budgets import BUDGETS, JUDGED, BudgetInForce, budgets_in
from sessions_app.models import Domain, Project, Queue, RetrySettings, Session

_STRICTNESS = {Mode.ON: 0, Mode.PAUSED: 1, Mode.OFF: 2}
_LAYERS = (Layer.CLUSTER, Layer.DOMAIN, Layer.PROJECT)


@dataclass(frozen=True, slots=True)
class RetryScope:
    """The settings that cluster, domain and project together allow in a project."""

    settings: Settings
    bounds: MergedBounds
    defaults: tuple[tuple[Layer, InlinePolicy], ...]
    """The layers of defaults below the policy of a new session."""
    categories: tuple[CompiledCategory, ...]
    """The failure categories, which belong to the cluster."""
    storm_limits: StormLimits
    """The storm limits, which also belong to the cluster."""
    refuses_unfittable: bool = False
    """Whether submissions that fit on no executor are refused."""
    breakers: tuple[OpenBreaker, ...] = ()
    """The open breakers that hold retries of the project: its own and the cluster's."""
    budgets: tuple[BudgetInForce, ...] = ()
    """The shared budgets, in order from the cluster's; `retry_scopes` reads them."""
    version: str = ""
    """The version of the configuration that says all this; "": it was not read."""

    def judged(self, judged: bool) -> "RetryScope":
        """Return the scope with its budgets as they stand: without a sweep that judges them, what
        it found spent says nothing."""
        if judged or not any(each.spent for each in self.budgets):
            return self
        return replace(self, budgets=tuple(replace(each, spent=False) for each in self.budgets))


# Of a project that muted a signature, none of its retries is held.
BREAKERS = """
    SELECT json_agg(json_build_array(b.scope, b.project_id, b.queue_id, b.signature,
        coalesce(b.probe::text, '')) ORDER BY b.scope, b.signature)
    FROM sessions_app_breaker b
    WHERE b.state = 'open' AND (b.project_id IS NULL OR b.project_id = p.id)
        AND NOT EXISTS (SELECT FROM sessions_app_failuresignature f
            WHERE f.project_id = p.id AND f.key = b.signature AND f.muted)
"""
SCOPE = f"""
    SELECT json_build_array(
        coalesce(cs.global_max_retries,
            CASE WHEN cs.global_unlimited THEN NULL ELSE {GLOBAL_MAX_RETRIES} END),
        json_build_array(cs.mode, ds.mode, ps.mode),
        json_build_array(cd.bounds, dd.bounds, pd.bounds),
        json_build_array(cd.policy, dd.policy, pd.policy), ({CATEGORIES}),
        json_build_array(cs.retries_per_minute, cs.queue_retries_per_minute),
        coalesce(ps.refuse_unfittable, ds.refuse_unfittable, cs.refuse_unfittable, false),
        ({BREAKERS}))::text
    FROM (SELECT) AS always
    LEFT JOIN sessions_app_retrysettings cs ON cs.domain_id IS NULL AND cs.project_id IS NULL
    LEFT JOIN sessions_app_retrysettings ds ON ds.domain_id = p.domain_id
    LEFT JOIN sessions_app_retrysettings ps ON ps.project_id = p.id
    LEFT JOIN sessions_app_retrydefaults cd ON cd.domain_id IS NULL AND cd.project_id IS NULL
    LEFT JOIN sessions_app_retrydefaults dd ON dd.domain_id = p.domain_id
    LEFT JOIN sessions_app_retrydefaults pd ON pd.project_id = p.id
"""
"""SQL of one value about the project `p` for `scope_of`."""

_KEPT: Kept[tuple[str, int], RetryScope] = Kept(4096)
"""By version and project."""
_READ = f"""
    SELECT p.id, {VERSION}, ({SCOPE}), ({BUDGETS}), ({JUDGED})
    FROM sessions_app_project p WHERE p.id = ANY(%s)
"""
SCOPES = f"json_build_array({VERSION}, ({JUDGED}))"
"""SQL of one value for `scopes_in`."""


def retry_scopes(project_ids: Collection[int]) -> dict[int, RetryScope]:
    """Return the scope of each project by its id, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [sorted(set(project_ids))])
        rows = cursor.fetchall()
    found = {
        project: replace(scope_of(text), budgets=budgets_in(budgets), version=version or "")
        for project, version, text, budgets, _ in rows
    }
    _KEPT.keep({(each.version, key): each for key, each in found.items() if each.version})
    return {project: found[project].judged(bool(judged)) for project, *_, judged in rows}


def scopes_in(value: Sequence[Any] | None, project_ids: Iterable[int]) -> dict[int, RetryScope]:
    """Return the scopes of projects, by their ids, at the version in the value of `SCOPES`.

    One query reads those that this process does not know at this version, as they are now.
    """
    version, judged = value or (None, None)
    asked = {(version or "", project_id) for project_id in project_ids}
    found = {key[1]: scope.judged(bool(judged)) for key, scope in _KEPT.of(asked).items()}
    unknown = {project_id for _, project_id in asked} - found.keys()
    return found | retry_scopes(unknown) if unknown else found


def versions_of(scopes: Mapping[int, RetryScope]) -> dict[int, str]:
    """Return the version of the configuration of each scope that has one, by project."""
    return {project_id: each.version for project_id, each in scopes.items() if each.version}


def scopes_of(records: Iterable[Session | Queue]) -> dict[int, RetryScope]:
    """Return the scope of each record's project by its id; read those that came with no record."""
    known = {each.project_id: each.scope_text for each in records}
    scopes = {project_id: scope_of(text) for project_id, text in known.items() if text}
    unknown = known.keys() - scopes.keys()
    return scopes | retry_scopes(unknown) if unknown else scopes


@lru_cache(maxsize=1024)
def scope_of(text: str) -> RetryScope:
    """Return the scope in the value of `SCOPE`, ready for decisions."""
    (limit, modes, bounds, policies, categories, per_minute, refuses, breakers) = json.loads(text)
    # A limit of 0 would postpone forever; the switches are for that.
    storm_limits = StormLimits(*[None if each is None else max(each, 1) for each in per_minute])
    return RetryScope(
        Settings(_strictest(modes), limit),
        merge_bounds([(layer, Bounds.model_validate(each)) for layer, each in _layers(bounds)]),
        tuple(
            (layer, InlinePolicy.model_validate(each, context=STORED))
            for layer, each in _layers(policies)
        ),
        compiled_categories(categories),
        storm_limits,
        refuses,
        tuple(OpenBreaker(*each) for each in breakers or ()),
    )


def _layers(values: Iterable[Any]) -> list[tuple[Layer, Any]]:
    """Return the layers that have a value, with it."""
    return [pair for pair in zip(_LAYERS, values, strict=True) if pair[1] is not None]


def storm_limits_of(scopes: Mapping[int, RetryScope]) -> StormLimits:
    """Return the storm limits; they are the cluster's, so any of the scopes has them."""
    return next((scope.storm_limits for scope in scopes.values()), StormLimits())


def _strictest(modes: Iterable[str | None]) -> Mode:
    found = (Mode(mode) for mode in modes if mode)
    return max(found, key=_STRICTNESS.__getitem__, default=Mode.ON)


class SettingsInForce(NamedTuple):
    """What the settings of a scope and of those above it say together."""

    mode: Mode
    """The strictest switch."""
    refuses_unfittable: bool
    """Whether submissions that fit on no executor are refused: the closest scope decides."""
    own: RetrySettings | None
    """The scope's own row."""


def settings_in_force(*, project: Project | None, domain: Domain | None) -> SettingsInForce:
    """Return the settings that apply in a scope."""
    wanted = Q(domain=None, project=None)
    if domain is not None:
        wanted |= Q(domain=domain)
    if project is not None:
        wanted |= Q(project=project)
    rows = sorted(RetrySettings.objects.filter(wanted), key=_closeness, reverse=True)
    said = (each.refuse_unfittable for each in rows if each.refuse_unfittable is not None)
    level = _PROJECT if project is not None else _DOMAIN if domain is not None else _CLUSTER
    own = rows[0] if rows and _closeness(rows[0]) == level else None
    return SettingsInForce(_strictest(each.mode for each in rows), next(said, False), own)


def strictest(*, project: Project | None, domain: Domain | None) -> Mode:
    """Return the switch that applies in a scope: the strictest of its own and those above it."""
    return settings_in_force(project=project, domain=domain).mode


_CLUSTER, _DOMAIN, _PROJECT = range(3)


def _closeness(row: RetrySettings) -> int:
    if row.project_id is not None:
        return _PROJECT
    return _CLUSTER if row.domain_id is None else _DOMAIN
