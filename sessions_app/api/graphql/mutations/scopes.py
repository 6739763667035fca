"""The part of inputs that says whose configuration is meant."""

from typing import Any

from sessions_app.api.graphql.mutations.base import IfMatch
from sessions_app.api.graphql.scopes import SCOPE, names_of


class OfScope:
    """A project, a domain, or else the cluster."""

    domain = SCOPE["domain"]
    project = SCOPE["project"]


class OfScopeVersion(OfScope, IfMatch):
    """As `OfScope`, of what two may change at the same time."""


def taken_names(given: dict[str, Any]) -> dict[str, str]:
    """The names of the scope, which are taken out; raises `InvalidInput`."""
    asked = {name: given.pop(name, None) for name in ("domain", "project")}
    domain, project = names_of(asked)
    named = {"domain": domain, "project": project}
    return {name: text for name, text in named.items() if text is not None}
