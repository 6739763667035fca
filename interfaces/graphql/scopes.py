"""The arguments `domain` and `project`, which name the scope of a configuration."""

from collections.abc import Mapping
from typing import Any

import graphene

from interfaces.graphql.errors import read_arguments
from interfaces.requests.filters import ScopeQuery
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import InvalidInput
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.sessions import domain_get, project_get

SCOPE: dict[str, Any] = {
    "domain": graphene.String(description="The name of a domain."),
    "project": graphene.String(description="`domain/name`, or the name in `domain`."),
}


def names_of(asked: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the named domain and project. Raises `InvalidInput`."""
    return read_arguments(ScopeQuery, asked).names


def scope_of(actor: Actor, actions: Mapping[str, Action], **asked: Any) -> ConfigScope:
    """Return the named scope, if the caller may do the action that `actions` has for its level.

    Raises `InvalidInput` with the field `project` if the cluster is not among the levels.
    """
    domain, project = names_of(asked)
    if project is not None:
        found = project_get(actor, domain or "", project, actions["project"])
        return ConfigScope(project=found)
    if domain is not None:
        return ConfigScope(domain=domain_get(actor, domain, actions["domain"]))
    if "cluster" not in actions:
        raise InvalidInput({"project": ["name a domain or a project"]})
    authorize(actor, actions["cluster"])
    return ConfigScope()
