"""The table of permissions over GraphQL: each field of the roots, and the call of REST that it
mirrors."""

from typing import Any

from tests.integration.authorization_table import (
    BREAKER,
    CATEGORY,
    DOMAIN,
    EXECUTOR,
    FAILURE,
    JOB_SET_EVENTS,
    MEMBERSHIP,
    NODE,
    POLICY,
    PRIORITY_CLASS,
    PROJECT,
    QUEUE,
    SCHEDULE,
    SESSION,
    TOKEN,
    WEBHOOK,
)
from tests.people import MATCHERS

Row = tuple[str, str]
WORK = 'project: "acme/work"'
_PAGE = "{ edges { cursor } }"
QUERIES: dict[str, tuple[str, Row]] = {
    "viewer": ("viewer { username }", ("GET", "whoami/")),
    "node": ('node(id: "{session_gid}") { id }', ("GET", SESSION)),
    "session": ('session(id: "{session}") { name status environ }', ("GET", SESSION)),
    "sessions": (f"sessions {_PAGE}", ("GET", "sessions/")),
    "jobSet": (f'jobSet(name: "one", {WORK}) {{ name }}', ("GET", f"{JOB_SET_EVENTS} in project")),
    "jobSets": (f"jobSets {_PAGE}", ("GET", "job-sets/")),
    "failure": (f'failure(key: "one", {WORK}) {{ key }}', ("GET", f"{FAILURE} in project")),
    "failures": (f"failures {_PAGE}", ("GET", "failures/")),
    "breaker": ('breaker(id: "{breaker}") { signature }', ("GET", BREAKER)),
    "breakers": (f"breakers {_PAGE}", ("GET", "breakers/")),
    "breakerEvents": (
        'breakerEvents(id: "{breaker}") { pageInfo { hasNextPage } }',
        ("GET", f"{BREAKER}events/"),
    ),
    "retryBudgets": (f"retryBudgets {_PAGE}", ("GET", "retry-budgets/")),
    "retryReport": ("retryReport { total { chains } }", ("GET", "reports/retries/")),
    "audit": (f"audit {_PAGE}", ("GET", "audit/")),
    "overview": ("overview { live }", ("GET", "overview/")),
    "operations": ("operations { problems { kind } }", ("GET", "operations/")),
    "operationsTrends": ("operationsTrends { hours { failed } }", ("GET", "operations/trends/")),
    "domain": ('domain(name: "acme") { name createdAt }', ("GET", DOMAIN)),
    "domains": (f"domains {_PAGE}", ("GET", "domains/")),
    "project": ('project(address: "acme/work") { name createdAt }', ("GET", PROJECT)),
    "projects": (f"projects {_PAGE}", ("GET", "projects/")),
    "memberships": (f"memberships {_PAGE}", ("GET", "memberships/")),
    "tokens": (f"tokens {_PAGE}", ("GET", "tokens/")),
    "quotas": (f"quotas({WORK}) {{ scope }}", ("GET", f"quotas/{PROJECT}")),
    "executor": ('executor(name: "one") { name }', ("GET", EXECUTOR)),
    "reservations": (f"reservations {_PAGE}", ("GET", "reservations/")),
    "executors": (f"executors {_PAGE}", ("GET", "executors/")),
    "clusterNode": ('clusterNode(executor: "one", name: "one") { name state }', ("GET", NODE)),
    "clusterNodes": (f"clusterNodes {_PAGE}", ("GET", "nodes/")),
    "queue": (f'queue({WORK}, name: "one") {{ name cordonReason }}', ("GET", QUEUE)),
    "queues": (f"queues {_PAGE}", ("GET", "queues/")),
    "schedule": ('schedule(id: "{schedule}") { name template }', ("GET", SCHEDULE)),
    "schedules": (f"schedules {_PAGE}", ("GET", "schedules/")),
    "scheduleTimes": ('scheduleTimes(cron: "@daily") { times }', ("POST", "schedules/preview/")),
    "webhook": ('webhook(id: "{webhook}") { url }', ("GET", WEBHOOK)),
    "webhooks": (f"webhooks {_PAGE}", ("GET", "webhooks/")),
    "retryPolicy": ('retryPolicy(name: "one") { name }', ("GET", POLICY)),
    "retryPolicies": (f"retryPolicies {_PAGE}", ("GET", "retry-policies/")),
    "retryDefaults": (f"retryDefaults({WORK}) {{ scope }}", ("GET", f"retry-defaults/{PROJECT}")),
    "retrySettings": (f"retrySettings({WORK}) {{ scope }}", ("GET", f"retry-settings/{PROJECT}")),
    "failureCategory": ('failureCategory(name: "one") { name }', ("GET", CATEGORY)),
    "priorityClass": ('priorityClass(name: "one") { name }', ("GET", PRIORITY_CLASS)),
    "priorityClasses": (f"priorityClasses {_PAGE}", ("GET", "priority-classes/")),
    "preemptions": (f"preemptions {_PAGE}", ("GET", "preemptions/")),
    "failureCategories": (f"failureCategories {_PAGE}", ("GET", "failure-categories/")),
    "simulateRetryPolicy": (
        "simulateRetryPolicy(chains: [{terminations: [{exit_code: 1}]}]) { summary { chains } }",
        ("POST", "retry-policies/simulate/"),
    ),
}
"""Root field -> how it is asked for in `acme/work`, and the call of REST of which it is one."""

