"""Reads of sessions, projects and queues for every door; the first argument is the actor."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.conf import settings
from django.db.models import Case, QuerySet, TextField, When
from django.db.models.functions import Cast

from sessions_app.authorization import RULES, Action, Actor, authorize, require_user
from sessions_app.core.errors import Conflict, DomainError, InvalidInput, NotFound
from sessions_app.core.near import did_you_mean
from sessions_app.core.states import FINAL_STATUSES, WAITING_RETRY, Phase
from sessions_app.db.joined_rows import JoinedRows, Part
from sessions_app.eventlog.archived import archived_chain, archived_session
from sessions_app.eventlog.reading import RETRY_EVENTS, job_set_exists
from sessions_app.in_force.retry_scope import SCOPE
from sessions_app.models import Domain, Project, Queue, RetryDecision, Session, SessionEvent
from sessions_app.selectors.session_pages import (
    Place,
    SessionsWanted,
    Where,
    sessions_left,
    sessions_page,
    visible_only,
)
from sessions_app.selectors.session_rows import attempt_rows, session_row

Thing = TypeVar("Thing")
NAMES_COMPARED = 1000
"""Maximum number of names searched for a suggestion."""
_RELATED = ("project__domain", "queue", "owner", "decision")
_LIVE_PROGRESS = Case(
    When(phase=Phase.LIVE, then=Cast("lease__progress", TextField())), output_field=TextField()
)
# The large columns of a decision, which no list shows.
_EXPLANATION = ("decision__termination", "decision__policy_revisions")


def sessions_visible(actor: Actor) -> QuerySet[Session]:
    """Return the sessions of the projects that the actor may see, with what is shown of them.

    For lookups by key; a list with filters is a `sessions_page`.
    """
    require_user(actor)
    found = Session.objects.select_related(*_RELATED).defer(*_EXPLANATION)
    found = found.annotate(live_progress=_LIVE_PROGRESS)  # type: ignore[no-redef]  # its own
    if actor.is_cluster_admin:
        return found
    return found.filter(project__in=list(actor.projects().values_list("pk", flat=True)))


class TipsPage(NamedTuple):
    """Newest attempts of chains on which an action was asked for, newest first."""

    roots: dict[UUID, UUID]
    """The sessions on which the actor may do it, with their roots."""
    refusals: dict[UUID, DomainError]
    """The refusals for the others."""
    order: list[UUID]
    next: UUID | None
    """The last session of this page, if there are more."""
    remaining: int
    """Number of sessions after it, counted up to a limit."""


def tips_page(
    actor: Actor,
    action: Action,
    wanted: SessionsWanted,
    *,
    after: UUID | None,
    limit: int,
) -> TipsPage:
    """Return at most `limit` newest attempts among the `wanted` sessions, after the id `after`.

    Newest first, so that attempts created meanwhile do not appear in later pages.
    """
    tips = replace(wanted, tip=True)
    if wanted.tip is False:
        return TipsPage({}, {}, [], None, 0)
    page = sessions_page(actor, tips, Place(limit + 1, beyond=after))
    more, page = page[limit:], page[:limit]
    refusals = {each.pk: why for each in page if (why := _refusal(actor, action, each))}
    return TipsPage(
        {each.pk: each.root_id for each in page if each.pk not in refusals},
        refusals,
        [each.pk for each in page],
        page[-1].pk if more else None,
        sessions_left(actor, tips, page[-1].pk) if more else 0,
    )


def _refusal(actor: Actor, action: Action, session: Session) -> DomainError | None:
    try:
        authorize(actor, action, project=session.project, owner_id=session.owner_id)
    except DomainError as refused:
        return refused
    return None


def sessions_allowed(
    actor: Actor, action: Action, ids: Sequence[UUID]
) -> tuple[dict[UUID, UUID], dict[UUID, DomainError]]:
    """Return the sessions on which the actor may do an action, with their roots, and the refusals
    for the others."""
    found = {each.pk: each for each in sessions_visible(actor).filter(pk__in=ids)}
    refusals: dict[UUID, DomainError] = {
        each: NotFound("there is no such session") for each in ids if each not in found
    }
    refusals |= {
        pk: why for pk, each in found.items() if (why := _refusal(actor, action, each)) is not None
    }
    return {each: found[each].root_id for each in ids if each not in refusals}, refusals


def session_get(actor: Actor, session_id: UUID, action: Action = Action.SESSION_READ) -> Session:
    """Return one session on which the actor may do `action`, from the log if its row is gone.

    Raises `NotFound`, `NotPermitted`, and `Conflict` for a write to a session that exists only in
    the log.
    """
    found = session_row(session_id) or archived_session(session_id)
    scope = {"project": found.project, "owner_id": found.owner_id} if found else {}
    session = _allowed(actor, action, found, f"no session {session_id}", scope)
    if session.archived_chain is not None and RULES[action].write:
        raise Conflict(f"session {session_id} was archived and is only in the event log")
    return session


def _allowed(
    actor: Actor, action: Action, found: Thing | None, missing: str, scope: dict[str, Any]
) -> Thing:
    """Return `found` if the actor may do the action; what they may not see counts as not found."""
    require_user(actor)
    if found is None:
        raise NotFound(missing)
    try:
        authorize(actor, action, **scope)
    except NotFound:
        raise NotFound(missing) from None
    return found


def made_room_for(actor: Actor, sessions: Sequence[Session]) -> list[UUID | None]:
    """Return for each session the one for which Reprise preempted it, if the actor may see that.

    It takes one statement, and none if none of them was preempted so.
    """
    asked = {each.gave_way_to for each in sessions if each.gave_way_to}
    if not asked:
        return [None] * len(sessions)
    rows = Session.objects.filter(pk__in=asked)
    if not actor.is_cluster_admin:
        rows = rows.filter(project__in=actor.projects())
    seen = set(rows.values_list("pk", flat=True))
    return [each.gave_way_to if each.gave_way_to in seen else None for each in sessions]


def is_over(tip: Session) -> bool:
    """Return whether nothing more happens to a chain by itself, given its newest attempt."""
    return tip.status in FINAL_STATUSES and tip.retry_state not in WAITING_RETRY


def chains_of(sessions: Sequence[Session]) -> dict[UUID, list[UUID]]:
    """Return the ids of each chain, oldest first, by root id; read those not known."""
    chains: dict[UUID, list[UUID]] = defaultdict(list)
    for session in sessions:
        known = session.chain_ids or session.archived_chain
        if known:
            chains[session.root_id] = list(known)
    unknown = {session.root_id for session in sessions} - chains.keys()
    if unknown:
        rows = Session.objects.filter(root__in=unknown).order_by("root_id", "retry_count")
        for root_id, session_id in rows.values_list("root_id", "pk"):
            chains[root_id].append(session_id)
    return chains


def chain_counts(sessions: Sequence[Session]) -> dict[UUID, int]:
    """Return the number of attempts of each chain, by root id; read those not known."""
    counts: dict[UUID, int] = {}
    for session in sessions:
        known = session.chain_ids or session.archived_chain
        count = len(known) if known else session.chain_count
        if count is not None:
            counts[session.root_id] = count
    unknown = {session.root_id for session in sessions} - counts.keys()
    if unknown:
        tips = Session.objects.filter(root__in=unknown, tip=True)
        counts |= {root: count + 1 for root, count in tips.values_list("root_id", "retry_count")}
    return counts


def chain_attempts(session: Session) -> list[Session]:
    """Return all attempts of a session's chain, oldest first."""
    if session.archived_chain is not None:
        return archived_chain(session.archived_chain)
    return attempt_rows(session.pk)


