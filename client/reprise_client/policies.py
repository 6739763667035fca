"""What decides about retries, as calls: policies, categories, queues, defaults and switches."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from reprise_client.calls import Calls, part
from reprise_client.models import (
    FailureCategory,
    NamedRetryPolicy,
    PolicyRevision,
    Queue,
    RetryDefaults,
    RetrySettings,
)


class PolicyCalls(Calls):
    """The calls by which a cluster, a domain or a project says what is retried.

    Where one takes `domain` and `project` (`domain/name`), leaving out both means the cluster.
    `if_match` is the `etag` of what was read: if somebody else has changed it since, a call is a
    412 and changes nothing.
    """

    # Named policies

    def retry_policies(
        self, *, domain: str | None = None, project: str | None = None, archived: bool = False
    ) -> Iterator[NamedRetryPolicy]:
        """Those of one scope, or without a scope all that one may see; or the archived ones."""
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
        """Makes a policy of a document; a 409 if it is there. As `retry_policy_apply` else."""
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
        """Makes a policy, or a new revision of it if it says something new.

        Without `domain` and `project` its scope is what the document says.
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
        """`deleted`, or `archived` while unfinished chains name it; a 409 tells what else does."""
        params = _scope(domain, project)
        answer = self._transport.request(
            "DELETE", _policy(name), params=params, idempotent=True, if_match=if_match
        )
        return str(answer.get("outcome", "deleted")) if isinstance(answer, dict) else "deleted"

    def retry_policy_revisions(
        self, name: str, *, domain: str | None = None, project: str | None = None
    ) -> Iterator[PolicyRevision]:
        """What it has said, newest first."""
        path = f"{_policy(name)}revisions/"
        return self._pages(PolicyRevision, path, _scope(domain, project))

    # Failure categories

    def failure_categories(self) -> Iterator[FailureCategory]:
        """All, in the order in which they are tried."""
        return self._pages(FailureCategory, "/failure-categories/", {})

    def failure_category(self, name: str) -> FailureCategory:
        return self._get(FailureCategory, _category(name))

    def failure_category_create(self, name: str, /, **fields: Any) -> FailureCategory:
        """Makes one; without a `position` it comes last. A 409 if it is there."""
        body = {"name": name, **fields}
        return self._send(FailureCategory, "POST", "/failure-categories/", body)

    def failure_category_apply(
        self, name: str, /, *, if_match: str = "", **fields: Any
    ) -> FailureCategory:
        """Makes a category or replaces it; without a `position` it stays where it is."""
        path = _category(name)
        return self._send(FailureCategory, "PUT", path, fields, idempotent=True, if_match=if_match)

    def failure_category_delete(self, name: str, *, if_match: str = "") -> None:
        self._transport.request("DELETE", _category(name), idempotent=True, if_match=if_match)

    # Queues

    def queues(self, *, project: str | None = None) -> Iterator[Queue]:
        """Those of a project (`domain/name`), or all that one may see."""
        return self._pages(Queue, "/queues/", {"project": project})

    def queue(self, address: str) -> Queue:
        """`address` is `domain/project/name`."""
        return self._get(Queue, _queue(address))

    def queue_create(self, project: str, name: str, /, **fields: Any) -> Queue:
        """Makes a queue of a project (`domain/name`); a 409 if it is there."""
        body = {"project": project, "name": name, **fields}
        return self._send(Queue, "POST", "/queues/", body)

    def queue_apply(self, address: str, /, *, if_match: str = "", **fields: Any) -> Queue:
        """Makes a queue, or replaces what can be changed of it."""
        path = _queue(address)
        return self._send(Queue, "PUT", path, fields, idempotent=True, if_match=if_match)

    def queue_delete(self, address: str, *, if_match: str = "") -> None:
        """Deletes a queue in which no session is recorded any more; else a 409."""
        self._transport.request("DELETE", _queue(address), idempotent=True, if_match=if_match)

    def queue_change(self, address: str, /, *, if_match: str = "", **fields: Any) -> Queue:
        """Changes what is named, such as `retry_policies`."""
        path = _queue(address)
        return self._send(Queue, "PATCH", path, fields, idempotent=True, if_match=if_match)

    def queue_cordon(self, address: str, reason: str) -> Queue:
        """Closes a queue: it takes sessions, but none of them gets an executor."""
        path = f"{_queue(address)}cordon/"
        return self._send(Queue, "POST", path, {"reason": reason}, idempotent=True)

    def queue_uncordon(self, address: str) -> Queue:
        return self._send(Queue, "POST", f"{_queue(address)}uncordon/", {}, idempotent=True)

    # Retry defaults and switches

    def retry_defaults(
        self, *, domain: str | None = None, project: str | None = None, effective: bool = False
    ) -> RetryDefaults:
        """The layer of a project (`domain/name`), of a domain, or else of the cluster.

        `effective` asks for the merge of all layers down to this one instead.
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
        """Replaces the whole layer."""
        body = {"policy": dict(policy), "bounds": dict(bounds or {})}
        path = _layer("retry-defaults", domain, project)
        return self._send(RetryDefaults, "PUT", path, body, idempotent=True, if_match=if_match)

    def retry_defaults_delete(
        self, *, domain: str | None = None, project: str | None = None, if_match: str = ""
    ) -> None:
        """Lets the layer inherit everything again."""
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
        """Changes what is named, such as `mode="paused"`; effective at once."""
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
