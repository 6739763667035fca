"""Requests for new chains, as values."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from retry.policies.inline import InlinePolicy, dump_set
from sessions_app.core.dependencies import Wanted
from sessions_app.models import Queue
from sessions_app.services.resources.policy_names import Asked

_OF_SHELLS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMED = 5


def names_warning(names: Iterable[str]) -> tuple[str, ...]:
    """Return a warning if shells would drop variables of these names."""
    odd = [name for name in names if not _OF_SHELLS.fullmatch(name)]
    if not odd:
        return ()
    more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
    why = "sh drops variables whose names have other characters than letters, digits and '_'"
    return (f"{why}: {', '.join(odd[:_NAMED])}{more}",)


@dataclass(frozen=True, slots=True)
class Submission:
    """A validated creation request; all but the policy is as it will be stored."""

    name: str
    job_set: str
    creation_id: str | None
    session_type: str
    priority: int
    retry_policy: InlinePolicy
    retry_policies: tuple[str, ...]
    """Named policies, in addition to those of the queue."""
    spec: dict[str, Any]
    """The fields of `SessionSpec`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that only the run gets to know."""
    schedule: str = ""
    """The address of the schedule that asks; it is told in the first event."""
    depends_on: tuple[Wanted, ...] = ()
    on_dependency_failure: str = "cancel"
    priority_class: str = ""
    """The name of its priority class; "" for the default one."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about requested settings that have no effect."""
        found = names_warning([*self.spec["environ"], *self.secrets])
        asked = self.retry_policy.model_fields_set or self.retry_policies
        if self.session_type == "batch" or not asked:
            return found
        no_effect = "the retry policy has no effect: only batch sessions are retried"
        return (*found, f"{no_effect}, and this one is {self.session_type}")

    def digest(self, queue: Queue) -> str:
        """Return the SHA-256 of the request, without the `creation_id` and the values of secrets.

        The hash of a secret would allow guesses to be verified.
        """
        asked = {
            "queue": queue.pk,
            "name": self.name,
            "job_set": self.job_set,
            "session_type": self.session_type,
            "priority": self.priority,
            "retry_policy": dump_set(self.retry_policy),
            "spec": self.spec,
        }
        if self.spec.get("queue_timeout") is None:
            # As before there was one.
            asked["spec"] = {k: v for k, v in self.spec.items() if k != "queue_timeout"}
        if self.retry_policies:
            # Only present if given, so that digests from before this field existed stay equal.
            asked["retry_policies"] = self.retry_policies
        if self.depends_on:
            asked["depends_on"] = self.depends_on
            asked["on_dependency_failure"] = self.on_dependency_failure
        if self.priority_class:
            asked["priority_class"] = self.priority_class
        if self.secrets:
            asked["secret_environ"] = sorted(self.secrets)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Placed:
    """A submission, its queue, and its future owner."""

    queue: Queue
    """The queue, which may come with its retry scope."""
    owner_id: int
    submission: Submission

    @property
    def project_id(self) -> int:
        return self.queue.project_id

    @property
    def asked(self) -> Asked:
        """Return what decides about the policies of its chain."""
        return Asked(self.project_id, self.queue.pk, self.submission.retry_policies)
