"""Actions on many sessions: a dry run that keeps their ids, then slices that act on them.

The ids are kept for `KEPT`; whoever acts later prepares it again. Each slice is one short
transaction: it locks the action, authorizes each session again, acts, and counts. So a slice that
is repeated, or that two browsers ask for at once, acts once.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from sessions_app.authorization import Action, Actor, require_user
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.locks import database_now
from sessions_app.locks.resources import lock_prepared_action
from sessions_app.models import PreparedAction
from sessions_app.selectors.sessions import sessions_allowed
from sessions_app.services.chains.manual_retry import Granted, sessions_retry_paced
from sessions_app.services.chains.parked import chains_give_up
from sessions_app.services.sessions.cancel import chains_cancel
from sessions_app.services.sessions.preempt import sessions_preempt
from sessions_app.services.sessions.priority import sessions_set_priority

MOST = 10_000
KEPT = timedelta(minutes=15)
LOOKED = 1_000
"""Sessions of one transaction of a dry run."""
SLICE = 100
"""Sessions that are changed in one transaction."""
EXAMPLES = 5
"""Sessions that are named for each reason of a refusal."""
_ATTEMPT = re.compile(r"attempt \d+ is")
_MOVING = ["started_at", "given", "position", "done", "waiting", "changed", "expires_at"]
"""The columns that a slice writes: not the ids, which are large."""
Roots = Mapping[UUID, UUID]
Outcomes = Mapping[UUID, DomainError | Granted | None]


@dataclass(frozen=True, slots=True)
class _How:
    """The name of the person who acts, and what they gave: see `PreparedAction.given`."""

    by: str
    given: Mapping[str, Any]
    dry_run: bool


def _cancel(roots: Roots, how: _How) -> Outcomes:
    refusals = chains_cancel(list(dict.fromkeys(roots.values())), by=how.by, dry_run=how.dry_run)
    return {session_id: refusals[root_id] for session_id, root_id in roots.items()}


def _retry(roots: Roots, how: _How) -> Outcomes:
    return sessions_retry_paced(roots, by=how.by, resources=how.given, dry_run=how.dry_run)


def _preempt(roots: Roots, how: _How) -> Outcomes:
    return sessions_preempt(list(roots), by=how.by, dry_run=how.dry_run)


def _set_priority(roots: Roots, how: _How) -> Outcomes:
    # A dry run comes before the number is given, and does not depend on it.
    priority = 0 if how.dry_run else how.given["priority"]
    return sessions_set_priority(list(roots), priority, by=how.by, dry_run=how.dry_run)


def _give_up(roots: Roots, how: _How) -> Outcomes:
    return chains_give_up(roots, by=how.by, dry_run=how.dry_run)


ACTS: dict[str, tuple[Action, Callable[[Roots, _How], Outcomes]]] = {
    "cancel": (Action.SESSION_CANCEL, _cancel),
    "retry": (Action.SESSION_RETRY, _retry),
    "preempt": (Action.SESSION_PREEMPT, _preempt),
    "priority": (Action.SESSION_UPDATE, _set_priority),
    "give_up": (Action.SESSION_GIVE_UP, _give_up),
}
"""The right that each act needs, and how it is done."""


def action_prepare(actor: Actor, act: str, ids: Sequence[UUID], *, query: str) -> PreparedAction:
    """Find out on which of at most `MOST` sessions an act is possible, and keep their ids."""
    user, how = require_user(actor), _How(actor.name, {}, dry_run=True)
    possible: list[UUID] = []
    refused: list[dict[str, Any]] = []
    for part in _parts(ids[:MOST], LOOKED):
        outcomes = _outcomes(actor, act, part, how)
        possible += [each for each in part if not isinstance(outcomes[each], DomainError)]
        refused = _with(refused, outcomes)
    now = database_now()
    return PreparedAction.objects.create(
        user=user,
        act=act,
        query=query,
        ids=possible,
        refused=refused,
        created_at=now,
        expires_at=now + KEPT,
    )


def action_get(actor: Actor, action_id: UUID) -> PreparedAction:
    """Return an action of the actor. Raises `NotFound`, also if it has expired."""
    user = require_user(actor)
    found = PreparedAction.objects.filter(pk=action_id, user=user).first()
    return _valid(found, database_now())


def action_continue(
    actor: Actor, action_id: UUID, *, given: Mapping[str, Any] | None = None
) -> PreparedAction:
    """Act on the next slice. The first call sets what the person gave.

    Return the action as it is then. Raises `NotFound`, also if it has expired.
    """
    user = require_user(actor)
    with transaction.atomic():
        now = database_now()
        action = _valid(lock_prepared_action(action_id, user.pk), now)
        if action.started_at is None:
            action.started_at, action.given = now, dict(given or {})
        part = action.ids[action.position : action.position + SLICE]
        outcomes = _outcomes(actor, action.act, part, _How(actor.name, action.given, False))
        refusals = sum(isinstance(each, DomainError) for each in outcomes.values())
        action.position += len(part)
        action.done += len(part) - refusals
        action.waiting += sum(
            isinstance(each, Granted) and each.due_at is not None for each in outcomes.values()
        )
        action.changed = _with(action.changed, outcomes)
        action.expires_at = now + KEPT
        action.save(update_fields=_MOVING)
    return action


def actions_forget(now: datetime, limit: int) -> int:
    """Delete at most `limit` actions that have expired. Return their number."""
    expired = PreparedAction.objects.filter(expires_at__lt=now).order_by("expires_at")
    ids = list(expired.values_list("pk", flat=True)[:limit])
    deleted, _ = PreparedAction.objects.filter(pk__in=ids).delete()
    return deleted


def _valid(action: PreparedAction | None, now: datetime) -> PreparedAction:
    if action is None or action.expires_at < now:
        minutes = KEPT.seconds // 60
        raise NotFound(f"no such action of yours: one is kept for {minutes} minutes")
    return action


def _outcomes(
    actor: Actor, act: str, ids: Sequence[UUID], how: _How
) -> dict[UUID, DomainError | Granted | None]:
    """Act on those of the sessions that the actor may change. Return what came of each."""
    right, run = ACTS[act]
    roots, refusals = sessions_allowed(actor, right, ids)
    return {**refusals, **(run(roots, how) if roots else {})}


def _parts(ids: Sequence[UUID], size: int) -> Iterator[Sequence[UUID]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _with(
    known: Sequence[Mapping[str, Any]], outcomes: Mapping[UUID, DomainError | Granted | None]
) -> list[dict[str, Any]]:
    """Return the refusals by reason, the known ones and those of more outcomes."""
    reasons = {each["reason"]: dict(each) for each in known}
    for session_id, outcome in outcomes.items():
        if not isinstance(outcome, DomainError):
            continue
        reason = _reason(outcome)
        entry = reasons.setdefault(reason, {"reason": reason, "count": 0, "examples": []})
        entry["count"] += 1
        entry["examples"] = [*entry["examples"], str(session_id)][:EXAMPLES]
    return list(reasons.values())


def _reason(refusal: DomainError) -> str:
    """Return why, without what differs from session to session."""
    return _ATTEMPT.sub("the newest attempt is", refusal.detail.partition("; it is ")[0])