_WORK = {"project": "acme/work"}
_QUEUE = {**_WORK, "name": "one"}
_SESSION = {"id": "{session}"}
_SCHEDULE = {"id": "{schedule}"}
_TEMPLATE = {"template": {"command": ["true"]}}
_WEBHOOK = {"id": "{webhook}"}
_ONE = {"name": "one"}
_MATCHERS = [{"onConditions": MATCHERS[0]["onConditions"]}]
_DEFAULTS, _SETTINGS, _QUOTAS = (
    f"{kind}/{PROJECT}" for kind in ("retry-defaults", "retry-settings", "quotas")
)
MUTATIONS: dict[str, tuple[dict[str, Any], Row]] = {
    "createSession": ({**_WORK, "command": ["true"]}, ("POST", "sessions/")),
    "createSessions": (
        {"sessions": [{**_WORK, "command": ["true"]}]},
        ("POST", "sessions/bulk/"),
    ),
    "updateSession": ({**_SESSION, "priority": 5}, ("PATCH", SESSION)),
    "cancelSession": (_SESSION, ("POST", f"{SESSION}cancel/")),
    "giveUpSession": (_SESSION, ("POST", f"{SESSION}give-up/")),
    "preemptSession": (_SESSION, ("POST", f"{SESSION}preempt/")),
    "retrySession": (_SESSION, ("POST", f"{SESSION}retry/")),
    "cancelSessions": ({"filter": {}}, ("POST", "sessions/bulk-cancel/")),
    "giveUpSessions": ({"filter": {}}, ("POST", "sessions/bulk-give-up/")),
    "preemptSessions": ({"filter": {}}, ("POST", "sessions/bulk-preempt/")),
    "retrySessions": ({"filter": {}}, ("POST", "sessions/bulk-retry/")),
    "updateSessions": ({"filter": {}, "priority": 5}, ("POST", "sessions/bulk-update/")),
    "updateFailure": (
        {**_WORK, "key": "one", "muted": True},
        ("PATCH", f"{FAILURE} in project"),
    ),
    "createSchedule": (
        {**_WORK, **_TEMPLATE, "name": "new", "every": 60},
        ("POST", "schedules/"),
    ),
    "replaceSchedule": ({**_SCHEDULE, **_TEMPLATE, "every": 60}, ("PUT", SCHEDULE)),
    "updateSchedule": ({**_SCHEDULE, "every": 60}, ("PATCH", SCHEDULE)),
    "deleteSchedule": (_SCHEDULE, ("DELETE", SCHEDULE)),
    "pauseSchedule": (_SCHEDULE, ("POST", f"{SCHEDULE}pause/")),
    "resumeSchedule": (_SCHEDULE, ("POST", f"{SCHEDULE}resume/")),
    "triggerSchedule": (_SCHEDULE, ("POST", f"{SCHEDULE}trigger/")),
    "backfillSchedule": (
        {**_SCHEDULE, "from": "2020-01-31T12:00:00Z", "to": "2020-01-31T12:00:00Z"},
        ("POST", f"{SCHEDULE}backfill/"),
    ),
    "createWebhook": ({**_WORK, "url": "https://example.com/"}, ("POST", "webhooks/")),
    "updateWebhook": ({**_WEBHOOK, "description": "because"}, ("PATCH", WEBHOOK)),
    "deleteWebhook": (_WEBHOOK, ("DELETE", WEBHOOK)),
    "rotateWebhookSecret": (_WEBHOOK, ("POST", f"{WEBHOOK}secret/")),
    "pauseWebhook": ({**_WEBHOOK, "reason": "because"}, ("POST", f"{WEBHOOK}pause/")),
    "resumeWebhook": (_WEBHOOK, ("POST", f"{WEBHOOK}resume/")),
    "pingWebhook": (_WEBHOOK, ("POST", f"{WEBHOOK}ping/")),
    "redeliverWebhook": (
        {**_WEBHOOK, "since": "2030-01-31T12:00:00Z"},
        ("POST", f"{WEBHOOK}redeliver/"),
    ),
    "openBreaker": ({"signature": "fedcba987654"}, ("POST", "breakers/")),
    "closeBreaker": ({"id": "{breaker}"}, ("POST", f"{BREAKER}close/")),
    "muteBreaker": ({"id": "{breaker}"}, ("POST", f"{BREAKER}mute/")),
    "unmuteBreaker": ({"id": "{breaker}"}, ("POST", f"{BREAKER}unmute/")),
    "createToken": ({"name": "new"}, ("POST", "tokens/")),
    "revokeToken": ({"id": "{prefix}"}, ("DELETE", TOKEN)),
    "createMembership": (
        {**_WORK, "user": "nobody", "role": "MEMBER"},
        ("POST", "memberships/"),
    ),
    "updateMembership": ({"id": "{membership}", "role": "MAINTAINER"}, ("PATCH", MEMBERSHIP)),
    "deleteMembership": ({"id": "{membership}"}, ("DELETE", MEMBERSHIP)),
    "createDomain": ({"name": "new"}, ("POST", "domains/")),
    "deleteDomain": ({"name": "acme"}, ("DELETE", DOMAIN)),
    "createProject": ({"domain": "acme", "name": "new"}, ("POST", "projects/")),
    "deleteProject": (_WORK, ("DELETE", PROJECT)),
    "updateQuotas": ({**_WORK, "sessions": 3}, ("PATCH", _QUOTAS)),
    "replaceQuotas": ({**_WORK, "sessions": 3}, ("PUT", _QUOTAS)),
    "deleteQuotas": (_WORK, ("DELETE", _QUOTAS)),
    "createQueue": ({**_WORK, "name": "new"}, ("POST", "queues/")),
    "replaceQueue": ({**_QUEUE, "priorityFactor": 2.0}, ("PUT", QUEUE)),
    "updateQueue": ({**_QUEUE, "priorityFactor": 2.0}, ("PATCH", QUEUE)),
    "deleteQueue": (_QUEUE, ("DELETE", QUEUE)),
    "cordonQueue": ({**_QUEUE, "reason": "because"}, ("POST", f"{QUEUE}cordon/")),
    "uncordonQueue": (_QUEUE, ("POST", f"{QUEUE}uncordon/")),
    "createFailureCategory": (
        {"name": "new", "matchers": _MATCHERS},
        ("POST", "failure-categories/"),
    ),
    "replaceFailureCategory": ({**_ONE, "matchers": _MATCHERS}, ("PUT", CATEGORY)),
    "updateFailureCategory": ({**_ONE, "position": 3}, ("PATCH", CATEGORY)),
    "createPriorityClass": ({"name": "new", "value": 8}, ("POST", "priority-classes/")),
    "replacePriorityClass": ({**_ONE, "value": 7}, ("PUT", PRIORITY_CLASS)),
    "updatePriorityClass": ({**_ONE, "preemptible": False}, ("PATCH", PRIORITY_CLASS)),
    "deletePriorityClass": (_ONE, ("DELETE", PRIORITY_CLASS)),
    "deleteFailureCategory": (_ONE, ("DELETE", CATEGORY)),
    "updateRetryDefaults": ({**_WORK, "policy": {"maxRetries": 1}}, ("PATCH", _DEFAULTS)),
    "replaceRetryDefaults": ({**_WORK, "policy": {"maxRetries": 1}}, ("PUT", _DEFAULTS)),
    "deleteRetryDefaults": (_WORK, ("DELETE", _DEFAULTS)),
    "updateRetrySettings": ({**_WORK, "mode": "PAUSED"}, ("PATCH", _SETTINGS)),
    "replaceRetrySettings": ({**_WORK, "mode": "PAUSED"}, ("PUT", _SETTINGS)),
    "deleteRetrySettings": (_WORK, ("DELETE", _SETTINGS)),
    "createRetryPolicy": ({"name": "new", "spec": {}}, ("POST", "retry-policies/")),
    "applyRetryPolicy": ({"name": "one", "spec": {"retryLimit": 7}}, ("PUT", POLICY)),
    "deleteRetryPolicy": (_ONE, ("DELETE", POLICY)),
    "createExecutor": ({"name": "new"}, ("POST", "executors/")),
    "updateExecutor": ({**_ONE, "unconfirmedAfter": 60}, ("PATCH", EXECUTOR)),
    "deleteExecutor": (_ONE, ("DELETE", EXECUTOR)),
    "cordonExecutor": ({**_ONE, "reason": "because"}, ("POST", f"{EXECUTOR}cordon/")),
    "uncordonExecutor": (_ONE, ("POST", f"{EXECUTOR}uncordon/")),
    "drainExecutor": (_ONE, ("POST", f"{EXECUTOR}drain/")),
    "renewExecutorToken": (_ONE, ("POST", f"{EXECUTOR}token/")),
    "quarantineNode": (
        {**_ONE, "executor": "one", "reason": "because"},
        ("POST", f"{NODE}quarantine/"),
    ),
    "releaseNode": ({**_ONE, "executor": "one"}, ("POST", f"{NODE}release/")),
}
"""Mutation -> its input, and the call of REST of which it is one."""


