"""Each writing call of REST beside the mutation that does the same: what the tests go through."""

import re
from dataclasses import dataclass, field
from typing import Any

from graphene.utils.str_converters import to_camel_case

POLICY: dict[str, Any] = {
    "apiVersion": "reprise/v1",
    "kind": "RetryPolicy",
    "metadata": {"name": "quick"},
    "spec": {
        "retryLimit": 4,
        "rules": [
            {
                "name": "memory",
                "action": "Retry",
                "onConditions": ["OOMKilled"],
                "onExitCodes": {"operator": "In", "values": [137]},
                "resources": {"memory": {"factor": 2, "max": "8Gi"}},
            }
        ],
    },
}
SESSION = {
    "project": "acme/work",
    "image": "python:3",
    "job_set": "night",
    "environ": {"MY_VAR": "a"},
    "resources": {"requests": {"cpu": "1"}},
    "labels": {"my_label": "b"},
    "session_type": "batch",
    "batch_timeout": 60,
    "queue_timeout": 90,
    "retry_policy": {
        "max_retries": 2,
        "backoff": "exponential",
        "eligible_causes": ["oom_killed"],
        "retry_on_exit_codes": [3],
    },
}
MATCHERS = [
    {
        "onConditions": ["OOMKilled"],
        "onPodMessage": {"pattern": "cuda"},
        "onSignatureTitle": {"pattern": "cuda"},
    }
]
DEFAULTS = {"policy": {"max_retries": 3, "jitter": "none"}, "bounds": {"min_retry_delay": 5}}
HERE = {"project": "acme/work"}
QUEUE = {"project": "acme/work", "name": "one"}
_VERBATIM = {"environ", "resources", "labels", "resource_limits", "time_limits"}


def camel(value: Any) -> Any:
    """The body of a call with the names of GraphQL."""
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        to_camel_case(name): each if name in _VERBATIM else camel(each)
        for name, each in value.items()
    }


@dataclass
class Pair:
    """A writing call of REST and its mutation; `{name}` stands for an id of the test's world."""

    mutation: str
    method: str
    path: str
    body: dict[str, Any] | None = None
    about: dict[str, Any] = field(default_factory=dict)
    """What the mutation is told beyond the body, where REST has an address."""
    given: dict[str, Any] | None = None
    """The whole input, where it is not `about` and the body."""

    @property
    def input(self) -> dict[str, Any]:
        """Return the input of the mutation."""
        return self.about | camel(self.body or {}) if self.given is None else self.given


def _of(kind: str, mutations: str, body: dict[str, Any]) -> list[Pair]:
    path = f"{kind}/projects/acme/work/"
    return [
        Pair(f"update{mutations}", "PATCH", path, body, HERE),
        Pair(f"replace{mutations}", "PUT", path, body, HERE),
        Pair(f"delete{mutations}", "DELETE", path, None, HERE),
    ]


def _webhook(mutation: str, method: str, path: str, body: dict[str, Any] | None = None) -> Pair:
    return Pair(mutation, method, f"webhooks/{{webhook}}/{path}", body, {"id": "{webhook}"})


def _executor(mutation: str, method: str, path: str, body: dict[str, Any] | None = None) -> Pair:
    return Pair(mutation, method, f"executors/one/{path}", body, {"name": "one"})


def _node(mutation: str, name: str, path: str, body: dict[str, Any] | None = None) -> Pair:
    about = {"executor": "one", "name": name}
    return Pair(mutation, "POST", f"nodes/one/{name}/{path}", body, about)


def _schedule(mutation: str, method: str, path: str, body: dict[str, Any] | None = None) -> Pair:
    return Pair(mutation, method, f"schedules/{{schedule}}/{path}", body, {"id": "{schedule}"})


