"""Tenants as calls: domains, projects, memberships, tokens."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

from reprise_client.calls import Calls, part, present
from reprise_client.models import Domain, Membership, Project, Token


class TenantCalls(Calls):
    """The calls to create, show and delete tenants."""

    # Domains and projects

    def domains(self, **filters: Any) -> Iterator[Domain]:
        """Yield the domains that the user may see, by name; `search` is the beginning of a name."""
        return self._pages(Domain, "/domains/", filters)

    def domain(self, name: str) -> Domain:
        return self._get(Domain, f"/domains/{part(name)}/")

    def domain_create(self, name: str) -> Domain:
        """Create a domain. Raises a 409 if it exists."""
        return self._send(Domain, "POST", "/domains/", {"name": name})

    def domain_delete(self, name: str) -> None:
        """Delete a domain without projects. Raises a 409 for others."""
        self._transport.request("DELETE", f"/domains/{part(name)}/", idempotent=True)

    def projects(self, **filters: Any) -> Iterator[Project]:
        """Yield the projects that the user may see, oldest first; `filters` are `domain`,
        `search`."""
        return self._pages(Project, "/projects/", filters)

    def project_get(self, address: str) -> Project:
        """Return the project at `address` (`domain/name`)."""
        return self._get(Project, _project(address))

    def project_create(self, domain: str, name: str) -> Project:
        """Create a project with its default queue. Raises a 409 if it exists."""
        return self._send(Project, "POST", "/projects/", {"domain": domain, "name": name})

    def project_delete(self, address: str) -> None:
        """Delete a project in which nothing ever ran. Raises a 409 for others."""
        self._transport.request("DELETE", _project(address), idempotent=True)

    # Memberships

    def memberships(self, **filters: Any) -> Iterator[Membership]:
        """Yield the memberships that the user may see; `filters`: `user`, `role`, `domain`,
        `project`."""
        return self._pages(Membership, "/memberships/", filters)

    def membership_create(
        self, user: str, role: str, *, domain: str | None = None, project: str | None = None
    ) -> Membership:
        """Give a role in a domain or in a project (`domain/name`).

        Raises a 409 if the user has one.
        """
        place = present({"domain": domain, "project": project})
        body = {"user": user, "role": role, **place}
        return self._send(Membership, "POST", "/memberships/", body)

    def membership_change(self, membership_id: int, role: str) -> Membership:
        path = f"/memberships/{membership_id}/"
        return self._send(Membership, "PATCH", path, {"role": role}, idempotent=True)

    def membership_delete(self, membership_id: int) -> None:
        self._transport.request("DELETE", f"/memberships/{membership_id}/", idempotent=True)

    # Tokens

    def tokens(self, **filters: Any) -> Iterator[Token]:
        """Yield the user's own tokens, or all for a cluster admin, newest first.

        `filters`: `user`, `executor`, `project`, `read_only`, `expired`, `made_with`.
        """
        return self._pages(Token, "/tokens/", filters)

    def token(self, prefix: str) -> Token:
        return self._get(Token, f"/tokens/{part(prefix)}/")

    def token_create(
        self,
        name: str,
        *,
        user: str | None = None,
        project: str | None = None,
        read_only: bool = False,
        expires_at: datetime | None = None,
    ) -> Token:
        """Create a token, shown only in this answer. It has no more rights than the calling one.

        Only cluster admins may give another `user`.
        """
        more = {"user": user, "project": project, "expires_at": expires_at}
        body = {"name": name, "read_only": read_only, **present(more)}
        return self._send(Token, "POST", "/tokens/", body)

    def token_revoke(self, prefix: str, *, made_with: bool = False) -> list[str]:
        """Revoke a token at once, and return the prefixes of all revoked ones.

        With `made_with` also revoke the tokens that were created with it.
        """
        params = {"made_with": "true"} if made_with else None
        path = f"/tokens/{part(prefix)}/"
        answer = self._transport.request("DELETE", path, params=params)
        revoked = answer.get("revoked") if isinstance(answer, dict) else None
        return [str(each) for each in revoked or ()]


def _project(address: str) -> str:
    return f"/projects/{quote(address, safe='/')}/"
