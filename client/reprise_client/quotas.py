"""The quotas of projects and domains, as calls."""

from collections.abc import Mapping
from urllib.parse import quote

from reprise_client.calls import Calls, part
from reprise_client.models import Quotas


class QuotaCalls(Calls):
    """The calls about the quotas of a project (`domain/name`) or a domain."""

    def quotas(self, *, project: str | None = None, domain: str | None = None) -> Quotas:
        """Return the limits of a project or a domain, and the use of all limits that apply to
        it."""
        return self._get(Quotas, _path(project, domain))

    def quotas_change(
        self,
        *,
        project: str | None = None,
        domain: str | None = None,
        counts: Mapping[str, int | None] | None = None,
        resources: Mapping[str, str | None] | None = None,
    ) -> Quotas:
        """Change the given limits only; None removes a limit.

        `counts` are the limits of `sessions` and `pending_sessions`.
        """
        body = {**(counts or {}), "resources": dict(resources or {})}
        return self._send(Quotas, "PATCH", _path(project, domain), body, idempotent=True)


def _path(project: str | None, domain: str | None) -> str:
    if project is not None:
        return f"/quotas/projects/{quote(project, safe='/')}/"
    if domain is None:
        raise ValueError("give a project or a domain")
    return f"/quotas/domains/{part(domain)}/"
