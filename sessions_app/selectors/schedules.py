"""Reads of schedules; the first argument of what doors call is the actor."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from sessions_app.authorization import Action, Actor, Held, authorize, require_user
from sessions_app.core.errors import NotFound
from sessions_app.models import Membership, Queue, Schedule, Session
from sessions_app.models.schedules import Overlap
from sessions_app.models.tenants import Role


def schedules_visible(actor: Actor) -> QuerySet[Schedule]:
    """Return the schedules of the projects in which the actor is a member."""
    require_user(actor)
    visible = actor.projects(least=Role.MEMBER)
    found = Schedule.objects.filter(project__in=visible)
    return found.select_related("project__domain", "owner")


def schedule_get(actor: Actor, schedule_id: UUID, action: Action) -> Schedule:
    """Return one schedule. Raises `NotFound` and `NotPermitted`."""
    require_user(actor)
    rows = Schedule.objects.select_related("project__domain", "owner")
    found = rows.filter(pk=schedule_id).first()
    if found is None:
        raise NotFound(f"no schedule {schedule_id}")
    try:
        authorize(actor, action, project=found.project, owner_id=found.owner_id)
    except NotFound:
        raise NotFound(f"no schedule {schedule_id}") from None
    return found


def actors_of(user_ids: Collection[int | None]) -> dict[int, Actor]:
    """Return active users as actors with all their rights, by id, in two statements."""
    users = User.objects.filter(pk__in={each for each in user_ids if each}, is_active=True)
    held: dict[int, list[Held]] = defaultdict(list)
    columns = ("user_id", "role", "project_id", "domain_id", "project__domain_id")
    for user_id, *row in Membership.objects.filter(user__in=users).values_list(*columns):
        held[user_id].append(Held(*row))
    return {each.pk: Actor(user=each, memberships=held[each.pk]) for each in users}


def queues_named(schedules: Collection[Schedule]) -> dict[tuple[int, str], Queue]:
    """Return the queues of schedules by project and name; the default ones as ""."""
    rows = Queue.objects.filter(
        Q(is_default=True) | Q(name__in={each.queue for each in schedules}),
        project__in={each.project_id for each in schedules},
    )
    found = {}
    for queue in rows:
        found[queue.project_id, queue.name] = queue
        if queue.is_default:
            found[queue.project_id, ""] = queue
    return found


def replacing_due(now: datetime, limit: int) -> list[Schedule]:
    """Return schedules that are due and cancel their earlier chains, as they are claimed."""
    due = Schedule.objects.filter(paused_at=None, due_at__lte=now).order_by("due_at", "pk")
    return [each for each in due[:limit] if each.overlap == Overlap.CANCEL_RUNNING]


class Tip(NamedTuple):
    """The newest attempt of a chain."""

    root_id: UUID
    id: UUID
    status: str
    phase: str
    retry_state: str
    created_at: datetime
    """When the chain was submitted."""


def tips_of(roots: Collection[UUID]) -> dict[UUID, Tip]:
    """Return the newest attempts of chains that are still recorded, by root, in one statement."""
    if not roots:
        return {}
    columns = ("root_id", "pk", "status", "phase", "retry_state", "root_submitted_at")
    rows = Session.objects.filter(root__in=roots, tip=True).values_list(*columns)
    return {row[0]: Tip(*row) for row in rows}
