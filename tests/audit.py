"""The audit log as tests ask about it."""

from django.db.models import QuerySet

from reprise.beat.periodic import MIGRATE
from sessions_app.audit.context import SQL
from sessions_app.models import AuditLog


def audited_acts() -> QuerySet[AuditLog]:
    """Return the acts of services for somebody, without what a test put into the tables at its
    beginning."""
    return AuditLog.objects.exclude(door=SQL).exclude(actor=MIGRATE)
