"""Sessions with everything that is shown of them, each kind of read in one statement."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from sessions_app.db.joined_rows import JoinedRows, Part
from sessions_app.in_force.retry_scope import SCOPE
from sessions_app.models import Domain, Project, Queue, RetryDecision, Session, SessionSpec

_SESSION = Part(Session, "s")
_PROJECT = (Part(Project, "p", "project"), Part(Domain, "d", "project.domain"))
# Only the names of queue and owner are shown.
_PLACE = (
    *_PROJECT,
    Part(Queue, "q", "queue", only="id name project_id"),
    Part(User, "u", "owner", only="id username"),
)
_DECISION = Part(RetryDecision, "r", "decision", back="session")
# Without the large columns of a decision, which no list shows.
_LINE = Part(
    RetryDecision,
    "r",
    "decision",
    back="session",
    without="termination policy_revisions",
)
_SPEC = Part(SessionSpec, "c", "spec", without="secret_environ request_digest")
_ROOT = Part(Session, "o", "root", only="id cancel_requested_at")

_DECIDED = """
    JOIN sessions_app_project p ON p.id = s.project_id
    JOIN sessions_app_domain d ON d.id = p.domain_id
    LEFT JOIN sessions_app_retrydecision r ON r.session_id = s.id
"""
_SHOWN = f"""{_DECIDED}
    JOIN sessions_app_queue q ON q.id = s.queue_id
    LEFT JOIN auth_user u ON u.id = s.owner_id
"""
_CHAIN = """ARRAY(SELECT a.id FROM sessions_app_session a WHERE a.root_id = s.root_id
    ORDER BY a.retry_count)"""
_CHAIN_COUNT = """(SELECT a.retry_count + 1 FROM sessions_app_session a
    WHERE a.root_id = s.root_id ORDER BY a.retry_count DESC LIMIT 1)"""
# Of the executors' room, which is above this one: but there the newest progress stands.
LIVE_PROGRESS = """(CASE WHEN s.phase = 'live' THEN (SELECT l.progress::text
    FROM scheduler_lease l WHERE l.session_id = s.id AND l.fencing_token = s.fencing_token) END)"""
_QUOTAS = """SELECT EXISTS (SELECT FROM sessions_app_projectusage WHERE project_id = p.id)
    OR EXISTS (SELECT FROM sessions_app_projectusage WHERE domain_id = p.domain_id)"""

_LISTED = JoinedRows(
    f"SELECT {{columns}} FROM sessions_app_session s {_SHOWN}",
    (_SESSION, *_PLACE, _LINE),
    chain_count=_CHAIN_COUNT,
    live_progress=LIVE_PROGRESS,
)
_WHOLE = JoinedRows(
    f"""
    SELECT {{columns}} FROM sessions_app_session s {_SHOWN}
    JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    JOIN sessions_app_session o ON o.id = s.root_id
    WHERE s.id = %s
    """,
    (_SESSION, *_PLACE, _DECISION, _SPEC, _ROOT),
    chain_ids=_CHAIN,
    scope_text=f"({SCOPE})",
    has_quotas=f"({_QUOTAS})",
    live_progress=LIVE_PROGRESS,
)
_ATTEMPTS = JoinedRows(
    f"""
    SELECT {{columns}} FROM sessions_app_session s {_DECIDED}
    WHERE s.root_id = (SELECT a.root_id FROM sessions_app_session a WHERE a.id = %s)
    ORDER BY s.retry_count
    """,
    (_SESSION, *_PROJECT, _LINE),
    live_progress=LIVE_PROGRESS,
)


def session_row(session_id: UUID) -> Session | None:
    """Return a session with project, queue, owner, decision, specification, root, retry scope, and
    whether quotas apply; None if there is none."""
    found: list[Session] = _WHOLE.read([session_id])
    return found[0] if found else None


def attempt_rows(session_id: UUID) -> list[Session]:
    """Return all attempts of a session's chain with project and decision, oldest first."""
    return _ATTEMPTS.read([session_id])


def listed_rows(ids: str, parameters: Sequence[Any], *, order: str) -> list[Session]:
    """Return the sessions with the selected ids, with project, queue, owner and decision."""
    more = f" JOIN ({ids}) page ON page.id = s.id ORDER BY s.id {order}"
    return _LISTED.read(parameters, more=more)


def images_of(sessions: Sequence[Session]) -> dict[UUID, str]:
    """Return the images of sessions by their ids; lists do not read them. One statement."""
    found = SessionSpec.objects.filter(pk__in={each.spec_id for each in sessions})
    images = dict(found.values_list("pk", "image"))
    return {each.pk: images.get(each.spec_id, "") for each in sessions}