TEMPLATE = {"command": ["true"], "environ": {"MY_VAR": "a"}, "batch_timeout": 60}
SPAN = {"from": "2020-01-31T12:00:00Z", "to": "2020-01-31T13:00:00Z"}
PAIRS = [
    Pair(
        *("createSchedule", "POST", "schedules/"),
        {**HERE, "name": "new", "cron": "0 3 * * *", "template": TEMPLATE, "pause_after": 3},
    ),
    _schedule("replaceSchedule", "PUT", "", {"every": 3600, "template": TEMPLATE}),
    _schedule("updateSchedule", "PATCH", "", {"overlap": "skip", "paused": True}),
    _schedule("deleteSchedule", "DELETE", ""),
    _schedule("pauseSchedule", "POST", "pause/", {"reason": "because"}),
    Pair("resumeSchedule", "POST", "schedules/{resting}/resume/", None, {"id": "{resting}"}),
    _schedule("triggerSchedule", "POST", "trigger/"),
    _schedule("backfillSchedule", "POST", "backfill/", SPAN),
    Pair("createSession", "POST", "sessions/", SESSION),
    Pair("createSessions", "POST", "sessions/bulk/", {"sessions": [SESSION, HERE, SESSION]}),
    Pair(
        *("updateSession", "PATCH", "sessions/{waiting}/"),
        {"priority": -7},
        {"id": "{waiting}"},
    ),
    Pair("cancelSession", "POST", "sessions/{waiting}/cancel/", None, {"id": "{waiting}"}),
    Pair("giveUpSession", "POST", "sessions/{parked}/give-up/", None, {"id": "{parked}"}),
    Pair(
        *("preemptSession", "POST", "sessions/{running}/preempt/"),
        {"reason": "room"},
        {"id": "{running}"},
    ),
    Pair(
        *("retrySession", "POST", "sessions/{failed}/retry/"),
        {"resources": {"cpu": "2"}},
        {"id": "{failed}"},
    ),
    Pair("cancelSessions", "POST", "sessions/bulk-cancel/", {"filter": {"job_set": "night"}}),
    Pair(
        *("giveUpSessions", "POST", "sessions/bulk-give-up/"),
        {"filter": {"retry_state": "parked"}, "limit": 5},
    ),
    Pair(
        *("preemptSessions", "POST", "sessions/bulk-preempt/"),
        {"filter": {"status": "RUNNING"}, "reason": "room", "limit": 5},
    ),
    Pair(
        *("updateSessions", "POST", "sessions/bulk-update/"),
        {"filter": {"job_set": "night"}, "priority": 7},
    ),
    Pair(
        *("retrySessions", "POST", "sessions/bulk-retry/"),
        {"filter": {"job_set": "night", "exit_code": 1}, "limit": 5, "resources": {"cpu": "2"}},
    ),
    Pair("createRetryPolicy", "POST", "retry-policies/", POLICY, given={"document": POLICY}),
    Pair(
        *("applyRetryPolicy", "PUT", "retry-policies/quick/?project=acme/work", POLICY),
        given=HERE | {"name": "quick", "spec": POLICY["spec"]},
    ),
    Pair(
        *("deleteRetryPolicy", "DELETE", "retry-policies/named/?project=acme/work", None),
        HERE | {"name": "named"},
    ),
    *_of("retry-defaults", "RetryDefaults", DEFAULTS),
    *_of("retry-settings", "RetrySettings", {"mode": "paused"}),
    *_of("quotas", "Quotas", {"sessions": 3, "resources": {"nvidia.com/gpu": "4"}}),
    Pair(
        *("createFailureCategory", "POST", "failure-categories/"),
        {"name": "new", "matchers": MATCHERS},
    ),
    Pair(
        *("replaceFailureCategory", "PUT", "failure-categories/cuda/", {"matchers": MATCHERS}),
        {"name": "cuda"},
    ),
    Pair(
        *("updateFailureCategory", "PATCH", "failure-categories/cuda/", {"position": 7}),
        {"name": "cuda"},
    ),
    Pair(*("createPriorityClass", "POST", "priority-classes/"), {"name": "new", "value": 8}),
    Pair(
        *(
            "replacePriorityClass",
            "PUT",
            "priority-classes/one/",
            {"value": 7, "may_preempt": True},
        ),
        {"name": "one"},
    ),
    Pair(
        *("updatePriorityClass", "PATCH", "priority-classes/one/", {"preemptible": False}),
        {"name": "one"},
    ),
    Pair(*("deletePriorityClass", "DELETE", "priority-classes/one/", None), {"name": "one"}),
    Pair(*("deleteFailureCategory", "DELETE", "failure-categories/cuda/", None), {"name": "cuda"}),
    Pair(
        *("createQueue", "POST", "queues/"),
        {
            **HERE,
            "name": "new",
            "priority_factor": 2,
            "resource_limits": {"cpu": "4"},
            "time_limits": {"queue_timeout": {"max": 90}},
        },
    ),
    Pair(
        *("replaceQueue", "PUT", "queues/acme/work/one/"),
        {"is_default": True, "retry_policies": ["named"]},
        QUEUE,
    ),
    Pair("updateQueue", "PATCH", "queues/acme/work/one/", {"priority_factor": 2.5}, QUEUE),
    Pair("deleteQueue", "DELETE", "queues/acme/work/one/", None, QUEUE),
    Pair("cordonQueue", "POST", "queues/acme/work/one/cordon/", {"reason": "because"}, QUEUE),
    Pair(
        "uncordonQueue",
        "POST",
        "queues/acme/work/closed/uncordon/",
        None,
        QUEUE | {"name": "closed"},
    ),
    Pair("createDomain", "POST", "domains/", {"name": "new"}),
    Pair("deleteDomain", "DELETE", "domains/empty/", None, {"name": "empty"}),
    Pair("createProject", "POST", "projects/", {"domain": "acme", "name": "new"}),
    Pair("deleteProject", "DELETE", "projects/acme/unused/", None, {"project": "acme/unused"}),
    Pair(
        *("createMembership", "POST", "memberships/"),
        {**HERE, "user": "nobody", "role": "maintainer"},
    ),
    Pair(
        *("updateMembership", "PATCH", "memberships/{membership}/", {"role": "member"}),
        {"id": "{membership}"},
    ),
    Pair("deleteMembership", "DELETE", "memberships/{membership}/", None, {"id": "{membership}"}),
    Pair("createToken", "POST", "tokens/", {**HERE, "name": "ci", "read_only": True}),
    Pair(
        *("revokeToken", "DELETE", "tokens/{token}/?made_with=true", None),
        {"id": "{token}", "madeWith": True},
    ),
    Pair(
        *("updateFailure", "PATCH", "failures/one/?project=acme/work"),
        {"muted": True},
        {**HERE, "key": "one"},
    ),
    Pair(*("openBreaker", "POST", "breakers/"), {**HERE, "signature": "fedcba987654"}),
    Pair("closeBreaker", "POST", "breakers/{breaker}/close/", {"mute": True}, {"id": "{breaker}"}),
    Pair("muteBreaker", "POST", "breakers/{breaker}/mute/", None, {"id": "{breaker}"}),
    Pair("unmuteBreaker", "POST", "breakers/{muted}/unmute/", None, {"id": "{muted}"}),
    Pair(
        *("createWebhook", "POST", "webhooks/"),
        {**HERE, "url": "https://example.com/", "event_types": ["session.error"]},
    ),
    _webhook("updateWebhook", "PATCH", "", {"description": "new"}),
    _webhook("deleteWebhook", "DELETE", ""),
    _webhook("rotateWebhookSecret", "POST", "secret/", {"overlap": 60}),
    _webhook("pauseWebhook", "POST", "pause/", {"reason": "because"}),
    Pair("resumeWebhook", "POST", "webhooks/{paused}/resume/", None, {"id": "{paused}"}),
    _webhook("pingWebhook", "POST", "ping/"),
    _webhook("redeliverWebhook", "POST", "redeliver/", {"since": "2030-01-31T12:00:00Z"}),
    Pair("createExecutor", "POST", "executors/", {"projects": ["acme/work"], "name": "new"}),
    _executor("updateExecutor", "PATCH", "", {"unconfirmed_after": 60}),
    _executor("deleteExecutor", "DELETE", ""),
    _executor("cordonExecutor", "POST", "cordon/", {"reason": "because"}),
    Pair("uncordonExecutor", "POST", "executors/closed/uncordon/", None, {"name": "closed"}),
    _executor("drainExecutor", "POST", "drain/", {"reason": "because", "force": True}),
    _executor("renewExecutorToken", "POST", "token/"),
    _node("quarantineNode", "n1", "quarantine/", {"reason": "because"}),
    _node("releaseNode", "n2", "release/"),
]
NO_MUTATION = {
    "POST schedules/preview/": "changes nothing: the query `scheduleTimes`",
    "POST retry-policies/simulate/": "changes nothing: the query `simulateRetryPolicy`",
    "POST executors/<>/lease/": "the executors' wire",
    "POST executors/<>/reports/": "the executors' wire",
    "POST executors/<>/return/": "the executors' wire",
    "POST executors/<>/logs/": "the executors' wire",
}


def route_of(pattern: str) -> str:
    """A route of the resolver with its parameters left open."""
    return re.sub(r"<[^>]*>", "<>", pattern)
