"""Failures by their signatures, as calls."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls, part, present
from reprise_client.models import Failure


class FailureCalls(Calls):
    """The calls about kinds of failures.

    A signature has its figures in each project: the given one, or the client's.
    """

    def failures(self, **filters: Any) -> Iterator[Failure]:
        """Yield the kinds of failures of a time, most frequent first.

        `filters`: `project`, `since`, `until`, `cause`, `queue`, `image`, `node`, `muted`,
        `ordering`. Without a `project` filter only the client's project is listed; `project=None`
        lists all.
        """
        if self.project is not None:
            filters.setdefault("project", self.project)
        return self._pages(Failure, "/failures/", filters)

    def failure(
        self,
        key: str,
        *,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Failure:
        """Return one kind of failures, with its figures of a time: by default the last day."""
        params = present({"project": project or self.project, "since": since, "until": until})
        return self._get(Failure, f"/failures/{part(key)}/", params)

    def failure_mute(self, key: str, *, project: str | None = None, muted: bool = True) -> Failure:
        """Mute a kind of failures, or take that back. This is safe to repeat."""
        params = present({"project": project or self.project})
        path = f"/failures/{part(key)}/"
        return self._send(Failure, "PATCH", path, {"muted": muted}, params=params, idempotent=True)
