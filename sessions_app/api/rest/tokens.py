"""API tokens over REST: made and shown once, listed, revoked.

A token gives no more than its bearer has at each call. One that is made with another is narrowed as
that one is, and ends with it at the latest.
"""

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, field_validator
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import tenant_responses as shapes
from sessions_app.api.filters import PageQuery, Text, Time, of_project, query_of
from sessions_app.api.openapi import query_parameters
from sessions_app.api.paging import RowCursor
from sessions_app.api.requests import MAX_SECONDS, one_line
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action, Actor, authorize, require_user
from sessions_app.errors import InvalidInput, NotPermitted
from sessions_app.models import ApiToken, Project
from sessions_app.selectors import project_resolve
from sessions_app.services.tokens import (
    token_create,
    token_made,
    token_revoke,
    token_revoke_made_with,
)
from sessions_app.tenant_selectors import token_get, tokens_visible


class TokenCreate(BaseModel):
    """The body of `POST /tokens/`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[StrictStr, Field(min_length=1, max_length=128)]
    """What it is for."""
    user: Annotated[StrictStr, Field(min_length=1, max_length=150)] | None = None
    """Whose; of others only for cluster admins."""
    project: Annotated[StrictStr, Field(min_length=1, max_length=127)] | None = None
    """The only one for which it is good, as `domain/name`; null: that of the token which makes it,
    else all."""
    read_only: StrictBool = False
    expires_at: Time | None = None
    """Null: when the token ends which makes it, else never."""

    @field_validator("name")
    @classmethod
    def _one_line(cls, value: str) -> str:
        return one_line(value)


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
        """What the tokens have to be."""
        found = {
            "user__username": self.user,
            "executor_name": self.executor,
            "read_only": self.read_only,
            "made_with": self.made_with,
        }
        if self.project is not None:
            found |= of_project(self.project)
        wanted = Q(**{field: value for field, value in found.items() if value is not None})
        if self.expired is not None:
            ended = Q(expires_at__isnull=False, expires_at__lte=timezone.now())
            wanted &= ended if self.expired else ~ended
        return wanted


class RevokeQuery(BaseModel):
    """Whether those go, too, that were made with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    made_with: bool = False


class TokensView(RestView):
    """`/tokens/`."""

    actions: ClassVar = {"GET": Action.TOKEN_LIST, "POST": Action.TOKEN_CREATE}

    @extend_schema(
        operation_id="tokens_list",
        parameters=query_parameters(TokenFilter),
        responses=shapes.TokenPage,
    )
    def get(self, request: Request) -> Response:
        """List one's own tokens, or all for a cluster admin, newest first."""
        wanted = query_of(TokenFilter, request.query_params)
        paginator = RowCursor("-id")
        page = paginator.read(tokens_visible(self.actor).filter(wanted.conditions()), request)
        return paginator.get_paginated_response([token_json(each) for each in page])

    @extend_schema(
        operation_id="tokens_create",
        request=TokenCreate,
        responses={201: shapes.TokenWithSecret},
    )
    def post(self, request: Request) -> Response:
        """Make a token, told this once, that gives no more than the one it is made with."""
        authorize(self.actor, self.required_action)
        asked = TokenCreate.model_validate(body_of(request))
        present: Any = request.auth
        secret = token_create(
            name=asked.name,
            user=_bearer(self.actor, asked.user),
            project=_project(self.actor, asked.project),
            read_only=asked.read_only,
            expires_at=_end(asked, present),
            made_with=present.prefix,
            by=self.actor.name,
        )
        made = token_made(secret)
        return self.created({**token_json(made), "token": secret}, f"{made.prefix}/")


class TokenView(RestView):
    """`/tokens/{prefix}/`."""

    actions: ClassVar = {"GET": Action.TOKEN_READ, "DELETE": Action.TOKEN_REVOKE}

    @extend_schema(operation_id="token_read", responses=shapes.Token)
    def get(self, request: Request, prefix: str) -> Response:  # noqa: ARG002
        """One token, without its secret."""
        return Response(token_json(token_get(self.actor, prefix, self.required_action)))

    @extend_schema(
        operation_id="token_revoke",
        parameters=query_parameters(RevokeQuery),
        responses=shapes.TokensRevoked,
    )
    def delete(self, request: Request, prefix: str) -> Response:
        """Revoke a token, effective at once; with `made_with` all that were made with it, too."""
        query = query_of(RevokeQuery, request.query_params)
        token = token_get(self.actor, prefix, self.required_action)
        by = self.actor.name
        if query.made_with:
            gone = token_revoke_made_with(prefix=token.prefix, by=by)
        else:
            gone = [token_revoke(prefix=token.prefix, by=by)]
        return Response({"revoked": [each.prefix for each in gone]})


def _bearer(actor: Actor, name: str | None) -> User:
    """Whose token it becomes; raises `NotPermitted`, `InvalidInput`."""
    own = require_user(actor)
    if name in {None, own.username}:
        return own
    if not actor.is_cluster_admin:
        raise NotPermitted("only a cluster admin may make tokens of others")
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        raise InvalidInput({"user": [f"no active user {name}"]})
    return found


def _project(actor: Actor, address: str | None) -> Project | None:
    """What it is narrowed to; raises `InvalidInput` if the actor does not see that."""
    if address is None and actor.only_project_id is None:
        return None
    return project_resolve(actor, address, Action.PROJECT_READ)


def _end(asked: TokenCreate, present: ApiToken) -> Any:
    """When it ends; raises `InvalidInput` if that is past, or after the one it is made with."""
    wanted = asked.expires_at or present.expires_at
    if wanted is None:
        return None
    now = timezone.now()
    if wanted <= now:
        raise InvalidInput({"expires_at": ["is past"]})
    if wanted > now + timedelta(seconds=MAX_SECONDS):
        raise InvalidInput({"expires_at": ["must be within ten years; null is never"]})
    if present.expires_at is not None and wanted > present.expires_at:
        text = f"the token that makes it ends at {present.expires_at.isoformat()}"
        raise InvalidInput({"expires_at": [text]})
    return wanted


def token_json(token: ApiToken) -> dict[str, Any]:
    """A token, which comes with its bearer and its project; never its secret."""
    return {
        "prefix": token.prefix,
        "name": token.name,
        "user": token.user.username if token.user else None,
        "executor": token.executor_name or None,
        "project": token.project.address if token.project else None,
        "read_only": token.read_only,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "made_with": token.made_with or None,
    }
