"""Answers about tenants: domains, projects, memberships, tokens."""

from datetime import datetime

from reprise_client.models import Answer


class Domain(Answer):
    """The outermost tenant."""

    name: str
    created_at: datetime | None = None


class Project(Answer):
    """A team's part of a domain."""

    domain: str
    name: str
    created_at: datetime | None = None

    @property
    def address(self) -> str:
        """Return `domain/name`."""
        return f"{self.domain}/{self.name}"


class Membership(Answer):
    """A user's role in a project (`domain/name`), or in all projects of a domain."""

    id: int
    user: str
    role: str
    domain: str | None = None
    project: str | None = None

    @property
    def place(self) -> str:
        """Return the domain, or `domain/name`."""
        return self.project or self.domain or ""


class Token(Answer):
    """A bearer token, named by its `prefix`. Only the answer that created it has the `token`.

    `made_with` is the prefix of the token that it was created with.
    """

    prefix: str
    name: str = ""
    user: str | None = None
    executor: str | None = None
    project: str | None = None
    read_only: bool = False
    created_at: datetime | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    made_with: str | None = None
    token: str = ""
    warnings: tuple[str, ...] = ()
