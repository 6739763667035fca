"""Registration of an executor before the first call of its agent."""

import re
from collections.abc import Sequence

from django.db import transaction

from scheduler.models import Executor
from sessions_app.audit.context import audited
from sessions_app.core.errors import InvalidInput
from sessions_app.models import Project
from sessions_app.models.tenants import LABEL_PATTERN


@transaction.atomic
def executor_ensure(*, name: str, projects: Sequence[Project], by: str) -> tuple[Executor, bool]:
    """Make an executor serve these projects, too. Return it, and whether it is new.

    An existing executor that serves every project keeps doing so. Raises `InvalidInput` for a name
    that cannot be part of an address.
    """
    if not re.fullmatch(LABEL_PATTERN, name):
        raise InvalidInput(
            {"name": [f"{name!r} is not a valid name: use at most 63 of a-z, 0-9 and '-'"]}
        )
    with audited(by=by):
        executor, made = Executor.objects.get_or_create(name=name)
        if made or executor.projects.exists():
            executor.projects.add(*projects)
    return executor, made
