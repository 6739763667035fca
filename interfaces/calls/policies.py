"""Operations on named policies."""

from collections.abc import Mapping
from typing import Any

from interfaces.requests.filters import ScopeQuery
from retry.policies.documents import PolicyDocument
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.core.versions import Expected
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.services.resources.policies import Applied, policy_apply, policy_delete


def create(actor: Actor, asked: ScopeQuery, body: Mapping[str, Any]) -> Applied:
    """Create a policy. Its scope is named in the query, in the document, or in both."""
    document = _document(body)
    scope = _scope_meant(actor, asked, document)
    return policy_apply(document, scope, by=actor.name, create=True)


def apply(
    actor: Actor,
    name: str | None,
    asked: ScopeQuery,
    body: Mapping[str, Any],
    expected: Expected | None,
) -> Applied:
    """Create a policy, or a new revision of it. The same document again changes nothing."""
    document = _document(body)
    if name not in {None, document.metadata.name}:
        raise InvalidInput({"metadata.name": [f"must be {name!r}, as in the address"]})
    scope = _scope_meant(actor, asked, document)
    return policy_apply(document, scope, by=actor.name, expected=expected)


def delete(actor: Actor, name: str, asked: ScopeQuery, expected: Expected | None) -> str:
    """Delete a policy that is not in use, or archive it; return which."""
    scope = _scope(actor, *asked.names)
    return policy_delete(name, scope, by=actor.name, expected=expected)


def _document(body: Mapping[str, Any]) -> PolicyDocument:
    # A policy may be sent back as it was read. Its status is ignored.
    sent = {key: value for key, value in body.items() if key != "status"}
    return PolicyDocument.model_validate(sent)


def _scope_meant(actor: Actor, asked: ScopeQuery, document: PolicyDocument) -> ConfigScope:
    if asked.names != (None, None):
        return _scope(actor, *asked.names)
    metadata = document.metadata
    try:
        return _scope(actor, metadata.domain, metadata.project)
    except NotFound as error:
        # The names in a document are fields of the input, not the address of the call.
        field = "metadata.domain" if metadata.project is None else "metadata.project"
        raise InvalidInput({field: [error.detail]}) from None


def _scope(actor: Actor, domain: str | None, project: str | None) -> ConfigScope:
    action = Action.POLICY_WRITE
    if project is not None:
        return ConfigScope(project=project_get(actor, domain or "", project, action))
    if domain is not None:
        return ConfigScope(domain=domain_get(actor, domain, action))
    authorize(actor, action)
    return ConfigScope()
