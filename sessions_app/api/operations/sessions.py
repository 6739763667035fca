"""Operations on sessions."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sessions_app.api.requests.bodies import SessionCreate, SessionPreempt, SessionRetry
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.selectors.sessions import queue_resolve, session_get
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.preempt import session_preempt
from sessions_app.services.sessions.submit import Placed, Submitted, session_submit


def create(actor: Actor, body: Mapping[str, Any]) -> Submitted:
    """Submit a session. The same `creation_id` with the same body returns the existing one."""
    asked = SessionCreate.model_validate(body)
    queue = queue_resolve(actor, asked.project, asked.queue, Action.SESSION_CREATE)
    return session_submit(Placed(queue, require_user(actor).pk, asked.submission()))


def cancel(actor: Actor, session_id: UUID) -> None:
    """Cancel the whole chain: the live attempt and a waiting retry."""
    session = session_get(actor, session_id, Action.SESSION_CANCEL)
    chain_cancel(session.root_id, by=actor.name)


def preempt(actor: Actor, session_id: UUID, body: Mapping[str, Any]) -> None:
    """Stop a run on its executor; its policies decide whether it is retried."""
    asked = SessionPreempt.model_validate(body)
    session = session_get(actor, session_id, Action.SESSION_PREEMPT)
    session_preempt(session.pk, by=actor.name, reason=asked.reason)


def retry(actor: Actor, session_id: UUID, body: Mapping[str, Any]) -> UUID:
    """Retry by hand at once, without using a budget. Return the new attempt's id."""
    asked = SessionRetry.model_validate(body)
    session = session_get(actor, session_id, Action.SESSION_RETRY)
    return session_retry(session.pk, session.root_id, by=actor.name, resources=asked.changes())
