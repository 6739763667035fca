"""Quotas of projects and domains."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr, field_validator

from base.podspec.quantity import parse_resource
from base.podspec.resources import amounts_check
from interfaces.kinds.resource import Call, Resource, each
from interfaces.render.tenant_render import quotas_json
from interfaces.requests.bodies import Quantity
from interfaces.requests.strict import StrictModel
from interfaces.requests.whole_numbers import WHOLE
from interfaces.shapes import session_shapes as shapes
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.services.resources.quotas import quotas_put

READ = {"domain": Action.DOMAIN_QUOTA_READ, "project": Action.PROJECT_QUOTA_READ}
WRITE = {"domain": Action.DOMAIN_QUOTA_WRITE, "project": Action.PROJECT_QUOTA_WRITE}
_Count = Annotated[StrictInt, Field(ge=0, le=1_000_000_000), WHOLE]
_Name = Annotated[StrictStr, Field(min_length=1, max_length=128)]


class QuotasBody(StrictModel):
    """Limits; null means no limit. An absent limit means no limit in `PUT` and no change in
    `PATCH`."""

    sessions: _Count | None = None
    """The most sessions on executors at once."""
    pending_sessions: _Count | None = None
    """The most waiting sessions at once."""
    resources: Annotated[dict[_Name, Quantity | None], Field(max_length=64)] = {}
    """The most that the sessions on executors may ask for together."""

    @field_validator("resources")
    @classmethod
    def _sensible(cls, value: dict[str, str | None]) -> dict[str, str | None]:
        amounts_check({name: amount for name, amount in value.items() if amount is not None})
        return value

    def limits(self) -> dict[str, Decimal | None]:
        """Return the limits that were sent, by the names of their quotas."""
        counts = {SESSIONS: self.sessions, PENDING: self.pending_sessions}
        found = {
            name: None if count is None else Decimal(count)
            for name, count in counts.items()
            if name in self.model_fields_set
        }
        for name, amount in self.resources.items():
            found[f"{RESOURCES}{name}"] = None if amount is None else parse_resource(amount)
        return found


def quota_scope(actor: Actor, names: Mapping[str, str], action: Action) -> ConfigScope:
    """Return the scope with these names (`domain`, or both) if the caller may do `action`."""
    if "project" in names:
        return ConfigScope(project=project_get(actor, names["domain"], names["project"], action))
    # Only cluster admins may write, but nobody learns of a domain that they cannot see.
    domain = domain_get(actor, names["domain"], Action.DOMAIN_QUOTA_READ)
    authorize(actor, action, domain=domain)
    return ConfigScope(domain=domain)


def put(
    actor: Actor, names: Mapping[str, str], body: Mapping[str, Any], *, keep: bool
) -> ConfigScope:
    """Replace the limits of one scope, or with `keep` change the given ones."""
    scope = _written(actor, names)
    quotas_put(scope, QuotasBody.model_validate(body).limits(), by=actor.name, keep=keep)
    return scope


def delete(actor: Actor, names: Mapping[str, str]) -> None:
    """Remove all limits of one scope."""
    quotas_put(_written(actor, names), {}, by=actor.name)


def _written(actor: Actor, names: Mapping[str, str]) -> ConfigScope:
    return quota_scope(actor, names, WRITE["project" if "project" in names else "domain"])


def _quotas(level: str, place: str) -> Resource:
    name, read, write = f"quotas_{level}s", READ[level], WRITE[level]
    return Resource(
        name=name,
        address=f"quotas/{level}s",
        place=place,
        key=lambda **names: (names,),
        shape=shapes.Quotas,
        render=each(quotas_json),
        read=Call(
            read,
            "The limits of a scope, and the usage of all limits that apply to it.",
            quota_scope,
            named=f"{name}_retrieve",
        ),
        put=Call(
            write,
            "Replace the limits of one scope.",
            partial(put, keep=False),
            QuotasBody,
            named=f"{name}_update",
        ),
        patch=Call(
            write,
            "Change the given limits.",
            partial(put, keep=True),
            QuotasBody,
            named=f"{name}_partial_update",
        ),
        delete=Call(write, "Remove all limits of a scope.", delete, named=f"{name}_destroy"),
    )


DOMAIN_QUOTAS = _quotas("domain", "<str:domain>")
PROJECT_QUOTAS = _quotas("project", "<str:domain>/<str:project>")
