"""Reads of breakers."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.db.bulk import array
from sessions_app.models import Breaker, FailureSignature, Project, Queue, SessionEvent
from sessions_app.models.breakers import BreakerState
from sessions_app.selectors.policies import queue_stored

MOST_HELD = 10_000
"""Up to so many held retries are counted."""
_HELD = f"""
    SELECT v.key, (SELECT count(*) FROM (
        SELECT FROM sessions_app_retrydecision
        WHERE state = 'held' AND held_for = 'breaker' AND held_key = v.key
        LIMIT {MOST_HELD}) AS first)
    FROM unnest(%s::text[]) AS v(key)
"""


def breakers_listed(actor: Actor) -> QuerySet[Breaker]:
    """Return the cluster's breakers and those of the projects that the actor may see.

    Raises `NotPermitted`.
    """
    authorize(actor, Action.BREAKER_LIST)
    rows = _titled()
    if actor.is_cluster_admin:
        return rows
    return rows.filter(Q(project__in=actor.projects().values("pk")) | Q(project=None))


def _titled() -> QuerySet[Breaker]:
    """Return all breakers, each with the `title` of its failure in its project."""
    titles = FailureSignature.objects.filter(
        project=OuterRef("project"), key=OuterRef("signature")
    ).values("title")
    rows = Breaker.objects.select_related("project__domain", "queue")
    return rows.annotate(title=Subquery(titles))


def breakers_open(limit: int) -> list[Breaker]:
    """Return at most `limit` open breakers of all scopes, those that opened last first."""
    rows = _titled().filter(state=BreakerState.OPEN).order_by("-opened_at", "pk")
    return list(rows[:limit])


def breakers_open_for(
    actor: Actor, project: Project, limit: int, *, signature: str | None = None
) -> list[Breaker]:
    """Return at most `limit` open breakers of a project and of the cluster, of all signatures or of
    one, those that opened last first. Raises `NotPermitted`."""
    rows = breakers_listed(actor).filter(Q(project=project) | Q(project=None))
    if signature is not None:
        rows = rows.filter(signature=signature)
    return list(rows.filter(state=BreakerState.OPEN).order_by("-opened_at", "pk")[:limit])


def breaker_get(actor: Actor, breaker_id: UUID, action: Action = Action.BREAKER_READ) -> Breaker:
    """Return one breaker, as `breakers_listed` does. Raises `NotPermitted`, `NotFound`."""
    found = breakers_listed(actor).filter(pk=breaker_id).first()
    if found is None:
        raise NotFound(f"no breaker {breaker_id}")
    if action is Action.BREAKER_WRITE:
        authorize(actor, action, project=found.project)
    else:
        authorize(actor, action)
    return found


def breaker_events(breaker: Breaker) -> QuerySet[SessionEvent]:
    """Return the events of a breaker that somebody may see.

    When the cluster's turns, each project that it concerns has an event: one of them is enough.
    """
    rows = SessionEvent.objects.filter(session_id=breaker.pk)
    same = rows.filter(time=OuterRef("time"), type=OuterRef("type"), seq__lt=OuterRef("seq"))
    return rows.filter(~Exists(same))


def breakers_hold_counts(breakers: Sequence[Breaker]) -> dict[str, int]:
    """Return the number of retries that each breaker holds, by its key, in one statement."""
    keys = [str(each) for each in breakers if each.state == BreakerState.OPEN]
    if not keys:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [array(keys)])
        return dict(cursor.fetchall())


def breaker_queue(project: Project | None, name: str | None) -> Queue | None:
    """Return the named queue of a project. Raises `InvalidInput` for one that does not exist."""
    if name is None:
        return None
    if project is None:
        raise InvalidInput({"queue": ["name its project, too"]})
    queue = queue_stored(project, name)
    if queue is None:
        raise InvalidInput({"queue": [f"no queue {name} in project {project.address}"]})
    queue.project = project
    return queue
