"""The registry of executors, as calls; they are for cluster admins."""

from collections.abc import Iterator, Sequence
from typing import Any

from reprise_client.calls import Calls, part
from reprise_client.models import Drained, Executor, ExecutorLease, ExecutorToken


class ExecutorCalls(Calls):
    """The calls by which executors are made, looked at, closed and deleted."""

    def executors(self, **filters: Any) -> Iterator[Executor]:
        """All by name, without their nodes; `filters` are `cordoned`, `health` and `driver`."""
        return self._pages(Executor, "/executors/", filters)

    def executor(self, name: str) -> Executor:
        """One with its nodes."""
        return self._get(Executor, _path(name))

    def executor_leases(self, name: str) -> Iterator[ExecutorLease]:
        """What it holds, the oldest lease first."""
        return self._pages(ExecutorLease, f"{_path(name)}leases/", {})

    def executor_create(
        self,
        name: str,
        *,
        projects: Sequence[str] = (),
        unconfirmed_after: float | None = None,
    ) -> Executor:
        """Makes an executor, whose `token` is told this once; a 409 if it is there.

        It serves only the `projects` (`domain/name`), or all if none are given.
        """
        body = {
            "name": name,
            "projects": list(projects),
            "unconfirmed_after": unconfirmed_after,
        }
        return self._send(Executor, "POST", "/executors/", body)

    def executor_change(self, name: str, /, **fields: Any) -> Executor:
        """Changes what is named: `projects`, `unconfirmed_after`."""
        return self._send(Executor, "PATCH", _path(name), fields, idempotent=True)

    def executor_delete(self, name: str) -> None:
        """Deletes it with its tokens; a 409 while it holds leases."""
        self._transport.request("DELETE", _path(name), idempotent=True)

    def executor_cordon(self, name: str, reason: str) -> Executor:
        """Gives it no new leases; what runs goes on."""
        body = {"reason": reason}
        return self._send(Executor, "POST", f"{_path(name)}cordon/", body, idempotent=True)

    def executor_uncordon(self, name: str) -> Executor:
        return self._send(Executor, "POST", f"{_path(name)}uncordon/", {}, idempotent=True)

    def executor_drain(self, name: str, *, reason: str = "", force: bool = False) -> Drained:
        """Closes it and preempts what runs there; with `force` also what is never retried."""
        body = {"reason": reason, "force": force}
        return self._send(Drained, "POST", f"{_path(name)}drain/", body, idempotent=True)

    def executor_token(self, name: str) -> ExecutorToken:
        """Makes a new token, told this once; its agent's older ones are refused from now on."""
        return self._send(ExecutorToken, "POST", f"{_path(name)}token/", {})


def _path(name: str) -> str:
    return f"/executors/{part(name)}/"
