"""Mutations of schedules."""

from typing import Any
from uuid import UUID

import graphene
from graphql_relay import to_global_id

from sessions_app.api.graphql.context import Context
from sessions_app.api.graphql.kinds import ID_HELP
from sessions_app.api.graphql.mutations.base import Change, Deletion
from sessions_app.api.graphql.nodes import uuid_of
from sessions_app.api.graphql.peers import Peer, single_peer
from sessions_app.api.graphql.schedules import Schedule, render_schedules
from sessions_app.api.graphql.session_queries import session_found
from sessions_app.api.graphql.sessions import Session
from sessions_app.api.graphql.shapes import type_of
from sessions_app.api.kinds import schedules as operations
from sessions_app.api.requests.schedules import (
    Backfill,
    ScheduleChanges,
    ScheduleCreate,
    SchedulePause,
    SchedulePut,
)
from sessions_app.api.shapes import schedule_shapes as shapes
from sessions_app.models import Schedule as Row


class OfSchedule:
    """The input fields that name a schedule."""

    id = graphene.ID(required=True, description=ID_HELP)


def _key(given: dict[str, Any]) -> UUID:
    return uuid_of("Schedule", given.pop("id"))


def _payload(row: Row) -> dict[str, Peer[Row]]:
    return {"schedule": single_peer(Schedule, row, render_schedules)}


def _saved(saved: operations.Saved) -> dict[str, Any]:
    return {**_payload(saved.schedule), "warnings": list(saved.warnings)}


def _warnings() -> graphene.List:
    return graphene.List(
        graphene.NonNull(graphene.String), description="Warnings about its sessions."
    )


class CreateSchedule(Change, body=ScheduleCreate):
    """Create a schedule. Its sessions are submitted as you."""

    schedule = graphene.Field(Schedule)
    warnings = _warnings()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _saved(operations.create(context.actor, given))


class ReplaceSchedule(Change, body=SchedulePut):
    """Replace all fields of a schedule that can change. You become its owner."""

    Input = OfSchedule
    schedule = graphene.Field(Schedule)
    warnings = _warnings()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return _saved(operations.put(context.actor, key, given))


class UpdateSchedule(Change, body=ScheduleChanges):
    """Change the given fields of a schedule. You become its owner."""

    Input = OfSchedule
    schedule = graphene.Field(Schedule)
    warnings = _warnings()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return _saved(operations.change(context.actor, key, given))


class DeleteSchedule(Deletion):
    """Delete a schedule. Its sessions stay."""

    Input = OfSchedule

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        operations.delete(context.actor, key)
        return {"deleted_id": to_global_id("Schedule", str(key))}


class PauseSchedule(Change, body=SchedulePause):
    """Pause the schedule. Its running sessions go on."""

    Input = OfSchedule
    schedule = graphene.Field(Schedule)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return _payload(operations.pause(context.actor, key, given))


class ResumeSchedule(Change):
    """Resume a paused schedule with its next time. Times of the pause are not made up."""

    Input = OfSchedule
    schedule = graphene.Field(Schedule)

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        return _payload(operations.resume(context.actor, _key(given)))


class TriggerSchedule(Change):
    """Make one session now, as the schedule's owner, also while it is paused."""

    Input = OfSchedule
    session = graphene.Field(Session)
    warnings = _warnings()

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        made = operations.trigger(context.actor, _key(given))
        session = session_found(context.actor, str(made.session_id))
        return {"session": session, "warnings": list(made.warnings)}


class BackfillSchedule(Change, body=Backfill):
    """Make the sessions of past times, at most 1,000, or with `dryRun` only show the times."""

    Input = OfSchedule
    backfilled = graphene.Field(type_of(shapes.Backfilled))

    @classmethod
    def perform(cls, context: Context, given: dict[str, Any]) -> dict[str, Any]:
        key = _key(given)
        return {"backfilled": operations.backfill(context.actor, key, given)}


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
