"""Operations on sessions."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from interfaces.requests.bodies import (
    SessionCreate,
    SessionPreempt,
    SessionRetry,
    SessionUpdate,
)
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.core.errors import DomainError
from sessions_app.selectors.sessions import queue_resolve, session_get
from sessions_app.services.chains.downstream import (
    Retried,
    downstream_allowed,
    session_retry_downstream,
)
from sessions_app.services.chains.manual_retry import sessions_retry_paced
from sessions_app.services.chains.parked import chain_give_up
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.preempt import session_preempt
from sessions_app.services.sessions.priority import session_set_priority
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import Submitted, session_submit


def create(actor: Actor, body: Mapping[str, Any]) -> Submitted:
    """Submit a session. The same `creation_id` with the same body returns the existing one."""
    asked = SessionCreate.model_validate(body)
    queue = queue_resolve(actor, asked.project, asked.queue, Action.SESSION_CREATE)
    return session_submit(Placed(queue, require_user(actor).pk, asked.submission()))


def update(actor: Actor, session_id: UUID, body: Mapping[str, Any]) -> None:
    """Change the priority of a session that waits."""
    asked = SessionUpdate.model_validate(body)
    session = session_get(actor, session_id, Action.SESSION_UPDATE)
    session_set_priority(session.pk, asked.priority, by=actor.name)


def cancel(actor: Actor, session_id: UUID) -> None:
    """Cancel the whole chain: the live attempt and a waiting retry."""
    session = session_get(actor, session_id, Action.SESSION_CANCEL)
    chain_cancel(session.root_id, by=actor.name)


def give_up(actor: Actor, session_id: UUID) -> None:
    """End a parked chain."""
    session = session_get(actor, session_id, Action.SESSION_GIVE_UP)
    chain_give_up(session.pk, session.root_id, by=actor.name)


def preempt(actor: Actor, session_id: UUID, body: Mapping[str, Any]) -> None:
    """Stop a run on its executor; its policies decide whether it is retried."""
    asked = SessionPreempt.model_validate(body)
    session = session_get(actor, session_id, Action.SESSION_PREEMPT)
    session_preempt(session.pk, by=actor.name, reason=asked.reason)


def retry(actor: Actor, session_id: UUID, body: Mapping[str, Any]) -> Retried:
    """Retry by hand at once, without using a budget, also those downstream if that is asked for.

    Raises the first refusal of any of them, and retries none then.
    """
    asked = SessionRetry.model_validate(body)
    session = session_get(actor, session_id, Action.SESSION_RETRY)
    down = downstream_allowed(actor, [session.root_id]) if asked.downstream else {}
    one, changes = {session.pk: session.root_id}, asked.asked()
    if asked.dry_run:
        looked = sessions_retry_paced(one, by=actor.name, changes=changes, dry_run=True)
        if isinstance(found := looked[session.pk], DomainError):
            raise found
        return Retried(None, list(down), found.secrets_dropped, found.warnings)
    return session_retry_downstream(
        session.pk, session.root_id, down, by=actor.name, changes=changes
    )
