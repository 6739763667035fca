"""What people say about a failure: that they know it."""

from dataclasses import replace

from django.db import transaction

from sessions_app.locks import database_now
from sessions_app.models import FailureSignature
from sessions_app.selectors.failures import Failure
from sessions_app.services.write.audit import AuditRow, audit_append


def failure_mute(failure: Failure, *, muted: bool, by: str) -> Failure:
    """Mute a failure, or take that back; return it so. The same again changes nothing."""
    with transaction.atomic():
        rows = FailureSignature.objects.filter(pk=failure.pk, muted=not muted)
        if rows.update(muted=muted):
            verb = "failure.mute" if muted else "failure.unmute"
            entry = AuditRow(by, verb, "failure", failure.key, project_id=failure.project_id)
            audit_append([entry], now=database_now())
    return replace(failure, muted=muted)
