"""Creates and deletes tenants: domains, projects and memberships."""

import re
from typing import Any

from django.db import IntegrityError, transaction

from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict, InvalidInput, NotFound
from sessions_app.locks import database_now
from sessions_app.locks.resources import (
    lock_domain,
    lock_domain_named,
    lock_domain_to_delete,
    lock_project_to_delete,
    lock_queues_to_delete,
    lock_schedules_to_delete,
)
from sessions_app.models import (
    Domain,
    Membership,
    Project,
    Queue,
    RetryPolicy,
    Session,
    SessionEvent,
)
from sessions_app.models.events import ARCHIVED
from sessions_app.models.tenants import LABEL_PATTERN
from sessions_app.services.write.records import record_delete, record_save

DEFAULT_QUEUE = "default"
MAX_NAMED = 20
"""Maximum number of records named that keep another one from being deleted."""


def domain_create(name: str, *, by: str) -> Domain:
    """Create a domain. Raises `Conflict` if the name is taken."""
    domain = Domain(name=name)
    try:
        with transaction.atomic():
            record_save(domain, by=by)
    except IntegrityError:
        raise _taken(f"there is a domain {name!r} already") from None
    return domain


def domain_delete(domain: Domain, *, by: str) -> None:
    """Delete a domain with its policies, defaults, quotas and members.

    Raises `Conflict` while it has projects; `held_by` names them.
    """
    with transaction.atomic():
        if not lock_domain_to_delete(domain.pk):
            raise NotFound(f"no domain {domain.name}")
        names = list(domain.projects.order_by("name").values_list("name", flat=True))
        if names:
            raise _held(domain, names)
        with audited(by=by):
            _policies_archive(domain=domain)
            record_delete(domain, by=by)


def project_create(domain: Domain, name: str, *, by: str) -> Project:
    """Create a project with its default queue. Raises `Conflict` if the name is taken."""
    with transaction.atomic():
        held = lock_domain(domain.pk)
        if held is None:
            raise NotFound(f"no domain {domain.name}")
        if held.projects.filter(name=name).exists():
            raise _taken(f"domain {domain.name} has a project {name!r} already")
        return _make(held, name, by)


@transaction.atomic
def project_ensure(*, domain: str, name: str, by: str) -> tuple[Project, bool]:
    """Return the project `domain/name` with a default queue, and whether it was created now.

    Raises `InvalidInput` for a name that cannot be part of an address.
    """
    for field, value in (("domain", domain), ("project", name)):
        if not re.fullmatch(LABEL_PATTERN, value):
            raise InvalidInput(
                {field: [f"{value!r} is not a valid name: use at most 63 of a-z, 0-9 and '-'"]}
            )
    with audited(by=by):
        Domain.objects.get_or_create(name=domain)
    within = lock_domain_named(domain)
    project = within.projects.filter(name=name).first()
    if project is None:
        return _make(within, name, by), True
    with audited(by=by):
        _ensure_queue(project)
    return project, False


def _make(domain: Domain, name: str, by: str) -> Project:
    with audited(by=by):
        project = Project.objects.create(domain=domain, name=name)
        _ensure_queue(project)
    return project


def _ensure_queue(project: Project) -> None:
    if not project.queues.filter(is_default=True).exists():
        Queue.objects.create(project=project, name=DEFAULT_QUEUE, is_default=True)


def project_delete(project: Project, *, by: str) -> None:
    """Delete a project in which nothing ever ran, with everything that belongs to it.

    That is its queues, policies, defaults, quotas, members and the tokens restricted to it. Raises
    `Conflict` if sessions ever ran, or while executors serve it: without it they might serve all
    projects.
    """
    with transaction.atomic():
        lock_schedules_to_delete(project.pk)
        # Whoever submits locks the queue, and then the project, until the session exists.
        queues = Queue.objects.filter(project=project)
        held = lock_queues_to_delete(project.pk)
        if not lock_project_to_delete(project.pk):
            raise NotFound(f"no project {project.address}")
        if queues.exclude(pk__in=held).exists():
            raise Conflict("a queue was created in it at the same time; try again")
        if project_ever_ran(project):
            raise Conflict(
                f"sessions ran in project {project.address}, and past runs are kept: cordon its "
                "queues to close it",
                held_by=["sessions"],
            )
        # The scheduler's records refer to projects, not the other way round.
        executors: Any = getattr(project, "executor_set")  # noqa: B009
        if executors.exists():
            # The message does not name the executors: admins of a domain may not see them.
            raise Conflict(
                "executors are configured to serve the project: a cluster admin must change that",
                held_by=["executors"],
            )
        with audited(by=by):
            queues.delete()
            _policies_archive(project=project)
            record_delete(project, by=by)


def _policies_archive(**place: Domain | Project) -> None:
    # Archived first: the rows are deleted after the scope's, when its name, which the audit log
    # needs, is gone.
    RetryPolicy.objects.filter(archived_at=None, **place).update(archived_at=database_now())


def project_ever_ran(project: Project) -> bool:
    """Return whether a session ever ran; one that left the table has left an event."""
    if Session.objects.filter(project=project).exists():
        return True
    archived = SessionEvent.objects.filter(type=ARCHIVED, attempt=0, time__gte=project.created_at)
    return archived.filter(project=project).exists()


def membership_save(membership: Membership, *, by: str) -> None:
    """Give somebody a role in a project or a domain, or change it.

    Raises `Conflict` if they already have one there, `InvalidInput` if the role does not fit the
    scope.
    """
    if membership.role == "domain_admin" and membership.domain_id is None:
        raise InvalidInput({"role": ["only a domain can have a domain admin"]})
    try:
        with transaction.atomic():
            record_save(membership, by=by)
    except IntegrityError as error:
        if "membership_unique" not in str(error):
            raise
        why = f"{membership.user.username} has a role there already: change that one"
        raise Conflict(why, errors={"user": ["has a role there"]}) from None


def membership_delete(membership: Membership, *, by: str) -> None:
    """Delete a membership, effective with the next request."""
    record_delete(membership, by=by)


def _taken(why: str) -> Conflict:
    return Conflict(why, errors={"name": ["is taken"]})


def _held(domain: Domain, names: list[str]) -> Conflict:
    addresses = [f"{domain.name}/{name}" for name in names[:MAX_NAMED]]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    projects = f"{len(names)} project{'' if len(names) == 1 else 's'}"
    why = f"the domain is in use by {projects}, take them away first: {', '.join(addresses)}{more}"
    return Conflict(why, held_by=[f"project {address}" for address in addresses])
