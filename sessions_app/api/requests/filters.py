"""The filters of the lists of records, which REST and GraphQL share."""

from dataclasses import fields
from typing import Annotated, Any, Literal, Self, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sessions_app.api.requests.queries import PageQuery, Text, Time, lowered, of_project
from sessions_app.api.requests.strict import StrictModel
from sessions_app.audit.context import Door
from sessions_app.core.errors import InvalidInput
from sessions_app.models import RetryPolicy
from sessions_app.models.tenants import Role
from sessions_app.selectors.audit import Wanted
from sessions_app.selectors.policies import policies_of

Row = TypeVar("Row", bound=Model)


AnyCaseRole = Annotated[Role, BeforeValidator(lowered)]


def _given(project: str | None, **asked: object) -> dict[str, Any]:
    """Return the conditions that are asked for; a project is asked for by `domain/name`."""
    found = {name: value for name, value in asked.items() if value is not None}
    return found if project is None else found | of_project(project)


class DomainFilter(PageQuery):
    """The filters of `GET /domains/`."""

    search: Text | None = None
    """The beginning of the name."""

    def apply(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Return the rows that match the filters."""
        return rows if self.search is None else rows.filter(name__startswith=self.search)


class ProjectFilter(DomainFilter):
    """The filters of `GET /projects/`."""

    domain: Text | None = None

    def apply(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Return the rows that match the filters."""
        found = super().apply(rows)
        return found if self.domain is None else found.filter(domain__name=self.domain)


class MembershipFilter(PageQuery):
    """The filters of `GET /memberships/`."""

    user: Text | None = None
    role: AnyCaseRole | None = None
    domain: Text | None = None
    """Roles in the domain itself."""
    project: Text | None = None
    """Roles in the project (`domain/name`) itself."""

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on memberships."""
        return _given(
            self.project, user__username=self.user, role=self.role, domain__name=self.domain
        )


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

    def conditions(self) -> Q:
        """Return the conditions on tokens."""
        wanted = Q(
            **_given(
                self.project,
                user__username=self.user,
                executor_name=self.executor,
                read_only=self.read_only,
                made_with=self.made_with,
            )
        )
        if self.expired is not None:
            ended = Q(expires_at__isnull=False, expires_at__lte=timezone.now())
            wanted &= ended if self.expired else ~ended
        return wanted


class QueueFilter(PageQuery):
    """The filters of `GET /queues/`."""

    project: Text | None = None
    """`domain/name`."""
    cordoned: bool | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on queues."""
        return _given(self.project, cordoned=self.cordoned)


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

    def apply(self, policies: QuerySet[RetryPolicy]) -> QuerySet[RetryPolicy]:
        """Return the policies that match the filters."""
        found = policies.filter(archived_at__isnull=not self.archived)
        return found if self.names == (None, None) else policies_of(found, *self.names)


class ScheduleFilter(PageQuery):
    """The filters of `GET /schedules/`."""

    project: Text | None = None
    """`domain/name`."""
    name: Text | None = None
    paused: bool | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on schedules."""
        unpaused = None if self.paused is None else not self.paused
        return _given(self.project, name=self.name, paused_at__isnull=unpaused)


class WebhookFilter(PageQuery):
    """The filters of `GET /webhooks/`."""

    project: Text | None = None
    """`domain/name`."""
    paused: bool | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on webhooks."""
        unpaused = None if self.paused is None else not self.paused
        return _given(self.project, paused_at__isnull=unpaused)


class DeliveryFilter(PageQuery):
    """The filters of a webhook's deliveries."""

    state: Literal["waiting", "delivered", "failed"] | None = None
    session: UUID | None = None
    type: Text | None = None

    def conditions(self) -> dict[str, Any]:
        """Return the conditions on deliveries."""
        return _given(None, state=self.state, session_id=self.session, type=self.type)


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
