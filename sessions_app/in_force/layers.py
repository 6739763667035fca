"""The layers of defaults below a session, and the result of merging them."""

from typing import Any

from retry.policies.inline import STORED, Bounds, InlinePolicy
from retry.policies.merge import Layer, MergedBounds, merge_bounds
from sessions_app.db.joined_rows import JoinedRows, Part
from sessions_app.models import Domain, Project, RetryDefaults

_READ = JoinedRows(
    """
    SELECT {columns} FROM sessions_app_retrydefaults r
    WHERE r.domain_id IS NULL AND r.project_id IS NULL OR r.domain_id = %s OR r.project_id = %s
    """,
    (Part(RetryDefaults, "r"),),
)


def policy_layers(
    project: Project | None, domain: Domain | None = None
) -> list[tuple[Layer, InlinePolicy]]:
    """Return the inline policies of cluster, domain and project that exist, in that order."""
    return [
        (layer, InlinePolicy.model_validate(row.policy, context=STORED))
        for layer, row in _rows(project, domain)
    ]


def bound_layers(project: Project | None, domain: Domain | None = None) -> MergedBounds:
    """Return the merged bounds of the same layers: the strictest ones."""
    return merge_bounds(
        [(layer, Bounds.model_validate(row.bounds)) for layer, row in _rows(project, domain)]
    )


def _rows(project: Project | None, domain: Domain | None) -> list[tuple[Layer, RetryDefaults]]:
    domain_id: Any = project.domain_id if project else domain and domain.pk
    rows = [(_layer(row), row) for row in _READ.read([domain_id, project and project.pk])]
    order = list(Layer)
    return sorted(rows, key=lambda pair: order.index(pair[0]))


def _layer(row: RetryDefaults) -> Layer:
    if row.project_id is not None:
        return Layer.PROJECT
    return Layer.CLUSTER if row.domain_id is None else Layer.DOMAIN
