"""The switches and bounds that apply to a project, read anew for every decision."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Q

from retry.engine.decide import Mode, Settings
from retry.policies.inline import Bounds, InlinePolicy
from retry.policies.matching import CompiledCategory
from retry.policies.merge import Layer, MergedBounds, merge_bounds
from retry.storm_limits import StormLimits
from sessions_app.in_force.named_policies import CATEGORIES, compiled_categories
from sessions_app.models import Domain, Project, Queue, RetrySettings, Session

DEFAULT_GLOBAL_MAX_RETRIES = 150
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


SCOPE = f"""
    SELECT json_build_array(
        cs.global_max_retries, json_build_array(cs.mode, ds.mode, ps.mode),
        json_build_array(cd.bounds, dd.bounds, pd.bounds),
        json_build_array(cd.policy, dd.policy, pd.policy), ({CATEGORIES}),
        json_build_array(cs.retries_per_minute, cs.queue_retries_per_minute))::text
    FROM (SELECT) AS always
    LEFT JOIN sessions_app_retrysettings cs ON cs.domain_id IS NULL AND cs.project_id IS NULL
    LEFT JOIN sessions_app_retrysettings ds ON ds.domain_id = p.domain_id
    LEFT JOIN sessions_app_retrysettings ps ON ps.project_id = p.id
    LEFT JOIN sessions_app_retrydefaults cd ON cd.domain_id IS NULL AND cd.project_id IS NULL
    LEFT JOIN sessions_app_retrydefaults dd ON dd.domain_id = p.domain_id
    LEFT JOIN sessions_app_retrydefaults pd ON pd.project_id = p.id
"""
"""SQL of one value about the project `p` for `scope_of`."""

_READ = f"SELECT p.id, ({SCOPE}) FROM sessions_app_project p WHERE p.id = ANY(%s)"


def retry_scopes(project_ids: Collection[int]) -> dict[int, RetryScope]:
    """Return the scope of each project by its id, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [sorted(set(project_ids))])
        return {project_id: scope_of(text) for project_id, text in cursor.fetchall()}


def scopes_of(records: Iterable[Session | Queue]) -> dict[int, RetryScope]:
    """Return the scope of each record's project by its id; read those that came with no record."""
    known = {each.project_id: each.scope_text for each in records}
    scopes = {project_id: scope_of(text) for project_id, text in known.items() if text}
    unknown = known.keys() - scopes.keys()
    return scopes | retry_scopes(unknown) if unknown else scopes


@lru_cache(maxsize=1024)
def scope_of(text: str) -> RetryScope:
    """Return the scope in the value of `SCOPE`, ready for decisions."""
    limit, modes, bounds, policies, categories, per_minute = json.loads(text)
    if limit is None:
        limit = DEFAULT_GLOBAL_MAX_RETRIES
    # A limit of 0 would postpone forever; the switches are for that.
    storm_limits = StormLimits(*[None if each is None else max(each, 1) for each in per_minute])
    return RetryScope(
        Settings(_strictest(modes), limit),
        merge_bounds([(layer, Bounds.model_validate(each)) for layer, each in _layers(bounds)]),
        tuple((layer, InlinePolicy.model_validate(each)) for layer, each in _layers(policies)),
        compiled_categories(categories),
        storm_limits,
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


def strictest(*, project: Project | None, domain: Domain | None) -> Mode:
    """Return the switch that applies in a scope: the strictest of its own and those above it."""
    wanted = Q(domain=None, project=None)
    if domain is not None:
        wanted |= Q(domain=domain)
    if project is not None:
        wanted |= Q(project=project)
    return _strictest(RetrySettings.objects.filter(wanted).values_list("mode", flat=True))
