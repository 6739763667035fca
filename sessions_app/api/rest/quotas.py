"""Quotas of projects and domains over REST."""

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self

from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from rest_framework.request import Request
from rest_framework.response import Response

from retry.quantity import parse_resource
from sessions_app.api import responses
from sessions_app.api.requests import Quantity
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action, authorize
from sessions_app.quota_selectors import quotas_standing
from sessions_app.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.selectors import domain_get, project_get
from sessions_app.services.quotas import quotas_put
from sessions_app.services.retry_config import ConfigScope

_Count = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]
_Name = Annotated[StrictStr, Field(min_length=1, max_length=128)]


class QuotasBody(BaseModel):
    """Limits; null and absent are none. `PATCH` leaves as they are those that are absent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sessions: _Count | None = None
    """On executors at once."""
    pending_sessions: _Count | None = None
    """Waiting at once."""
    resources: Annotated[dict[_Name, Quantity | None], Field(max_length=64)] = {}
    """What those on executors ask for together."""

    def limits(self) -> dict[str, Decimal | None]:
        """What was sent, by the names of the quotas."""
        counts = {SESSIONS: self.sessions, PENDING: self.pending_sessions}
        found = {
            name: None if count is None else Decimal(count)
            for name, count in counts.items()
            if name in self.model_fields_set
        }
        for name, amount in self.resources.items():
            found[f"{RESOURCES}{name}"] = None if amount is None else parse_resource(amount)
        return found


class QuotasView(RestView):
    """`/quotas/projects/{domain}/{project}/` and `/quotas/domains/{domain}/`."""

    level: ClassVar[str]

    @classmethod
    def at(cls, level: str) -> type[Self]:
        """This view for a kind of scope, with the actions that belong to it."""
        read, write = {
            "domain": (Action.DOMAIN_QUOTA_READ, Action.DOMAIN_QUOTA_WRITE),
            "project": (Action.PROJECT_QUOTA_READ, Action.PROJECT_QUOTA_WRITE),
        }[level]
        actions = {"GET": read, "PUT": write, "PATCH": write, "DELETE": write}
        return type(cls.__name__, (cls,), {"level": level, "actions": actions})

    @extend_schema(responses=responses.Quotas)
    def get(self, request: Request, **names: str) -> Response:  # noqa: ARG002
        """The limits of one scope, and what is in use of all that hold there."""
        return Response(quotas_json(self._scope(names)))

    @extend_schema(request=QuotasBody, responses=responses.Quotas)
    def put(self, request: Request, **names: str) -> Response:
        """Replace the limits of one scope."""
        return self._store(self._scope(names), request, keep=False)

    @extend_schema(request=QuotasBody, responses=responses.Quotas)
    def patch(self, request: Request, **names: str) -> Response:
        """Change the limits that are named."""
        return self._store(self._scope(names), request, keep=True)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **names: str) -> Response:  # noqa: ARG002
        """Take all limits of one scope away."""
        quotas_put(self._scope(names), {}, by=self.actor.name)
        return Response(status=204)

    def _scope(self, names: dict[str, str]) -> ConfigScope:
        action = self.required_action
        if self.level == "project":
            project = project_get(self.actor, names["domain"], names["project"], action)
            return ConfigScope(project=project)
        # Only the cluster's admins may write, but nobody is told of a domain they cannot see.
        domain = domain_get(self.actor, names["domain"], Action.DOMAIN_QUOTA_READ)
        authorize(self.actor, action, domain=domain)
        return ConfigScope(domain=domain)

    def _store(self, scope: ConfigScope, request: Request, *, keep: bool) -> Response:
        body = QuotasBody.model_validate(body_of(request))
        quotas_put(scope, body.limits(), by=self.actor.name, keep=keep)
        return Response(quotas_json(scope))


def quotas_json(scope: ConfigScope) -> dict[str, Any]:
    """The limits of a scope as they can be sent again, and how all that hold there stand."""
    standing = quotas_standing(scope)
    own = {each.name: each.limit for each in standing if each.scope == scope.name}
    counts = {name: int(own[name]) if name in own else None for name in (SESSIONS, PENDING)}
    resources = {
        name.removeprefix(RESOURCES): limit
        for name, limit in own.items()
        if name.startswith(RESOURCES)
    }
    usage = [each._asdict() for each in standing]
    return {"scope": scope.name, **counts, "resources": resources, "usage": usage}
