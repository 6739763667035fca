"""Schedules in GraphQL."""

from typing import Any

import graphene

from sessions_app.api.graphql.connections import Page, connection_to, one, page_of, pages
from sessions_app.api.graphql.context import actor_of
from sessions_app.api.graphql.errors import read_arguments
from sessions_app.api.graphql.nodes import RestNode, found_by, uuid_of
from sessions_app.api.graphql.peers import Peer, one_by_one, single_peer
from sessions_app.api.graphql.scalars import UUID, DateTime
from sessions_app.api.graphql.shapes import arguments_of, shape_of, type_of
from sessions_app.api.graphql.tenants import Project, resolve_project
from sessions_app.api.http.paging import RowCursor
from sessions_app.api.kinds import schedules as operations
from sessions_app.api.render.schedule_render import next_times_of, runs_json, schedule_json
from sessions_app.api.requests.filters import ScheduleFilter
from sessions_app.api.requests.schedules import Timing
from sessions_app.api.shapes import schedule_shapes as shapes
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.models import Schedule as Row
from sessions_app.selectors.schedules import schedule_get, schedules_visible

_Shape: Any = shape_of(shapes.Schedule, leave_out={"id", "project"})


class Schedule(_Shape, RestNode):
    """A schedule: a session for each of its times, submitted as its owner."""

    schedule_id = graphene.Field(UUID, required=True, description="The id that REST uses.")
    project = graphene.Field(Project, required=True)
    next_times = graphene.List(
        graphene.NonNull(DateTime),
        required=True,
        description="At most five, also while it is paused.",
    )
    recent = graphene.List(
        graphene.NonNull(type_of(shapes.ScheduleRun)),
        required=True,
        description="Its latest chains that are still recorded, newest first, without those of "
        "backfills.",
    )
    resolve_project = staticmethod(resolve_project)

    @staticmethod
    def resolve_id(source: Peer[Row], _info: Any) -> str:
        return str(source.row.pk)

    @staticmethod
    def resolve_schedule_id(source: Peer[Row], _info: Any) -> Any:
        return source.row.pk

    @staticmethod
    def resolve_next_times(source: Peer[Row], _info: Any) -> Any:
        return next_times_of(source.row)

    @staticmethod
    def resolve_recent(source: Peer[Row], _info: Any) -> Any:
        return source.ask("recent", runs_json)


ScheduleConnection = connection_to(Schedule)


class ScheduleQueries:
    """The root fields of schedules."""

    schedule = one(Schedule, "One schedule.", id=graphene.ID(required=True))
    schedules = pages(
        ScheduleConnection,
        "The schedules of the projects of which you are a member, oldest first.",
        **arguments_of(ScheduleFilter),
    )
    schedule_times = one(
        type_of(shapes.NextTimes),
        "The next times that a schedule would have.",
        **arguments_of(Timing),
    )

    @staticmethod
    def resolve_schedule(_root: None, info: Any, id: str) -> Peer[Row]:
        return schedule_found(actor_of(info), id)

    @staticmethod
    def resolve_schedules(_root: None, info: Any, **asked: Any) -> dict[str, Any]:
        page, actor = Page.of(asked), actor_of(info)
        rows = read_arguments(ScheduleFilter, asked).apply(actor, schedules_visible(actor))
        return page_of(Schedule, rows, RowCursor("id"), page, render_schedules)

    @staticmethod
    def resolve_schedule_times(_root: None, info: Any, **asked: Any) -> Any:
        authorize(actor_of(info), Action.SCHEDULE_PREVIEW)
        return {"times": operations.preview(read_arguments(Timing, asked))}


@found_by("Schedule")
def schedule_found(actor: Actor, key: str) -> Peer[Row]:
    """Return a schedule by its global id or its REST id."""
    found = schedule_get(actor, uuid_of("Schedule", key), Action.SCHEDULE_READ)
    return single_peer(Schedule, found, render_schedules)


render_schedules = one_by_one(schedule_json)
"""Return schedules in REST's form."""
