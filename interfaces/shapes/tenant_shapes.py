"""The shapes of domains, projects, memberships and tokens, for the OpenAPI document."""

from datetime import datetime

from pydantic import BaseModel

from interfaces.shapes.pages import Page


class Domain(BaseModel):
    """A domain: a group of projects."""

    name: str
    created_at: datetime


class DomainPage(Page[Domain]):
    """Domains by name."""


class Project(BaseModel):
    """A project: one team's part of a domain."""

    domain: str
    name: str
    created_at: datetime


class ProjectPage(Page[Project]):
    """Projects, oldest first."""


class Membership(BaseModel):
    """A user's role in a project (`domain/name`) or in all projects of a domain. One of the two is
    null."""

    id: int
    user: str
    role: str
    domain: str | None
    project: str | None


class MembershipPage(Page[Membership]):
    """Memberships, oldest first."""


class Token(BaseModel):
    """A bearer token of a user or an executor. `prefix` holds its first characters."""

    prefix: str
    name: str
    user: str | None
    executor: str | None
    project: str | None
    read_only: bool
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    made_with: str | None


class TokenWithSecret(Token):
    """A new token. `token` is the secret; it is shown only once."""

    token: str
    warnings: list[str]


class TokenPage(Page[Token]):
    """Tokens, newest first."""


class TokensRevoked(BaseModel):
    """The prefixes of the revoked tokens; the named one comes first."""

    revoked: list[str]
