"""API tokens.

A token never has more rights than its bearer has at the time of a call. A token that is created
with another one has at most its rights, and ends no later.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Annotated, Any

from django.contrib.auth.models import User
from django.utils import timezone
from pydantic import Field, StrictBool, StrictStr

from interfaces.kinds.resource import Call, Listing, Resource, each
from interfaces.render.tenant_render import token_json
from interfaces.requests.bodies import MAX_SECONDS, OneLine, ProjectAddress
from interfaces.requests.filters import TokenFilter
from interfaces.requests.queries import Time
from interfaces.requests.strict import StrictModel
from interfaces.shapes import tenant_shapes as shapes
from sessions_app.authorization import Action, Actor, authorize, require_user
from sessions_app.core.errors import InvalidInput, NotPermitted
from sessions_app.models import ApiToken, Project
from sessions_app.selectors.sessions import project_resolve
from sessions_app.selectors.tenants import token_get, tokens_visible, user_named
from sessions_app.services.access.tokens import (
    token_create,
    token_made,
    token_revoke,
    token_revoke_made_with,
)


class TokenCreate(StrictModel):
    """The body of `POST /tokens/`."""

    name: Annotated[OneLine, Field(min_length=1, max_length=128)]
    """The purpose of the token."""
    user: Annotated[StrictStr, Field(min_length=1, max_length=150)] | None = None
    """The bearer. Only cluster admins may name other users."""
    project: ProjectAddress | None = None
    """The only project of the token, as `domain/name`.

    Null means that of the token in use, or else all projects.
    """
    read_only: StrictBool = False
    expires_at: Time | None = None
    """Null means the end of the token in use, or else never."""


def create(actor: Actor, present: ApiToken | None, body: Mapping[str, Any]) -> tuple[ApiToken, str]:
    """Create a token with at most the rights of the `present` one. Return it with its secret.

    A caller who is logged in with a password has no present token.
    """
    authorize(actor, Action.TOKEN_CREATE)
    asked = TokenCreate.model_validate(body)
    secret = token_create(
        name=asked.name,
        user=_bearer(actor, asked.user),
        project=_project(actor, asked.project),
        read_only=asked.read_only,
        expires_at=_end(asked, present.expires_at if present else None),
        made_with=present,
        by=actor.name,
    )
    return token_made(secret), secret


def revoke(actor: Actor, prefix: str, *, made_with: bool) -> list[ApiToken]:
    """Revoke a token at once; with `made_with` also all tokens created with it."""
    token = token_get(actor, prefix, Action.TOKEN_REVOKE)
    if made_with:
        return token_revoke_made_with(prefix=token.prefix, by=actor.name)
    return [token_revoke(prefix=token.prefix, by=actor.name)]


def _bearer(actor: Actor, name: str | None) -> User:
    """Return the bearer of the new token. Raises `NotPermitted` and `InvalidInput`."""
    own = require_user(actor)
    if name in {None, own.username}:
        return own
    if not actor.is_cluster_admin:
        raise NotPermitted("only a cluster admin may create tokens for other users")
    return user_named(name)


def _project(actor: Actor, address: str | None) -> Project | None:
    """Return the token's only project. Raises `InvalidInput` if the caller cannot see it."""
    if address is None and actor.only_project_id is None:
        return None
    return project_resolve(actor, address, Action.PROJECT_READ)


def _end(asked: TokenCreate, latest: datetime | None) -> datetime | None:
    """Return when the token ends. Raises `InvalidInput` if that is past or after `latest`."""
    wanted = asked.expires_at or latest
    if wanted is None:
        return None
    now = timezone.now()
    if wanted <= now:
        raise InvalidInput({"expires_at": ["is in the past"]})
    if wanted > now + timedelta(seconds=MAX_SECONDS):
        raise InvalidInput({"expires_at": ["must be within ten years, or null for never"]})
    if latest is not None and wanted > latest:
        text = f"the token that makes it ends at {latest.isoformat()}"
        raise InvalidInput({"expires_at": [text]})
    return wanted


TOKEN = Resource(
    name="token",
    many="tokens",
    address="tokens",
    place="<str:prefix>",
    at=attrgetter("prefix"),
    shape=shapes.Token,
    page=shapes.TokenPage,
    render=each(token_json),
    listing=Listing(
        Action.TOKEN_LIST,
        "List your own tokens, newest first. A cluster admin gets all tokens.",
        tokens_visible,
        ["-id"],
        TokenFilter,
    ),
    read=Call(Action.TOKEN_READ, "One token, without its secret.", token_get),
)
"""What creates one knows the token of the call, and what revokes one answers all that went."""
