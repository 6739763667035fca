"""The audit log as tests ask about it."""

from django.db.models import QuerySet

from reprise.beat.periodic import MIGRATE
from sessions_app.audit.context import SQL
from sessions_app.models import AuditLog


def audited_acts() -> QuerySet[AuditLog]:
    """What services did for somebody; not what a test put into the tables to begin with."""
    return AuditLog.objects.exclude(door=SQL).exclude(actor=MIGRATE)
