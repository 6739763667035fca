"""Reads of domains, projects, memberships and tokens that every door shares."""

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from sessions_app.authorization import Action, Actor, authorize, require_user
from sessions_app.core.errors import InvalidInput, NotFound
from sessions_app.models import ApiToken, Domain, Membership, Project
from sessions_app.selectors.sessions import domain_get


def domains_visible(actor: Actor) -> QuerySet[Domain]:
    """Return the domains that the actor may see: their own, and those of their projects."""
    user = require_user(actor)
    if actor.is_cluster_admin:
        return Domain.objects.all()
    if actor.only_project_id is not None:
        return Domain.objects.none()
    roles = Membership.objects.filter(user=user)
    return Domain.objects.filter(
        Q(pk__in=roles.filter(domain__isnull=False).values("domain"))
        | Q(pk__in=roles.filter(project__isnull=False).values("project__domain"))
    )


def projects_listed(actor: Actor) -> QuerySet[Project]:
    """Return the projects that the actor may see, with their domains."""
    require_user(actor)
    return actor.projects().select_related("domain")


def memberships_visible(actor: Actor) -> QuerySet[Membership]:
    """Return the memberships in projects and domains that the actor may see, with their records."""
    require_user(actor)
    found = Membership.objects.select_related("user", "domain", "project__domain")
    if actor.is_cluster_admin:
        return found
    return found.filter(
        Q(project__in=actor.projects().values("pk")) | Q(domain__in=domains_visible(actor))
    )


def membership_get(actor: Actor, key: int, action: Action) -> Membership:
    """Return a membership on which the actor may do `action`. Raises `NotFound`, `NotPermitted`."""
    found = memberships_visible(actor).filter(pk=key).first()
    if found is None:
        raise NotFound(f"no membership {key}")
    authorize(actor, action, project=found.project, domain=found.domain)
    return found


def domain_named(actor: Actor, name: str, action: Action) -> Domain:
    """Return the domain that a body names.

    Raises `NotPermitted`, and `InvalidInput` for `domain` if there is none that the actor may see.
    """
    try:
        return domain_get(actor, name, action)
    except NotFound:
        raise InvalidInput({"domain": [f"no domain {name} that you may use"]}) from None


def tokens_visible(actor: Actor) -> QuerySet[ApiToken]:
    """Return the actor's own tokens, or all for a cluster admin, with what is shown of them.

    A caller whose token is restricted to a project sees only tokens of that project.
    """
    user = require_user(actor)
    tokens = ApiToken.objects.select_related("user", "project__domain")
    if actor.is_cluster_admin:
        return tokens
    own = tokens.filter(user=user)
    return own if actor.only_project_id is None else own.filter(project=actor.only_project_id)


def token_get(actor: Actor, prefix: str, action: Action) -> ApiToken:
    """Return a token by its prefix. Raises `NotFound`, `NotPermitted`."""
    found = tokens_visible(actor).filter(prefix=prefix).first()
    if found is None:
        raise NotFound(f"no token {prefix}")
    authorize(actor, action)
    return found


def domains_all() -> QuerySet[Domain]:
    """Return every domain: for operators, who may see all."""
    return Domain.objects.all()


def projects_all() -> QuerySet[Project]:
    """Return every project: for operators, who may see all."""
    return Project.objects.all()


def user_named(name: str | None) -> User:
    """Return somebody who can sign in; raises `InvalidInput` naming `user`."""
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        raise InvalidInput({"user": [f"no active user {name}"]})
    return found
