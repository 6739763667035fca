"""The filters of the lists of records, which REST and GraphQL share."""

from dataclasses import fields
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone
from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from interfaces.requests.queries import PageQuery, Text, Time, lowered, of_project
from interfaces.requests.strict import StrictModel
from sessions_app.audit.context import Door
from sessions_app.authorization import Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.models.tenants import Role
from sessions_app.selectors.audit import Wanted
from sessions_app.selectors.policies import policies_of
from sessions_app.selectors.sessions import require_project

AnyCaseRole = Annotated[Role, BeforeValidator(lowered)]


def _matching(
    actor: Actor, rows: QuerySet[Any], project: str | None, **asked: object
) -> QuerySet[Any]:
    """Return the rows that meet the conditions that are asked for.

    Raises `InvalidInput` if they name a project (`domain/name`) that the actor cannot see.
    """
    require_project(actor, project)
    found = {name: value for name, value in asked.items() if value is not None}
    return rows.filter(**found, **(of_project(project) if project else {}))


class DomainFilter(PageQuery):
    """The filters of `GET /domains/`."""

    search: Text | None = None
    """The beginning of the name."""

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        return rows if self.search is None else rows.filter(name__startswith=self.search)


class ProjectFilter(DomainFilter):
    """The filters of `GET /projects/`."""

    domain: Text | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        found = super().apply(actor, rows)
        return found if self.domain is None else found.filter(domain__name=self.domain)


class MembershipFilter(PageQuery):
    """The filters of `GET /memberships/`."""

    user: Text | None = None
    role: AnyCaseRole | None = None
    domain: Text | None = None
    """Roles in the domain itself."""
    project: Text | None = None
    """Roles in the project (`domain/name`) itself."""

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        places = {"domain__name": self.domain, "role": self.role}
        return _matching(actor, rows, self.project, user__username=self.user, **places)


class TokenFilter(PageQuery):
    """The filters of `GET /tokens/`."""

    user: Text | None = None
    executor: Text | None = None
    project: Text | None = None
    """`domain/name`."""
    read_only: bool | None = None
    expired: bool | None = None
    made_with: Text | None = None
    """The prefix of the token that made them."""

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        found = _matching(
            actor,
            rows,
            self.project,
            user__username=self.user,
            executor_name=self.executor,
            read_only=self.read_only,
            made_with=self.made_with,
        )
        ended = Q(expires_at__isnull=False, expires_at__lte=timezone.now())
        if self.expired is None:
            return found
        return found.filter(ended if self.expired else ~ended)


class QueueFilter(PageQuery):
    """The filters of `GET /queues/`."""

    project: Text | None = None
    """`domain/name`."""
    cordoned: bool | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        return _matching(actor, rows, self.project, cordoned=self.cordoned)


class ScopeQuery(StrictModel):
    """The named scope: a project (`domain/name`), a domain, or without either the cluster."""

    domain: Text | None = None
    project: Text | None = None

    @field_validator("project")
    @classmethod
    def _in_a_domain(cls, value: str | None, info: ValidationInfo) -> str | None:
        domain, slash, _ = (value or "").partition("/")
        given = info.data.get("domain")
        if value is not None and not slash and given is None:
            raise ValueError("must be written 'domain/name', or given with its domain")
        if slash and given not in {None, domain}:
            raise ValueError(f"is in domain {domain}, not in the given domain")
        return value

    @property
    def names(self) -> tuple[str | None, str | None]:
        """Return the names of the domain and the project."""
        if self.project is None:
            return self.domain, None
        domain, slash, name = self.project.partition("/")
        return (domain, name) if slash else (self.domain, self.project)


class PolicyFilter(ScopeQuery):
    """The filters of `GET /retry-policies/`; without a scope those of all scopes."""

    archived: bool = False
    """True lists archived policies only, which unfinished chains still use."""
    cursor: str | None = None
    page_size: Annotated[int, Field(ge=1, le=500)] = 50

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the policies that match the filters."""
        found = rows.filter(archived_at__isnull=not self.archived)
        return found if self.names == (None, None) else policies_of(found, *self.names)


class ScheduleFilter(PageQuery):
    """The filters of `GET /schedules/`."""

    project: Text | None = None
    """`domain/name`."""
    name: Text | None = None
    paused: bool | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        unpaused = None if self.paused is None else not self.paused
        return _matching(actor, rows, self.project, name=self.name, paused_at__isnull=unpaused)


class WebhookFilter(PageQuery):
    """The filters of `GET /webhooks/`."""

    project: Text | None = None
    """`domain/name`."""
    paused: bool | None = None

    def apply(self, actor: Actor, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match the filters."""
        unpaused = None if self.paused is None else not self.paused
        return _matching(actor, rows, self.project, paused_at__isnull=unpaused)


class DeliveryFilter(PageQuery):
    """The filters of a webhook's deliveries."""

    state: Literal["waiting", "delivered", "failed"] | None = None
    session: UUID | None = None
    type: Text | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on deliveries."""
        asked = {"state": self.state, "session_id": self.session, "type": self.type}
        return {name: value for name, value in asked.items() if value is not None}


class AuditFilter(PageQuery):
    """The query parameters of `GET /audit/`."""

    cursor: Annotated[str, Field(max_length=60)] | None = None
    actor: Text | None = None
    action: Text | None = None
    object_type: Text | None = None
    object_id: Text | None = None
    """It needs `object_type`."""
    project: Text | None = None
    """`domain/name`."""
    domain: Text | None = None
    """The entries of the domain itself and of its projects."""
    door: Door | None = None
    automatic: bool | None = None
    """True for the engine's acts, false for people's."""
    session: UUID | None = None
    chain: UUID | None = None
    """The chain, by the id of its first session."""
    created_after: Time | None = None
    created_before: Time | None = None

    @model_validator(mode="after")
    def _object_by_type(self) -> Self:
        if self.object_id is not None and self.object_type is None:
            raise InvalidInput({"object_id": ["requires object_type"]})
        return self

    def wanted(self) -> Wanted:
        """Return the conditions in the selector's form."""
        return Wanted(**{each.name: getattr(self, each.name) for each in fields(Wanted)})
