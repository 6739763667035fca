"""Mutations of schedules."""

from typing import Any

import graphene

from interfaces.graphql.context import Context
from interfaces.graphql.mutations.kinds import (
    ActOf,
    CreateOf,
    DeleteOf,
    ReplaceOf,
    UpdateOf,
)
from interfaces.graphql.schedules import SCHEDULES
from interfaces.graphql.session_queries import session_found
from interfaces.graphql.sessions import Session
from interfaces.graphql.shapes import type_of
from interfaces.shapes import schedule_shapes as shapes


def _warnings() -> graphene.List:
    return graphene.List(
        graphene.NonNull(graphene.String), description="Warnings about its sessions."
    )


class CreateSchedule(CreateOf, of=SCHEDULES):
    warnings = _warnings()

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"warnings": list(result.warnings)}


class ReplaceSchedule(ReplaceOf, of=SCHEDULES):
    """Replace all fields of a schedule that can change. You become its owner."""

    warnings = _warnings()

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"warnings": list(result.warnings)}


class UpdateSchedule(UpdateOf, of=SCHEDULES):
    """Change the given fields of a schedule. You become its owner."""

    warnings = _warnings()

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"warnings": list(result.warnings)}


class DeleteSchedule(DeleteOf, of=SCHEDULES): ...


class PauseSchedule(ActOf, of=SCHEDULES, act="pause"): ...


class ResumeSchedule(ActOf, of=SCHEDULES, act="resume"): ...


class TriggerSchedule(ActOf, of=SCHEDULES, act="trigger"):
    shows = False
    session = graphene.Field(Session)
    warnings = _warnings()

    @classmethod
    def more(cls, context: Context, result: Any) -> dict[str, Any]:
        session = session_found(context.actor, str(result.session_id))
        return {"session": session, "warnings": list(result.warnings)}


class BackfillSchedule(ActOf, of=SCHEDULES, act="backfill"):
    """Make the sessions of past times, at most 1,000, or with `dryRun` only show the times."""

    shows = False
    backfilled = graphene.Field(type_of(shapes.Backfilled))

    @classmethod
    def more(cls, _context: Context, result: Any) -> dict[str, Any]:
        return {"backfilled": result}


class ScheduleMutations:
    """The mutations of schedules."""

    create_schedule = CreateSchedule.Field()
    replace_schedule = ReplaceSchedule.Field()
    update_schedule = UpdateSchedule.Field()
    delete_schedule = DeleteSchedule.Field()
    pause_schedule = PauseSchedule.Field()
    resume_schedule = ResumeSchedule.Field()
    trigger_schedule = TriggerSchedule.Field()
    backfill_schedule = BackfillSchedule.Field()
