"""The switches and bounds that hold for a project, read anew for every decision."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from django.db import connection
from django.db.models import Q

from retry.decide import Mode, Settings
from retry.matching import CompiledCategory
from retry.merge import Layer, MergedBounds, merge_bounds
from retry.pacing import Pace
from retry.policy import Bounds
from sessions_app.models import Domain, Project, RetrySettings
from sessions_app.retry_rules import CATEGORIES, compiled_categories

DEFAULT_GLOBAL_MAX_RETRIES = 150
_STRICTNESS = {Mode.ON: 0, Mode.PAUSED: 1, Mode.OFF: 2}
_LAYERS = (Layer.CLUSTER, Layer.DOMAIN, Layer.PROJECT)


@dataclass(frozen=True, slots=True)
class RetryScope:
    """What the cluster, a domain and a project together allow in a project."""

    settings: Settings
    bounds: MergedBounds
    categories: tuple[CompiledCategory, ...]
    """The failure categories, which are the cluster's."""
    pace: Pace
    """The storm limits, which are the cluster's, too."""


_READ = f"""
    SELECT p.id, cs.global_max_retries, cs.mode, ds.mode, ps.mode,
        cd.bounds::text, dd.bounds::text, pd.bounds::text, ({CATEGORIES}),
        cs.retries_per_minute, cs.queue_retries_per_minute
    FROM sessions_app_project p
    LEFT JOIN sessions_app_retrysettings cs ON cs.domain_id IS NULL AND cs.project_id IS NULL
    LEFT JOIN sessions_app_retrysettings ds ON ds.domain_id = p.domain_id
    LEFT JOIN sessions_app_retrysettings ps ON ps.project_id = p.id
    LEFT JOIN sessions_app_retrydefaults cd ON cd.domain_id IS NULL AND cd.project_id IS NULL
    LEFT JOIN sessions_app_retrydefaults dd ON dd.domain_id = p.domain_id
    LEFT JOIN sessions_app_retrydefaults pd ON pd.project_id = p.id
    WHERE p.id = ANY(%s)
"""  # noqa: S608  # a constant


def retry_scopes(project_ids: Collection[int]) -> dict[int, RetryScope]:
    """The scope of each project by its id, as of now, in one query."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [sorted(set(project_ids))])
        return {
            row[0]: _scope(row[1], row[2:5], row[5:8], row[8], row[9:11])
            for row in cursor.fetchall()
        }


@lru_cache(maxsize=1024)
def _scope(
    global_max_retries: int | None,
    modes: tuple[str | None, ...],
    bounds: tuple[str | None, ...],
    categories: str | None,
    per_minute: tuple[int | None, int | None],
) -> RetryScope:
    limit = DEFAULT_GLOBAL_MAX_RETRIES if global_max_retries is None else global_max_retries
    mode = _strictest(modes)
    layers = [
        (layer, Bounds.model_validate(json.loads(text)))
        for layer, text in zip(_LAYERS, bounds, strict=True)
        if text
    ]
    # None a minute would postpone for ever, which is what the switches are for.
    pace = Pace(*[None if each is None else max(each, 1) for each in per_minute])
    return RetryScope(
        Settings(mode, limit), merge_bounds(layers), compiled_categories(categories), pace
    )


def pace_of(scopes: Mapping[int, RetryScope]) -> Pace:
    """The storm limits, which are the cluster's, as some of its scopes were read."""
    return next((scope.pace for scope in scopes.values()), Pace())


def _strictest(modes: Iterable[str | None]) -> Mode:
    found = (Mode(mode) for mode in modes if mode)
    return max(found, key=_STRICTNESS.__getitem__, default=Mode.ON)


def strictest(*, project: Project | None, domain: Domain | None) -> Mode:
    """The switch that holds in a scope: the strictest of its own and those above it."""
    wanted = Q(domain=None, project=None)
    if domain is not None:
        wanted |= Q(domain=domain)
    if project is not None:
        wanted |= Q(project=project)
    return _strictest(RetrySettings.objects.filter(wanted).values_list("mode", flat=True))
