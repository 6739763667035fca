"""The client of the REST API: one method for each call, with typed answers."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from reprise_client.answers import parsed
from reprise_client.audit import AuditCalls
from reprise_client.breakers import BreakerCalls
from reprise_client.calls import listed, part, present
from reprise_client.executors import ExecutorCalls
from reprise_client.failures import FailureCalls
from reprise_client.job_sets import JobSetCalls
from reprise_client.models import (
    Attempt,
    BulkChanges,
    BulkOutcome,
    Decision,
    DependencyGraph,
    Event,
    Session,
    Whoami,
)
from reprise_client.nodes import NodeCalls
from reprise_client.overviews import OverviewCalls
from reprise_client.policies import PolicyCalls
from reprise_client.quotas import QuotaCalls
from reprise_client.reports import ReportCalls
from reprise_client.retry_budgets import RetryBudgetCalls
from reprise_client.retry_policy import RetryPolicy, written_out
from reprise_client.schedules import ScheduleCalls
from reprise_client.simulations import SimulationCalls
from reprise_client.streams import EventReader, LogReader, to_the_end
from reprise_client.tenants import TenantCalls
from reprise_client.watching import watch
from reprise_client.webhooks import WebhookCalls


class Client(
    AuditCalls,
    ExecutorCalls,
    FailureCalls,
    NodeCalls,
    BreakerCalls,
    JobSetCalls,
    OverviewCalls,
    PolicyCalls,
    QuotaCalls,
    ReportCalls,
    RetryBudgetCalls,
    ScheduleCalls,
    SimulationCalls,
    TenantCalls,
    WebhookCalls,
):
    """Calls one server with one token; usable as a context manager.

    `url` is the server's origin, such as `http://127.0.0.1:8000`. `project` (`domain/name`) is the
    default project of new sessions and of lists of sessions.

    Every method raises `ServerUnreachable`, `ApiError` or `InvalidAnswer` (see `errors`).
    """

    def whoami(self) -> Whoami:
        return self._get(Whoami, "/whoami/")

    # Sessions

    def session_create(
        self, *, retry_policy: RetryPolicy | Mapping[str, Any] | None = None, **fields: Any
    ) -> Session:
        """Submit a session; `fields` are the other fields of the API's create body.

        This is safe to repeat. A `creation_id` is generated if none is given, and the server
        answers a second submission with the same one with the session that it already has.
        """
        own = {} if retry_policy is None else {"retry_policy": retry_policy}
        body = {"creation_id": str(uuid.uuid4()), **fields, **written_out(own)}
        if self.project is not None:
            body.setdefault("project", self.project)
        return self._send(Session, "POST", "/sessions/", body, idempotent=True)

    def sessions_create(self, bodies: Iterable[Mapping[str, Any]]) -> list[BulkOutcome]:
        """Submit up to 1,000 sessions in one call, and return an outcome for each, in order.

        A refused session does not stop the others. This is safe to repeat, like `session_create`.
        """
        own = {} if self.project is None else {"project": self.project}
        items = [{"creation_id": str(uuid.uuid4()), **own, **written_out(body)} for body in bodies]
        path = "/sessions/bulk/"
        answer = self._transport.request("POST", path, json={"sessions": items}, idempotent=True)
        results = answer.get("results") if isinstance(answer, dict) else None
        return [parsed(BulkOutcome, item, path) for item in listed(results, path)]

    def sessions(self, **filters: Any) -> Iterator[Session]:
        """Yield all sessions that match the filters; `page_size` is the size of a page.

        Without a `project` filter only the client's project is listed; `project=None` lists all.
        """
        if self.project is not None:
            filters.setdefault("project", self.project)
        return self._pages(Session, "/sessions/", filters)

    def session(self, session_id: str) -> Session:
        return self._get(Session, f"/sessions/{part(session_id)}/")

    def attempts(self, session_id: str) -> list[Attempt]:
        """Return all attempts of the session's chain, oldest first."""
        path = f"/sessions/{part(session_id)}/attempts/"
        answer = self._transport.request("GET", path)
        return [parsed(Attempt, item, path) for item in listed(answer, path)]

    def decision(self, session_id: str) -> Decision:
        """Return why this session's failure was or was not retried.

        Raises a 404 if nothing was decided.
        """
        return self._get(Decision, f"/sessions/{part(session_id)}/retry-decision/")

    def graph(self, session_id: str) -> DependencyGraph:
        """Return the chains that a session waits for, and those that wait for it."""
        return self._get(DependencyGraph, f"/sessions/{part(session_id)}/graph/")

    def set_priority(self, session_id: str, priority: int) -> Session:
        """Change the priority of a session that waits; its class stays. Safe to repeat.

        A higher one goes first; it is between -1,000,000 and 1,000,000. Raises a 409 if the session
        does not wait.
        """
        path = f"/sessions/{part(session_id)}/"
        return self._send(Session, "PATCH", path, {"priority": priority}, idempotent=True)

    def cancel(self, session_id: str) -> Session:
        """Cancel the whole chain. This is safe to repeat."""
        path = f"/sessions/{part(session_id)}/cancel/"
        return self._send(Session, "POST", path, {}, idempotent=True)

    def preempt(self, session_id: str, *, reason: str = "") -> Session:
        """Stop a run on its executor; its policies decide whether it is retried. Safe to repeat.

        A session that no executor has accepted yet goes back to its queue.
        """
        path = f"/sessions/{part(session_id)}/preempt/"
        return self._send(Session, "POST", path, {"reason": reason}, idempotent=True)

    def give_up(self, session_id: str) -> Session:
        """End a parked chain. Safe to repeat."""
        path = f"/sessions/{part(session_id)}/give-up/"
        return self._send(Session, "POST", path, {}, idempotent=True)

    def retry(
        self,
        session_id: str,
        *,
        resources: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
        reason: str = "",
        downstream: bool = False,
        dry_run: bool = False,
    ) -> Session:
        """Create the next attempt now, ignoring budgets, and return it.

        It gets the resources of this attempt, with the given ones replaced. `changes` may have
        `image`, `command`, `environ` (None removes a variable), `secret_environ`, `resources`,
        `priority`, `retry_policy`, `batch_timeout` and `pod_spec`; later attempts of the chain keep
        them. `secrets_dropped` of the answer names the secrets that the attempt does not get,
        because somebody else gave them.
        With `downstream` the sessions that ended as `dependency_failed` because of this one are
        retried, too; `downstream` of the answer has their new attempts. A `dry_run` changes
        nothing: it returns this session, and in `downstream` those that would be retried.
        """
        body = _another(resources, changes, reason)
        body |= {"downstream": True} if downstream else {}
        body |= {"dry_run": True} if dry_run else {}
        return self._send(Session, "POST", f"/sessions/{part(session_id)}/retry/", body)

    def sessions_cancel_bulk(
        self,
        filters: Mapping[str, Any],
        *,
        dry_run: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> BulkChanges:
        """Cancel the chains whose newest attempts match the filters, which are those of `sessions`.

        One call cancels up to 1,000 or `limit`; `after` continues where the previous page ended. A
        dry run says what would happen and changes nothing.
        """
        body = self._bulk(filters, dry_run=dry_run, limit=limit, after=after)
        return self._send(BulkChanges, "POST", "/sessions/bulk-cancel/", body, idempotent=True)

    def sessions_retry_bulk(
        self,
        filters: Mapping[str, Any],
        *,
        resources: Mapping[str, Any] | None = None,
        changes: Mapping[str, Any] | None = None,
        reason: str = "",
        downstream: bool = False,
        dry_run: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> BulkChanges:
        """Retry the newest attempts that match the filters, within the limits of retries per
        minute.

        Otherwise it works like `retry`, page by page like `sessions_cancel_bulk`. `downstream` of
        the answer has what does not match itself.
        """
        body = self._bulk(filters, dry_run=dry_run, limit=limit, after=after)
        body |= _another(resources, changes, reason)
        body |= {"downstream": True} if downstream else {}
        path = "/sessions/bulk-retry/"
        return self._send(BulkChanges, "POST", path, body, idempotent=dry_run)

    def sessions_give_up_bulk(
        self,
        filters: Mapping[str, Any],
        *,
        dry_run: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> BulkChanges:
        """End the parked chains whose newest attempts match the filters.

        Others are refused, also those that ended before. Otherwise it works like `give_up`, page by
        page like `sessions_cancel_bulk`. A call without an answer is not sent again: the second one
        would refuse what the first one gave up.
        """
        body = self._bulk(filters, dry_run=dry_run, limit=limit, after=after)
        path = "/sessions/bulk-give-up/"
        return self._send(BulkChanges, "POST", path, body, idempotent=dry_run)

    def sessions_preempt_bulk(
        self,
        filters: Mapping[str, Any],
        *,
        reason: str = "",
        dry_run: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> BulkChanges:
        """Preempt the newest attempts that match the filters and run.

        Otherwise it works like `preempt`, page by page like `sessions_cancel_bulk`. A call without
        an answer is not sent again: newer attempts may run by then.
        """
        body = self._bulk(filters, dry_run=dry_run, limit=limit, after=after)
        body["reason"] = reason
        path = "/sessions/bulk-preempt/"
        return self._send(BulkChanges, "POST", path, body, idempotent=dry_run)

    def sessions_set_priority_bulk(
        self,
        filters: Mapping[str, Any],
        priority: int,
        *,
        dry_run: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> BulkChanges:
        """Change the priority of the newest attempts that match the filters and wait.

        Otherwise it works like `set_priority`, page by page like `sessions_cancel_bulk`.
        """
        body = self._bulk(filters, dry_run=dry_run, limit=limit, after=after)
        body["priority"] = priority
        return self._send(BulkChanges, "POST", "/sessions/bulk-update/", body, idempotent=True)

    def _bulk(self, filters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        own = {} if self.project is None else {"project": self.project}
        return {"filter": present({**own, **filters}), **present(more)}

    def watch(
        self, session_id: str, *, chain: bool = True, timeout: float | None = None
    ) -> Iterator[Session]:
        """Yield the session on every change; with `chain` also its later attempts."""
        return watch(self.session, session_id, chain=chain, timeout=timeout)

    def wait(
        self,
        session_id: str,
        *,
        chain: bool = True,
        timeout: float | None = None,
        on_change: Callable[[Session], None] | None = None,
    ) -> Session:
        """Wait until the last attempt has ended and no retry waits, and return that attempt.

        With `chain=False` wait for this session only. `on_change` is called with every new state on
        the way. Raises `WaitTimeout` after `timeout` seconds.
        """
        session: Session | None = None
        for session in self.watch(session_id, chain=chain, timeout=timeout):
            if on_change is not None:
                on_change(session)
        assert session is not None  # noqa: S101  # a watch that ends has yielded a final state
        return session

    # Logs and events

    def logs(self, session_id: str, *, offset: int | None = None, tail: int | None = None) -> bytes:
        """Return the present log from byte `offset`, or its last `tail` lines."""
        params = present({"offset": offset, "tail": tail})
        path = f"/sessions/{part(session_id)}/logs/"
        with self._transport.stream(path, params=params) as response:
            return response.read()

    def follow_logs(
        self, session_id: str, *, offset: int = 0, tail: int | None = None
    ) -> Iterator[str]:
        """Yield the log as text while it grows, to its end. Cut connections are resumed."""
        reader = LogReader(self._transport, part(session_id), offset=offset, tail=tail)
        yield from to_the_end(lambda: self.session(session_id).final, reader.stream)
        if rest := reader.rest():
            yield rest

    def events(self, session_id: str, *, after: str | int | None = None) -> Iterator[Event]:
        """Yield the events recorded so far, oldest first; with `after` only those after that
        event."""
        return self._pages(Event, f"/sessions/{part(session_id)}/events/", {"after": after})

    def follow_events(self, session_id: str, *, after: str | int | None = None) -> Iterator[Event]:
        """Yield the events as they happen, until the server ends the stream of a final session."""
        path = f"/sessions/{part(session_id)}/events/"
        reader = EventReader(self._transport, path, after=after)
        return to_the_end(lambda: self.session(session_id).final, reader.stream)


def _another(
    resources: Mapping[str, Any] | None, changes: Mapping[str, Any] | None, reason: str
) -> dict[str, Any]:
    """Return what a body says about another attempt."""
    body = {"resources": dict(resources or {}), "changes": dict(changes or {}), "reason": reason}
    return {name: value for name, value in body.items() if value}
