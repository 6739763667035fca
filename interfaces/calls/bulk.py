"""Bulk calls: create sessions, and cancel, give up, preempt, retry or update them by filter, with
an outcome for each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from pydantic import Field, StrictBool, StrictInt, ValidationError

from interfaces.requests.bodies import (
    AnotherAttempt,
    Priority,
    SessionCreate,
    SessionPreempt,
)
from interfaces.requests.queries import SessionConditions
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.core.errors import DomainError
from sessions_app.models import Queue
from sessions_app.selectors.sessions import TipsPage, queue_resolve, require_project, tips_page
from sessions_app.services.chains.dispatch import BATCH
from sessions_app.services.chains.downstream import (
    dependency_failed,
    downstream_allowed,
    sessions_retry_downstream,
)
from sessions_app.services.chains.manual_retry import Granted, sessions_retry_paced
from sessions_app.services.chains.parked import chains_give_up
from sessions_app.services.sessions.cancel import chains_cancel
from sessions_app.services.sessions.preempt import sessions_preempt
from sessions_app.services.sessions.priority import sessions_set_priority
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import Submitted, sessions_submit

MAX_SESSIONS = 1000
Done = TypeVar("Done")
Refusal = DomainError | ValidationError


class _Items(StrictModel):
    """The body that `SessionsBulkCreate` describes. Its items are read one by one."""

    sessions: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_SESSIONS)


class SessionsBulkCreate(_Items):
    """The body of `POST /sessions/bulk/`: bodies of `POST /sessions/`."""

    sessions: list[SessionCreate] = Field(min_length=1, max_length=MAX_SESSIONS)  # type: ignore[assignment]


def sessions_create(actor: Actor, body: Mapping[str, Any]) -> list[Submitted | Refusal]:
    """Submit up to 1,000 sessions. A refused one does not stop the others."""
    placer = _Placer(actor)
    asked = _Items.model_validate(body)
    placed = [placer.place(item) for item in asked.sessions]
    made = iter(sessions_submit([each for each in placed if isinstance(each, Placed)]))
    return [next(made) if isinstance(each, Placed) else each for each in placed]


class _Placer:
    """Reads items and finds their queues. Each queue is looked up once."""

    def __init__(self, actor: Actor):
        self._actor = actor
        self._owner = require_user(actor)
        self._queues: dict[tuple[str | None, str | None], Queue | DomainError] = {}

    def place(self, item: Mapping[str, Any]) -> Placed | Refusal:
        """Return the item in the service's form, or the reason why it is refused."""
        try:
            asked = SessionCreate.model_validate(item)
            queue = self._queue(asked.project, asked.queue)
            return Placed(queue, self._owner.pk, asked.submission())
        except (DomainError, ValidationError) as error:
            return error

    def _queue(self, project: str | None, name: str | None) -> Queue:
        key = project, name
        if key not in self._queues:
            try:
                self._queues[key] = queue_resolve(self._actor, project, name, Action.SESSION_CREATE)
            except DomainError as error:
                self._queues[key] = error
        found = self._queues[key]
        if isinstance(found, DomainError):
            raise found
        return found


class BulkFilter(SessionConditions):
    """The filter of a bulk action as JSON. In a query string all values are text."""

    exit_code: Annotated[StrictInt, Field(ge=-(2**31), lt=2**31), WHOLE] | None = None
    tip: StrictBool | None = None


class BulkAction(StrictModel):
    """The filter of a bulk action, its page, and whether it is a dry run."""

    filter: BulkFilter
    dry_run: StrictBool = False
    """Return what would happen, and change nothing."""
    limit: Annotated[StrictInt, Field(ge=1, le=MAX_SESSIONS), WHOLE] = MAX_SESSIONS
    """The most sessions of this call; `next` and `remaining` tell of the others."""
    after: UUID | None = None
    """The `next` of the call before."""


class BulkCancel(BulkAction):
    """The body of `POST /sessions/bulk-cancel/`."""


class BulkGiveUp(BulkAction):
    """The body of `POST /sessions/bulk-give-up/`."""


class BulkPreempt(BulkAction, SessionPreempt):
    """The body of `POST /sessions/bulk-preempt/`."""


class BulkRetry(BulkAction, AnotherAttempt):
    """The body of `POST /sessions/bulk-retry/`."""

    downstream: StrictBool = False
    """Also retry the sessions that ended as `dependency_failed` because of these, at most 1,000 in
    a call. They wait for their dependencies again, also those of them that match themselves."""


class BulkUpdate(BulkAction):
    """The body of `POST /sessions/bulk-update/`."""

    priority: Priority


class Outcomes(NamedTuple, Generic[Done]):
    """The outcomes of a call by filter."""

    dry_run: bool
    page: TipsPage
    each: dict[UUID, Done | DomainError]
    """By session, unordered; the page has the order."""
    downstream: Sequence[UUID] = ()
    """The new attempts of the other sessions downstream, or in a dry run the failed ones."""


