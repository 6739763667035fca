"""The configuration of retries, as calls: policies, categories, queues, defaults and switches."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from reprise_client.calls import Calls, part
from reprise_client.models import (
    FailureCategory,
    NamedRetryPolicy,
    PolicyRevision,
    PriorityClass,
    Queue,
    RetryDefaults,
    RetrySettings,
)


class PolicyCalls(Calls):
    """The calls that configure retries in a cluster, a domain or a project.

    Calls with `domain` and `project` (`domain/name`) apply to the cluster if both are left out.
    `if_match` is the `etag` of what was read: if somebody else has changed it since, the call
    raises a 412 and changes nothing.
    """

    # Named policies

    def retry_policies(
        self, *, domain: str | None = None, project: str | None = None, archived: bool = False
    ) -> Iterator[NamedRetryPolicy]:
        """Yield the policies of one scope, or all that the user may see; or the archived ones."""
        filters = {**_scope(domain, project), "archived": "true" if archived else None}
        return self._pages(NamedRetryPolicy, "/retry-policies/", filters)

    def retry_policy(
        self, name: str, *, domain: str | None = None, project: str | None = None
    ) -> NamedRetryPolicy:
        return self._get(NamedRetryPolicy, _policy(name), _scope(domain, project))

    def retry_policy_create(
        self,
        document: Mapping[str, Any],
        *,
        domain: str | None = None,
        project: str | None = None,
    ) -> NamedRetryPolicy:
        """Create a policy from a document; a 409 if it exists.

        Otherwise like `retry_policy_apply`.
        """
        params = _scope(domain, project)
        return self._send(NamedRetryPolicy, "POST", "/retry-policies/", document, params=params)

    def retry_policy_apply(
        self,
        document: Mapping[str, Any],
        *,
        domain: str | None = None,
        project: str | None = None,
        if_match: str = "",
    ) -> NamedRetryPolicy:
        """Create a policy, or a new revision of it if the document differs.

        Without `domain` and `project` the document names the scope.
        """
        path = _policy(str(document["metadata"]["name"]))
        params = _scope(domain, project)
        return self._send(
            NamedRetryPolicy,
            "PUT",
            path,
            document,
            params=params,
            idempotent=True,
            if_match=if_match,
        )

    def retry_policy_delete(
        self,
        name: str,
        *,
        domain: str | None = None,
        project: str | None = None,
        if_match: str = "",
    ) -> str:
        """Return `deleted`, or `archived` while unfinished chains use it.

        A 409 names other uses.
        """
        params = _scope(domain, project)
        answer = self._transport.request(
            "DELETE", _policy(name), params=params, idempotent=True, if_match=if_match
        )
        return str(answer.get("outcome", "deleted")) if isinstance(answer, dict) else "deleted"

    def retry_policy_revisions(
        self, name: str, *, domain: str | None = None, project: str | None = None
    ) -> Iterator[PolicyRevision]:
        """Yield its revisions, newest first."""
        path = f"{_policy(name)}revisions/"
        return self._pages(PolicyRevision, path, _scope(domain, project))

    # Failure categories

    def failure_categories(self) -> Iterator[FailureCategory]:
        """Yield all categories, in the order in which they are tried."""
        return self._pages(FailureCategory, "/failure-categories/", {})

    def failure_category(self, name: str) -> FailureCategory:
        return self._get(FailureCategory, _category(name))

    def failure_category_create(self, name: str, /, **fields: Any) -> FailureCategory:
        """Create a category, at the end if there is no `position`. Raises a 409 if it exists."""
        body = {"name": name, **fields}
        return self._send(FailureCategory, "POST", "/failure-categories/", body)

    def failure_category_apply(
        self, name: str, /, *, if_match: str = "", **fields: Any
    ) -> FailureCategory:
        """Create or replace a category; without a `position` an existing one keeps its own."""
        path = _category(name)
        return self._send(FailureCategory, "PUT", path, fields, idempotent=True, if_match=if_match)

    def failure_category_delete(self, name: str, *, if_match: str = "") -> None:
        self._transport.request("DELETE", _category(name), idempotent=True, if_match=if_match)

    # Priority classes

    def priority_classes(self) -> Iterator[PriorityClass]:
        """Yield all priority classes, lowest value first."""
        return self._pages(PriorityClass, "/priority-classes/", {})

    def priority_class(self, name: str) -> PriorityClass:
        return self._get(PriorityClass, _priority_class(name))

    def priority_class_create(self, name: str, value: int, /, **fields: Any) -> PriorityClass:
        """Create a class. Raises a 409 if its name or its value is taken."""
        body = {"name": name, "value": value, **fields}
        return self._send(PriorityClass, "POST", "/priority-classes/", body)

    def priority_class_apply(
        self, name: str, value: int, /, *, if_match: str = "", **fields: Any
    ) -> PriorityClass:
        """Create or replace a class. Its value never changes."""
        path, body = _priority_class(name), {"value": value, **fields}
        return self._send(PriorityClass, "PUT", path, body, idempotent=True, if_match=if_match)

    def priority_class_delete(self, name: str, *, if_match: str = "") -> None:
        """Delete a class. Raises a 409 while sessions of it wait or run."""
        path = _priority_class(name)
        self._transport.request("DELETE", path, idempotent=True, if_match=if_match)

    # Queues

    def queues(self, *, project: str | None = None) -> Iterator[Queue]:
        """Yield the queues of a project (`domain/name`), or all that the user may see."""
        return self._pages(Queue, "/queues/", {"project": project})

    def queue(self, address: str) -> Queue:
        """Return the queue at `address` (`domain/project/name`)."""
        return self._get(Queue, _queue(address))

    def queue_create(self, project: str, name: str, /, **fields: Any) -> Queue:
        """Create a queue of a project (`domain/name`). Raises a 409 if it exists."""
        body = {"project": project, "name": name, **fields}
        return self._send(Queue, "POST", "/queues/", body)

    def queue_apply(self, address: str, /, *, if_match: str = "", **fields: Any) -> Queue:
        """Create a queue, or replace all its fields that can change."""
        path = _queue(address)
        return self._send(Queue, "PUT", path, fields, idempotent=True, if_match=if_match)

    def queue_delete(self, address: str, *, if_match: str = "") -> None:
        """Delete a queue without recorded sessions. Raises a 409 for others."""
        self._transport.request("DELETE", _queue(address), idempotent=True, if_match=if_match)

    def queue_change(self, address: str, /, *, if_match: str = "", **fields: Any) -> Queue:
        """Change the given fields, such as `retry_policies`."""
        path = _queue(address)
        return self._send(Queue, "PATCH", path, fields, idempotent=True, if_match=if_match)

    def queue_cordon(self, address: str, reason: str) -> Queue:
        """Cordon a queue: it takes sessions, but none of them gets an executor."""
        path = f"{_queue(address)}cordon/"
        return self._send(Queue, "POST", path, {"reason": reason}, idempotent=True)

    def queue_uncordon(self, address: str) -> Queue:
        return self._send(Queue, "POST", f"{_queue(address)}uncordon/", {}, idempotent=True)

    # Retry defaults and switches

    def retry_defaults(
        self, *, domain: str | None = None, project: str | None = None, effective: bool = False
    ) -> RetryDefaults:
        """Return the layer of a project (`domain/name`), of a domain, or of the cluster.

        With `effective` return the merge of all layers down to this one as well.
        """
        path = _layer("retry-defaults", domain, project)
        return self._get(RetryDefaults, path, {"effective": "true"} if effective else None)

    def retry_defaults_put(
        self,
        *,
        policy: Mapping[str, Any],
        bounds: Mapping[str, Any] | None = None,
        domain: str | None = None,
        project: str | None = None,
        if_match: str = "",
    ) -> RetryDefaults:
        """Replace the whole layer."""
        body = {"policy": dict(policy), "bounds": dict(bounds or {})}
        path = _layer("retry-defaults", domain, project)
        return self._send(RetryDefaults, "PUT", path, body, idempotent=True, if_match=if_match)

    def retry_defaults_delete(
        self, *, domain: str | None = None, project: str | None = None, if_match: str = ""
    ) -> None:
        """Delete the layer, so that it inherits everything again."""
        path = _layer("retry-defaults", domain, project)
        self._transport.request("DELETE", path, idempotent=True, if_match=if_match)

    def retry_settings(
        self, *, domain: str | None = None, project: str | None = None
    ) -> RetrySettings:
        return self._get(RetrySettings, _layer("retry-settings", domain, project))

    def retry_settings_update(
        self,
        *,
        domain: str | None = None,
        project: str | None = None,
        if_match: str = "",
        **changes: Any,
    ) -> RetrySettings:
        """Change the given fields, such as `mode="paused"`; effective at once."""
        path = _layer("retry-settings", domain, project)
        return self._send(RetrySettings, "PATCH", path, changes, idempotent=True, if_match=if_match)


def _scope(domain: str | None, project: str | None) -> dict[str, str]:
    if project is not None:
        return {"project": project}
    return {} if domain is None else {"domain": domain}


def _policy(name: str) -> str:
    return f"/retry-policies/{part(name)}/"


def _category(name: str) -> str:
    return f"/failure-categories/{part(name)}/"


def _queue(address: str) -> str:
    return f"/queues/{quote(address, safe='/')}/"


def _layer(root: str, domain: str | None, project: str | None) -> str:
    if project is not None:
        return f"/{root}/projects/{quote(project, safe='/')}/"
    return f"/{root}/domains/{part(domain)}/" if domain is not None else f"/{root}/cluster/"


def _priority_class(name: str) -> str:
    return f"/priority-classes/{part(name)}/"
