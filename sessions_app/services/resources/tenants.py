"""Making room for tenants and taking it away: domains, projects, and who works in them."""

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
TOLD = 20
"""Of what holds a record, so many are named."""


def domain_create(name: str, *, by: str) -> Domain:
    """Make a domain; a `Conflict` if there is one of this name."""
    domain = Domain(name=name)
    try:
        with transaction.atomic():
            record_save(domain, by=by)
    except IntegrityError:
        raise _taken(f"there is a domain {name!r} already") from None
    return domain


def domain_delete(domain: Domain, *, by: str) -> None:
    """Delete a domain with its policies, defaults, quotas and members.

    A `Conflict` while it has projects, `held_by` names them.
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
    """Make a project with its default queue; a `Conflict` if the domain has one of this name."""
    with transaction.atomic():
        held = lock_domain(domain.pk)
        if held is None:
            raise NotFound(f"no domain {domain.name}")
        if held.projects.filter(name=name).exists():
            raise _taken(f"domain {domain.name} has a project {name!r} already")
        return _make(held, name, by)


@transaction.atomic
def project_ensure(*, domain: str, name: str, by: str) -> tuple[Project, bool]:
    """The project `domain/name` with a default queue, and whether it was made now.

    Raises `InvalidInput` for a name that cannot be part of an address.
    """
    for field, value in (("domain", domain), ("project", name)):
        if not re.fullmatch(LABEL_PATTERN, value):
            raise InvalidInput({field: [f"{value!r} is no name: up to 63 of a-z, 0-9 and '-'"]})
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
    """Delete a project in which nothing ever ran, with its queues, policies, defaults, quotas,
    members and the tokens that are narrowed to it.

    A `Conflict` otherwise, and while executors serve it: without it they might serve all.
    """
    with transaction.atomic():
        # Whoever submits holds the queue, and after it the project, until the session is there.
        queues = Queue.objects.filter(project=project)
        held = lock_queues_to_delete(project.pk)
        if not lock_project_to_delete(project.pk):
            raise NotFound(f"no project {project.address}")
        if queues.exclude(pk__in=held).exists():
            raise Conflict("a queue was made in it at the same time; try again")
        if project_ever_ran(project):
            raise Conflict(
                f"sessions ran in project {project.address}, and what ran stays known: cordon its "
                "queues to close it",
                held_by=["sessions"],
            )
        # The scheduler's records, which know of projects and not the other way round.
        executors: Any = getattr(project, "executor_set")  # noqa: B009
        if executors.exists():
            # Which, is nothing that those who manage a domain are told anywhere.
            raise Conflict(
                "executors are set to serve the project: a cluster admin changes that first",
                held_by=["executors"],
            )
        with audited(by=by):
            queues.delete()
            _policies_archive(project=project)
            record_delete(project, by=by)


def _policies_archive(**place: Domain | Project) -> None:
    # Their rows go after that of the place, when its name is gone, which the audit log tells.
    RetryPolicy.objects.filter(archived_at=None, **place).update(archived_at=database_now())


def project_ever_ran(project: Project) -> bool:
    """Whether a session ever did; one leaves the table with an event that says so."""
    if Session.objects.filter(project=project).exists():
        return True
    archived = SessionEvent.objects.filter(type=ARCHIVED, attempt=0, time__gte=project.created_at)
    return archived.filter(project=project).exists()


def membership_save(membership: Membership, *, by: str) -> None:
    """Give somebody a role in a project or a domain, or another one.

    A `Conflict` if they have one there already, `InvalidInput` if the role is none for the place.
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
    """Take a role away, effective with the next request."""
    record_delete(membership, by=by)


def _taken(why: str) -> Conflict:
    return Conflict(why, errors={"name": ["is taken"]})


def _held(domain: Domain, names: list[str]) -> Conflict:
    addresses = [f"{domain.name}/{name}" for name in names[:TOLD]]
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    told = f"{len(names)} project{'' if len(names) == 1 else 's'}"
    why = f"the domain is in use by {told}, take them away first: {', '.join(addresses)}{more}"
    return Conflict(why, held_by=[f"project {address}" for address in addresses])
