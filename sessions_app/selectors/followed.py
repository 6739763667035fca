"""Reads for those who follow what happens; a view has let them pass."""

from uuid import UUID

from django.db.models import QuerySet

from sessions_app.eventlog.archived import archived_session
from sessions_app.models import Project, Session, SessionEvent


def session_followed(session_id: UUID) -> Session | None:
    """Return what tells whether events of a session can still come, and are shown."""
    wanted = Session.objects.only("id", "retry_policy", "retry_state", "finished_at")
    return wanted.filter(pk=session_id).first() or archived_session(session_id)


def events_behind(session_id: UUID, after: int) -> QuerySet[SessionEvent]:
    """Return the events of a session with a higher id, in their order."""
    rows = SessionEvent.objects.filter(session_id=session_id, pk__gt=after)
    return rows.select_related("project__domain").order_by("seq")


def project_key(domain: str, name: str) -> int:
    """Return the key of a project that is there."""
    return Project.objects.only("pk").get(domain__name=domain, name=name).pk
