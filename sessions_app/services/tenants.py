"""Making room for a tenant: a domain, a project and its default queue."""

import re

from django.db import transaction

from sessions_app.errors import InvalidInput
from sessions_app.locks import database_now
from sessions_app.models import Domain, Project, Queue
from sessions_app.models.tenants import LABEL_PATTERN
from sessions_app.services.audit import AuditRow, audit_append

DEFAULT_QUEUE = "default"


@transaction.atomic
def project_ensure(*, domain: str, name: str, by: str) -> tuple[Project, bool]:
    """The project `domain/name` with a default queue, and whether it was made now.

    Raises `InvalidInput` for a name that cannot be part of an address.
    """
    for field, value in (("domain", domain), ("project", name)):
        if not re.fullmatch(LABEL_PATTERN, value):
            raise InvalidInput({field: [f"{value!r} is no name: up to 63 of a-z, 0-9 and '-'"]})
    within, _ = Domain.objects.get_or_create(name=domain)
    project, made = Project.objects.get_or_create(domain=within, name=name)
    if not project.queues.filter(is_default=True).exists():
        Queue.objects.create(project=project, name=DEFAULT_QUEUE, is_default=True)
    if made:
        entry = AuditRow(by, "project.create", "project", project.address, project.address)
        audit_append([entry], now=database_now())
    return project, made
