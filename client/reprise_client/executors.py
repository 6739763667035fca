"""The registry of executors, as calls for cluster admins."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reprise_client.calls import Calls, part
from reprise_client.models import (
    Drained,
    Executor,
    ExecutorLease,
    ExecutorToken,
    Preemption,
    Reservation,
)


class ExecutorCalls(Calls):
    """The calls to create, show, close and delete executors."""

    def executors(self, **filters: Any) -> Iterator[Executor]:
        """Yield all executors by name, without nodes; `filters` are `cordoned`, `health`,
        `driver`."""
        return self._pages(Executor, "/executors/", filters)

    def executor(self, name: str) -> Executor:
        """Return one executor with its nodes."""
        return self._get(Executor, _path(name))

    def executor_leases(self, name: str) -> Iterator[ExecutorLease]:
        """Yield the leases that it holds, oldest first."""
        return self._pages(ExecutorLease, f"{_path(name)}leases/", {})

    def reservations(self, *, executor: str | None = None) -> Iterator[Reservation]:
        """Yield the nodes that are kept free for sessions that waited for too long, or for which
        others make room."""
        return self._pages(Reservation, "/reservations/", {"executor": executor})

    def preemptions(
        self, *, executor: str | None = None, session: str | None = None
    ) -> Iterator[Preemption]:
        """Yield the sessions that made room for others, newest first; of an executor, or with one
        session on either side."""
        wanted = {"executor": executor, "session": session}
        return self._pages(Preemption, "/preemptions/", wanted)

    def executor_create(
        self,
        name: str,
        *,
        projects: Sequence[str] = (),
        unconfirmed_after: float | None = None,
        placement: str = "node",
        avoid_suspects: str = "off",
        auto_quarantine: bool = False,
        preemption: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> Executor:
        """Create an executor; its `token` is shown only in this answer. Raises a 409 if it exists.

        It serves only the `projects` (`domain/name`), or all if none are given. `placement` is
        `node` or `cluster`: who chooses the nodes of pods. `avoid_suspects` is `off`, `retries` or
        `all`; with `auto_quarantine` suspect nodes get no leases at all. `preemption` is `on`,
        `off`, `dry_run`, or "" for the setting: whether sessions make room for others. Rules choose
        executors by their `labels`.
        """
        body = {
            "name": name,
            "projects": list(projects),
            "unconfirmed_after": unconfirmed_after,
            "placement": placement,
            "avoid_suspects": avoid_suspects,
            "auto_quarantine": auto_quarantine,
            "preemption": preemption,
            "labels": dict(labels or {}),
        }
        return self._send(Executor, "POST", "/executors/", body)

    def executor_change(self, name: str, /, **fields: Any) -> Executor:
        """Change the given fields: `projects`, `unconfirmed_after`, `placement`, `avoid_suspects`,
        `auto_quarantine`, `preemption`, `labels`."""
        return self._send(Executor, "PATCH", _path(name), fields, idempotent=True)

    def executor_delete(self, name: str) -> None:
        """Delete it with its tokens. Raises a 409 while it holds leases."""
        self._transport.request("DELETE", _path(name), idempotent=True)

    def executor_cordon(self, name: str, reason: str) -> Executor:
        """Give it no new leases; present runs go on."""
        body = {"reason": reason}
        return self._send(Executor, "POST", f"{_path(name)}cordon/", body, idempotent=True)

    def executor_uncordon(self, name: str) -> Executor:
        return self._send(Executor, "POST", f"{_path(name)}uncordon/", {}, idempotent=True)

    def executor_drain(self, name: str, *, reason: str = "", force: bool = False) -> Drained:
        """Cordon it and preempt its runs; with `force` also those that are never retried."""
        body = {"reason": reason, "force": force}
        return self._send(Drained, "POST", f"{_path(name)}drain/", body, idempotent=True)

    def executor_token(self, name: str) -> ExecutorToken:
        """Create a new token, shown only in this answer. Older tokens of its agent end at once."""
        return self._send(ExecutorToken, "POST", f"{_path(name)}token/", {})


def _path(name: str) -> str:
    return f"/executors/{part(name)}/"
