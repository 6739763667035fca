"""REST: the overview of current work, which `reprise top` shows."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.executor_wire import overview_shapes as shapes
from interfaces.executor_wire.registry_render import executor_json
from interfaces.http.views import RestView
from interfaces.openapi.generator import query_parameters
from interfaces.render.by_shape import rendered
from interfaces.requests.queries import Text, query_of
from interfaces.requests.strict import StrictModel
from scheduler.overview import Overview, QueueLook, overview
from sessions_app.authorization import Action
from sessions_app.selectors.throughput import Throughput


class OverviewFilter(StrictModel):
    """The query parameters of `GET /overview/`."""

    project: Text | None = None
    """The project as `domain/name`; without it, all that the caller may see."""


class OverviewView(RestView):
    """`/overview/`."""

    actions: ClassVar = {"GET": Action.OVERVIEW_READ}

    @extend_schema(
        operation_id="overview",
        parameters=query_parameters(OverviewFilter),
        responses=shapes.Overview,
    )
    def get(self, request: Request) -> Response:
        """The current state: what waits, what runs, the throughput and the causes of failures."""
        wanted = query_of(OverviewFilter, request.query_params)
        return Response(overview_json(overview(self.actor, wanted.project)))


def overview_json(seen: Overview) -> dict[str, Any]:
    """Return the overview as JSON values."""
    executors = seen.executors
    return {
        "at": seen.at,
        "waiting": seen.waiting._asdict(),
        "live": seen.live,
        "retries": {name: count._asdict() for name, count in seen.retries._asdict().items()},
        "pace": _throughput_json(seen.throughput),
        "queues": [_queue_json(each) for each in seen.queues],
        "more_queues": seen.more_queues,
        "executors": None
        if executors is None
        else [executor_json(each, seen.at) for each in executors],
    }


def _throughput_json(throughput: Throughput) -> dict[str, Any]:
    windows = {name: round(getattr(throughput, name), 3) for name in ("window", "cause_window")}
    return rendered(shapes.Pace, throughput, **windows)


def _queue_json(look: QueueLook) -> dict[str, Any]:
    return {
        "project": look.queue.project.address,
        "name": look.queue.name,
        "priority_factor": look.queue.priority_factor,
        "cordoned": look.queue.cordoned,
        "waiting": look.waiting._asdict(),
        "live": look.live,
        "share": look.share,
        "effective_priority": look.effective_priority,
    }