def attempts_get(actor: Actor, session_id: UUID, action: Action) -> list[Session]:
    """Return the chain of any of its members, oldest first, if the actor may do `action` to it.

    Raises `NotFound`, `NotPermitted`.
    """
    attempts = attempt_rows(session_id)
    if not attempts:
        return chain_attempts(session_get(actor, session_id, action))
    scope = {"project": attempts[0].project, "owner_id": attempts[0].owner_id}
    return _allowed(actor, action, attempts, f"no session {session_id}", scope)


def session_events(session: Session) -> QuerySet[SessionEvent]:
    """Return a session's log in order; without retry events if its policy hides them."""
    events = SessionEvent.objects.filter(session_id=session.pk)
    quiet = session.retry_policy.get("emit_retry_events") is False
    return events_shown(events, retries=not quiet)


def events_shown(events: QuerySet[SessionEvent], *, retries: bool) -> QuerySet[SessionEvent]:
    """Return events with everything that is shown of them, in the order of each session."""
    if not retries:
        events = events.exclude(type__startswith=RETRY_EVENTS)
    # This is the order of ids, too: whoever writes an event of a session holds the session's lock.
    return events.select_related("project__domain").order_by("seq")


def projects_visible(actor: Actor, address: str | None = None) -> list[int]:
    """Return the ids of the projects that the actor may see, or of the one at this address."""
    require_user(actor)
    require_project(actor, address)
    visible = actor.projects()
    if address is not None:
        domain, _, name = address.partition("/")
        visible = visible.filter(domain__name=domain, name=name)
    return list(visible.values_list("pk", flat=True))


