"""Renders domains and projects, their memberships, tokens and quotas, and who asks."""

from typing import Any

from interfaces.render.by_shape import rendered
from interfaces.shapes import tenant_shapes as shapes
from sessions_app.authorization import Actor, require_user
from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import ApiToken, Domain, Membership, Project
from sessions_app.selectors.quotas import quota_uses


def domain_json(domain: Domain) -> dict[str, Any]:
    """Return a domain. It has no counts, because the caller may see only a part of it."""
    return rendered(shapes.Domain, domain)


def project_json(project: Project) -> dict[str, Any]:
    """Return a project, which was read with its domain."""
    return rendered(shapes.Project, project, domain=project.domain.name)


def membership_json(membership: Membership) -> dict[str, Any]:
    """Return a membership, which was read with its user and place."""
    return {
        "id": membership.pk,
        "user": membership.user.username,
        "role": membership.role,
        "domain": membership.domain.name if membership.domain else None,
        "project": membership.project.address if membership.project else None,
    }


def token_json(token: ApiToken) -> dict[str, Any]:
    """Return a token without its secret. It was read with its bearer and project."""
    return rendered(
        shapes.Token,
        token,
        user=token.user.username if token.user else None,
        executor=token.executor_name or None,
        project=token.project.address if token.project else None,
        made_with=token.made_with or None,
    )


def whoami_json(actor: Actor, token: ApiToken | None) -> dict[str, Any]:
    """Return the caller; a None token stands for a browser's session, which has no restrictions."""
    return {
        "username": require_user(actor).username,
        "cluster_admin": actor.is_cluster_admin,
        "project": token.project.address if token and token.project else None,
        "token_name": token.name if token else "",
        "expires_at": token.expires_at if token else None,
        "read_only": actor.read_only,
    }


def quotas_json(scope: ConfigScope) -> dict[str, Any]:
    """Return the limits of a scope in the form of the input, and the use of all that apply to
    it."""
    uses = quota_uses(scope)
    own = {each.name: each.limit for each in uses if each.scope == scope.name}
    counts = {name: int(own[name]) if name in own else None for name in (SESSIONS, PENDING)}
    resources = {
        name.removeprefix(RESOURCES): limit
        for name, limit in own.items()
        if name.startswith(RESOURCES)
    }
    usage = [each._asdict() for each in uses]
    return {"scope": scope.name, **counts, "resources": resources, "usage": usage}