def _page(field: str, node: str) -> str:
    return f"{field} {{ edges {{ node {node} }} }}"


_DOMAIN_FIELDS = "{ domain { name createdAt } }"
_PROJECT_FIELDS = "{ project { name createdAt domain { name createdAt } } }"
_SESSION_FIELDS = "{ session { name environ } }"
_ATTEMPTS = f"{{ {_page('attempts', _SESSION_FIELDS)} }}"
_LEASES = f"{{ {_page('leases', _SESSION_FIELDS)} }}"
NESTED: dict[str, str] = {
    "Project.domain": f'project(address: "acme/work") {_DOMAIN_FIELDS}',
    "RetryPolicy.domain": _page("retryPolicies", _DOMAIN_FIELDS),
    "RetryPolicy.project": _page("retryPolicies", _PROJECT_FIELDS),
    "Membership.domain": _page("memberships", _DOMAIN_FIELDS),
    "Membership.project": _page("memberships", _PROJECT_FIELDS),
    "Token.project": _page("tokens", _PROJECT_FIELDS),
    "Queue.project": _page("queues", _PROJECT_FIELDS),
    "Webhook.project": _page("webhooks", _PROJECT_FIELDS),
    "Schedule.project": _page("schedules", _PROJECT_FIELDS),
    "JobSet.project": _page("jobSets", _PROJECT_FIELDS),
    "Session.project": _page("sessions", _PROJECT_FIELDS),
    "Session.queue": "sessions { edges { node { queue { name project { name } } } } }",
    "Session.parentSession": "sessions { edges { node { parentSession { name } } } }",
    "Session.rootSession": "sessions { edges { node { rootSession { name environ } } } }",
    "Session.attempts": _page("sessions", _ATTEMPTS),
    "Attempt.session": _page("sessions", _ATTEMPTS),
    "Session.events": "sessions { edges { node { events { edges { node { type } } } } } }",
    "JobSet.events": "jobSets { edges { node { events { edges { node { type } } } } } }",
    "ExecutorLease.session": _page("executors", _LEASES),
    "Executor.leases": _page("executors", "{ leases { edges { node { fencingToken } } } }"),
    "Executor.nodes": "executors { edges { node { nodes { edges { node { name } } } } } }",
    "Overview.executors": "overview { executors { name } }",
    "Webhook.deliveries": "webhooks { edges { node { deliveries { edges { node { state } } } } } }",
    "RetryPolicy.revisions": "retryPolicies { edges { node { revisions "
    "{ edges { node { revision document } } } } } }",
    "CreateOutcome.session": "",
    "CancelOutcome.session": "",
    "GiveUpOutcome.session": "",
    "PreemptOutcome.session": "",
    "UpdateOutcome.session": "",
    "RetryOutcome.session": "",
    "RetryOutcome.nextSession": "",
}
"""Fields that lead from one record to another, and a query that goes there."""