def sessions_cancel(actor: Actor, body: Mapping[str, Any]) -> Outcomes[None]:
    """Cancel the chains whose newest attempts match a filter."""
    asked = BulkCancel.model_validate(body)

    def cancel(roots: Mapping[UUID, UUID]) -> Mapping[UUID, DomainError | None]:
        refusals = chains_cancel(list(roots.values()), by=actor.name, dry_run=asked.dry_run)
        return {session_id: refusals[root_id] for session_id, root_id in roots.items()}

    return _each(actor, Action.SESSION_CANCEL, asked, cancel)


def sessions_give_up(actor: Actor, body: Mapping[str, Any]) -> Outcomes[None]:
    """End the parked chains whose newest attempts match a filter."""
    asked = BulkGiveUp.model_validate(body)

    def give_up(roots: Mapping[UUID, UUID]) -> Mapping[UUID, DomainError | None]:
        return chains_give_up(roots, by=actor.name, dry_run=asked.dry_run)

    return _each(actor, Action.SESSION_GIVE_UP, asked, give_up)


def sessions_preempt_matching(actor: Actor, body: Mapping[str, Any]) -> Outcomes[None]:
    """Preempt the newest attempts that match a filter and run."""
    asked = BulkPreempt.model_validate(body)

    def preempt(roots: Mapping[UUID, UUID]) -> Mapping[UUID, DomainError | None]:
        return sessions_preempt(
            list(roots), by=actor.name, reason=asked.reason, dry_run=asked.dry_run
        )

    return _each(actor, Action.SESSION_PREEMPT, asked, preempt)


def sessions_retry(actor: Actor, body: Mapping[str, Any]) -> Outcomes[Granted]:
    """Retry by hand the newest attempts that match a filter, within the storm limits."""
    asked = BulkRetry.model_validate(body)
    if asked.downstream:
        return _retry_downstream(actor, asked)

    def retry(roots: Mapping[UUID, UUID]) -> Mapping[UUID, Granted | DomainError]:
        return sessions_retry_paced(
            roots, by=actor.name, changes=asked.asked(), dry_run=asked.dry_run
        )

    return _each(actor, Action.SESSION_RETRY, asked, retry)


def sessions_update(actor: Actor, body: Mapping[str, Any]) -> Outcomes[None]:
    """Change the priority of the sessions that match a filter and wait."""
    asked = BulkUpdate.model_validate(body)

    def update(roots: Mapping[UUID, UUID]) -> Mapping[UUID, DomainError | None]:
        return sessions_set_priority(
            list(roots), asked.priority, by=actor.name, dry_run=asked.dry_run
        )

    return _each(actor, Action.SESSION_UPDATE, asked, update)


def _retry_downstream(actor: Actor, asked: BulkRetry) -> Outcomes[Granted]:
    """Retry the sessions of a page and those downstream of them, or none if one is not allowed."""
    page = _page(actor, Action.SESSION_RETRY, asked)
    downstream_allowed(actor, page.roots.values())
    outcomes: dict[UUID, Granted | DomainError] = dict(page.refusals)
    failed = dependency_failed(page.roots) if page.roots else set()
    # What waits for others comes after them, so that it is not judged by their failures.
    order = dict(sorted(page.roots.items(), key=lambda each: each[0] in failed))
    for part in _parts(order, whole=asked.dry_run):
        if left := {key: root for key, root in part.items() if key not in outcomes}:
            outcomes |= sessions_retry_downstream(
                left, failed, by=actor.name, changes=asked.asked(), dry_run=asked.dry_run
            )
    others = {key: outcomes.pop(key) for key in outcomes.keys() - set(page.order)}
    down = [each.child_id or key for key, each in others.items() if isinstance(each, Granted)]
    return Outcomes(asked.dry_run, page, outcomes, sorted(down))


def _page(actor: Actor, action: Action, asked: BulkAction) -> TipsPage:
    page = tips_page(actor, action, asked.filter.wanted(), after=asked.after, limit=asked.limit)
    if not page.order:
        require_project(actor, asked.filter.project, field="filter.project")
    return page


def _each(
    actor: Actor,
    action: Action,
    asked: BulkAction,
    act: Callable[[Mapping[UUID, UUID]], Mapping[UUID, Done | DomainError]],
) -> Outcomes[Done]:
    page = _page(actor, action, asked)
    outcomes: dict[UUID, Done | DomainError] = dict(page.refusals)
    for part in _parts(page.roots, whole=asked.dry_run):
        outcomes.update(act(part))
    return Outcomes(asked.dry_run, page, outcomes)


def _parts(roots: Mapping[UUID, UUID], *, whole: bool) -> Iterable[dict[UUID, UUID]]:
    """Return the sessions in batches for short transactions.

    A dry run needs all of them at once.
    """
    pairs = list(roots.items())
    size = len(pairs) if whole else BATCH
    return [dict(pairs[start : start + size]) for start in range(0, len(pairs), size or 1)]
