"""Schedules in GraphQL."""

from typing import Any

import graphene

from interfaces.graphql.connections import connection_to, one
from interfaces.graphql.context import actor_of
from interfaces.graphql.errors import read_arguments
from interfaces.graphql.kinds import Kind, KindNode, by_uuid, one_of, pages_of
from interfaces.graphql.peers import Peer
from interfaces.graphql.scalars import UUID, DateTime
from interfaces.graphql.shapes import arguments_of, shape_of, type_of
from interfaces.graphql.tenants import Project, resolve_project
from interfaces.kinds import schedules as operations
from interfaces.kinds.schedules import SCHEDULE
from interfaces.render.schedule_render import next_times_of, runs_json
from interfaces.requests.schedules import Timing
from interfaces.shapes import schedule_shapes as shapes
from sessions_app.authorization import Action, authorize
from sessions_app.models import Schedule as Row

_Shape: Any = shape_of(shapes.Schedule, leave_out={"id", "project"})


class Schedule(_Shape, KindNode):
    """A schedule: a session for each of its times, submitted as its owner."""

    of = SCHEDULE
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
    def resolve_schedule_id(source: Peer[Row], _info: Any) -> Any:
        return source.row.pk

    @staticmethod
    def resolve_next_times(source: Peer[Row], _info: Any) -> Any:
        return next_times_of(source.row)

    @staticmethod
    def resolve_recent(source: Peer[Row], _info: Any) -> Any:
        return source.ask("recent", runs_json)


ScheduleConnection = connection_to(Schedule)
SCHEDULES = Kind(SCHEDULE, Schedule, by_uuid("Schedule"))


class ScheduleQueries:
    """The root fields of schedules."""

    schedule = one_of(SCHEDULES, "One schedule.", id=graphene.ID(required=True))
    schedules = pages_of(SCHEDULES, ScheduleConnection)
    schedule_times = one(
        type_of(shapes.NextTimes),
        "The next times that a schedule would have.",
        **arguments_of(Timing),
    )

    @staticmethod
    def resolve_schedule_times(_root: None, info: Any, **asked: Any) -> Any:
        authorize(actor_of(info), Action.SCHEDULE_PREVIEW)
        return {"times": operations.preview(read_arguments(Timing, asked))}