def require_project(actor: Actor, address: str | None, *, field: str = "project") -> None:
    """Raise `InvalidInput` for `field` if a filter names a project that the actor cannot see.

    Otherwise a typing error would look like a list without entries.
    """
    if address is None:
        return
    domain, slash, name = address.partition("/")
    if not slash:
        raise InvalidInput({field: ["must be written 'domain/name'"]})
    visible = actor.projects()
    if visible.filter(domain__name=domain, name=name).exists():
        return
    pairs = visible.order_by("pk").values_list("domain__name", "name")[:NAMES_COMPARED]
    near = did_you_mean(address, (f"{domain}/{name}" for domain, name in pairs))
    raise InvalidInput({field: [f"no project {address} that you may see{near}"]})


def job_set_project(actor: Actor, name: str, address: str | None) -> Project:
    """Return the project of the job set `name`: the named one, the token's, or the default one.

    Raises `NotFound` if there is no such job set that the actor may see, `InvalidInput` if no
    project is given or set.
    """
    try:
        project = project_resolve(actor, address, Action.JOB_SET_READ)
    except InvalidInput:
        if address is None or "/" not in address:
            raise
        project = None
    if project is None or not job_set_exists(project.pk, name):
        raise NotFound(f"no job set {name} in project {address or 'of this token'}")
    return project


def decision_get(session: Session) -> RetryDecision:
    """Return the decision about a session, with its trace. Raises `NotFound` if there is none."""
    if session.archived_chain is not None:
        decision: RetryDecision | None = getattr(session, "decision", None)
    else:
        rows = RetryDecision.objects.select_related("written_trace")
        decision = rows.filter(session=session).first()
    if decision is None:
        text = "it has not ended" if session.finished_at is None else "it succeeded"
        raise NotFound(f"there is no retry decision about this session: {text}")
    return decision


_PROJECT = JoinedRows(
    """
    SELECT {columns} FROM sessions_app_project p JOIN sessions_app_domain d ON d.id = p.domain_id
    WHERE """,
    (Part(Project, "p"), Part(Domain, "d", "domain")),
)
_QUEUE = JoinedRows(
    """
    SELECT {columns} FROM sessions_app_project p JOIN sessions_app_domain d ON d.id = p.domain_id
    JOIN sessions_app_queue q ON q.project_id = p.id
    WHERE """,
    (Part(Queue, "q"), Part(Project, "p", "project"), Part(Domain, "d", "project.domain")),
    scope_text=f"({SCOPE})",
)


def project_resolve(actor: Actor, address: str | None, action: Action) -> Project:
    """Return the project of a request: the named one, the token's, or the default one.

    Raises `InvalidInput` for `project` if none is given or it does not exist for the actor.
    """
    visible = _projects_meant(actor, address)
    found: list[Project] = _PROJECT.read(visible.parameters, more=visible.sql)
    if not found:
        raise InvalidInput(
            {"project": [f"no project {address or ''} that you may use".replace("  ", " ")]}
        )
    (project,) = found
    authorize(actor, action, project=project)
    return project


def _projects_meant(actor: Actor, address: str | None) -> Where:
    """Return conditions that match at most one project `p` in the domain `d`."""
    require_user(actor)
    meant = Where()
    if address is not None or actor.only_project_id is None:
        wanted = settings.REPRISE_DEFAULT_PROJECT if address is None else address
        if wanted is None:
            raise InvalidInput({"project": ["is required: 'domain/name'"]})
        if "/" not in wanted:
            raise InvalidInput({"project": ["must be written 'domain/name'"]})
        meant = SessionsWanted(project=wanted).places()
    visible_only(actor, meant)
    return meant


def queue_resolve(actor: Actor, address: str | None, name: str | None, action: Action) -> Queue:
    """Return the queue of a request: the named one, or the default one of its project.

    The project is found as by `project_resolve`; it comes with the queue, and so does its retry
    scope. Raises `InvalidInput` for `project` or `queue`.
    """
    wanted = _projects_meant(actor, address)
    if name is None:
        wanted.add("q.is_default")
    else:
        wanted.add("q.name = %s", name)
    found: list[Queue] = _QUEUE.read(wanted.parameters, more=wanted.sql)
    if not found:
        project = project_resolve(actor, address, action)
        text = "the project has no default queue: name one" if name is None else f"no queue {name}"
        raise InvalidInput({"queue": [f"{text} in project {project.address}"]})
    (queue,) = found
    authorize(actor, action, project=queue.project)
    return queue


def project_get(actor: Actor, domain: str, name: str, action: Action) -> Project:
    """Return a project by its address in a URL. Raises `NotFound`, `NotPermitted`."""
    projects = Project.objects.select_related("domain")
    found = projects.filter(domain__name=domain, name=name).first()
    return _allowed(actor, action, found, f"no project {domain}/{name}", {"project": found})


def domain_get(actor: Actor, name: str, action: Action) -> Domain:
    """Return a domain by its name in a URL. Raises `NotFound`, `NotPermitted`."""
    found = Domain.objects.filter(name=name).first()
    return _allowed(actor, action, found, f"no domain {name}", {"domain": found})
