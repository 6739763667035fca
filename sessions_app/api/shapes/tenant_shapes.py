"""The shapes of domains, projects, memberships and tokens, for the OpenAPI document."""

from datetime import datetime

from pydantic import BaseModel

from sessions_app.api.shapes.pages import Page


class Domain(BaseModel):
    """The outermost tenant."""

    name: str
    created_at: datetime


class DomainPage(Page[Domain]):
    """Domains by name."""


class Project(BaseModel):
    """A team's share of a domain."""

    domain: str
    name: str
    created_at: datetime


class ProjectPage(Page[Project]):
    """Projects, oldest first."""


class Membership(BaseModel):
    """A user's role in a project (`domain/name`), or in all projects of a domain: one is null."""

    id: int
    user: str
    role: str
    domain: str | None
    project: str | None


class MembershipPage(Page[Membership]):
    """Memberships, oldest first."""


class Token(BaseModel):
    """A bearer token, by its first characters; its bearer is a user or an executor."""

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
    """A token that was made now; `token` is what it is used by, told this once."""

    token: str
    warnings: list[str]


class TokenPage(Page[Token]):
    """Tokens, newest first."""


class TokensRevoked(BaseModel):
    """The prefixes of the tokens that ended, the one that was named first."""

    revoked: list[str]
