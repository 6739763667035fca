"""Renders failures."""

from collections.abc import Sequence
from typing import Any

from interfaces.render.by_shape import rendered
from interfaces.shapes import failure_shapes as shapes
from sessions_app.selectors.failures import Failure


def failure_json(failure: Failure) -> dict[str, Any]:
    """Return a failure with its figures."""
    return rendered(
        shapes.Failure,
        failure,
        project=failure.address,
        sparkline=list(failure.sparkline),
        queues=_shares(failure.queues),
        images=_shares(failure.images),
        nodes=_shares(failure.nodes),
    )


def _shares(found: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"value": value, "sessions": sessions} for value, sessions in found]
