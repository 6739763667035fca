"""GraphQL: what operators have to know now."""

from typing import Any

from interfaces.graphql.connections import one
from interfaces.graphql.context import actor_of
from interfaces.graphql.shapes import type_of
from reprise.operations import shapes
from reprise.operations.overview import operations, timetable, trends
from reprise.operations.render import operations_json, trends_json


class OperationsQueries:
    """The root fields for operators."""

    operations = one(
        type_of(shapes.Operations),
        "What is wrong now, the worst first, the switches with what each would hold, and the "
        "schedules that come next or are paused; for cluster admins.",
    )
    operations_trends = one(
        type_of(shapes.OperationsTrends), "The last 24 hours, the oldest first; for cluster admins."
    )

    @staticmethod
    def resolve_operations(_root: None, info: Any) -> dict[str, Any]:
        actor = actor_of(info)
        return operations_json(operations(actor), timetable(actor))

    @staticmethod
    def resolve_operations_trends(_root: None, info: Any) -> dict[str, Any]:
        return trends_json(trends(actor_of(info)))
