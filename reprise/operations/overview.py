"""What operators have to know now, read in a fixed number of statements."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from reprise.monitoring.hours import Hour, hours
from reprise.operations import work
from reprise.operations.machinery import machinery
from reprise.operations.problems import SHOWN, Problem, Switch, worst_first
from reprise.operations.switches import BUSIEST, scopes, switches
from scheduler.models import Reservation
from scheduler.selectors import executors_listed, nodes_out, reservations_listed
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.states import Phase
from sessions_app.locks import database_now
from sessions_app.models import Queue, Schedule
from sessions_app.selectors.breakers import breakers_hold_counts, breakers_open
from sessions_app.selectors.counts import (
    Count,
    Waiting,
    retries_waiting,
    sessions_in,
    waiting_by_queue,
)
from sessions_app.selectors.policies import queues_visible
from sessions_app.selectors.retry_budgets import budgets_spent
from sessions_app.selectors.retry_config import switches_moved
from sessions_app.selectors.schedules import schedules_visible

EXECUTORS = 500
"""Most executors that are looked at, those that were heard the longest ago first."""


@dataclass(frozen=True, slots=True)
class Operations:
    """The state of the deployment, for operators; `problems` are sorted, the worst first."""

    at: datetime
    waiting: Count
    live: Count
    retries: Waiting
    problems: list[Problem]
    switches: list[Switch]
    reservations: list[Reservation]
    """The oldest of the nodes that are kept free; they are among the problems, too."""


def operations(actor: Actor) -> Operations:
    """Return what is wrong, and the switches. Raises `NotPermitted` but for cluster admins."""
    authorize(actor, Action.OPERATIONS_READ)
    now = database_now()
    waiting, live, retries = sessions_in(Phase.WAITING), sessions_in(Phase.LIVE), retries_waiting()
    heard = executors_listed(actor).defer("nodes").prefetch_related(None)
    executors = list(heard.order_by(F("last_seen_at").asc(nulls_last=True), "name")[:EXECUTORS])
    moved = list(switches_moved().select_related("domain", "project__domain")[:SHOWN])
    by_scope = scopes(retries)
    queues, in_queue = _queues(actor)
    kept, broken = list(reservations_listed(actor)[:SHOWN]), breakers_open(SHOWN)
    problems = [
        *machinery(now),
        *work.executors(executors, now, waiting),
        *work.retries(moved, by_scope),
        *work.parked_chains(),
        *work.breakers(broken, breakers_hold_counts(broken)),
        *work.budgets(budgets_spent(SHOWN)),
        *work.queues([each for each in queues if each.cordoned], in_queue),
        *work.reservations(kept),
        *work.nodes(list(nodes_out(actor)[:SHOWN])),
        *work.oldest(actor, now),
    ]
    held = sorted(executors, key=lambda each: (not each.cordoned, -each.lease_count, each.name))
    return Operations(
        at=now,
        waiting=waiting,
        live=live,
        retries=retries,
        problems=worst_first(problems),
        switches=switches(moved, by_scope, held, queues, in_queue),
        reservations=kept,
    )


def _queues(actor: Actor) -> tuple[list[Queue], dict[int, Count]]:
    """Return the cordoned queues and those in which most waits, with what waits in them."""
    rows = queues_visible(actor)
    cordoned = list(rows.filter(cordoned=True).order_by("pk")[:SHOWN])
    found = waiting_by_queue(list(rows.values_list("pk", flat=True)))
    most = sorted(found, key=lambda key: (-found[key].value, key))[:BUSIEST]
    known = {each.pk for each in cordoned}
    busy = rows.in_bulk([key for key in most if key not in known])
    return [*cordoned, *(busy[key] for key in most if key in busy)], found


@dataclass(frozen=True, slots=True)
class Timetable:
    """Schedules of the whole cluster, at most `SHOWN` of each kind."""

    coming: list[Schedule]
    """Those whose times come next, the first of them first."""
    paused: list[Schedule]
    """Those that were paused last, the newest first."""


def timetable(actor: Actor) -> Timetable:
    """Return the next and the paused schedules, in two statements. Raises `NotPermitted`."""
    authorize(actor, Action.OPERATIONS_READ)
    known = schedules_visible(actor).defer("template", "recent")
    coming = known.filter(paused_at=None, due_at__isnull=False).order_by("due_at", "pk")
    paused = known.filter(paused_at__isnull=False).order_by("-paused_at", "pk")
    return Timetable(list(coming[:SHOWN]), list(paused[:SHOWN]))


@dataclass(frozen=True, slots=True)
class Trends:
    """The last 24 hours, the oldest first."""

    at: datetime
    hours: list[Hour]


def trends(actor: Actor) -> Trends:
    """Return the last 24 hours. Raises `NotPermitted` but for cluster admins."""
    authorize(actor, Action.OPERATIONS_READ)
    now = database_now()
    return Trends(now, hours(now))
