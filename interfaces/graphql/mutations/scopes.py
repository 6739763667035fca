"""The input fields that name the scope of a configuration."""

from typing import Any

from interfaces.graphql.kinds import IfMatch
from interfaces.graphql.scopes import SCOPE, names_of


class OfScope:
    """A project, a domain, or else the cluster."""

    domain = SCOPE["domain"]
    project = SCOPE["project"]


class OfScopeVersion(OfScope, IfMatch):
    """The same, with `ifMatch`."""


def taken_names(given: dict[str, Any]) -> dict[str, str]:
    """Take the names of the scope out of the input and return them. Raises `InvalidInput`."""
    asked = {name: given.pop(name, None) for name in ("domain", "project")}
    domain, project = names_of(asked)
    named = {"domain": domain, "project": project}
    return {name: text for name, text in named.items() if text is not None}
