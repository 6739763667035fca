"""The table of permissions over REST: what the tests of authorization expect of each route and
method."""

from typing import Any

from tests.people import EXECUTORS, MATCHERS, PEOPLE, REJECTED
from tests.people import UNSEEN as NOT_THEIRS


def row(default: int, **others: int) -> dict[str, int]:
    return {**dict.fromkeys(PEOPLE, default), **REJECTED, **others}


UNSEEN = dict.fromkeys(NOT_THEIRS, 404)
NO_EXECUTORS = dict.fromkeys(EXECUTORS, 403)
READ_SESSION = row(200, **UNSEEN, **NO_EXECUTORS)
CHANGE_SESSION = READ_SESSION | {"colleague": 403, "viewer": 403, "read_only": 403}
READ_PROJECT = READ_SESSION
WRITE_PROJECT = CHANGE_SESSION | {"owner": 403}
READ_WEBHOOK = WRITE_PROJECT | {"read_only": 200}
# Templates have the values of variables.
READ_SCHEDULE = READ_SESSION | {"viewer": 403}
READ_DOMAIN = READ_SESSION | {"neighbour": 200, "scoped": 404}
WRITE_DOMAIN = row(403, admin=200, domain_admin=200) | {
    "stranger": 404,
    "nobody": 404,
    "elsewhere": 404,
    "scoped": 404,
}
HIDDEN_DOMAIN = ("stranger", "nobody", "elsewhere", "scoped")
WRITE_PROJECT_QUOTA = WRITE_PROJECT | {"maintainer": 403}
WRITE_DOMAIN_QUOTA = WRITE_DOMAIN | {"domain_admin": 403}
WRITE_CLUSTER = row(403, admin=200)
READ_CLUSTER = row(200, **NO_EXECUTORS)
READ_EXECUTORS = WRITE_CLUSTER
"""They serve many projects: who is not an admin of the cluster is told of none."""
WIRE = row(403, executor=200, other_executor=404)
CREATE = row(201, **NO_EXECUTORS, viewer=403, read_only=403) | dict.fromkeys(UNSEEN, 400)


def deleting(table: dict[str, int]) -> dict[str, int]:
    return {who: 204 if status == 200 else status for who, status in table.items()}


def making(table: dict[str, int]) -> dict[str, int]:
    return {who: 201 if status == 200 else status for who, status in table.items()}


def accepting(table: dict[str, int]) -> dict[str, int]:
    return {who: 202 if status == 200 else status for who, status in table.items()}


def refused_for_its_state(table: dict[str, int]) -> dict[str, int]:
    return {who: 409 if status == 200 else status for who, status in table.items()}


# The name of a project is a field here, and not what is looked for.
MAKE_QUEUE = CREATE | {"owner": 403, "colleague": 403}
POLICY = "retry-policies/<str:name>/"
CATEGORY = "failure-categories/<str:name>/"
PRIORITY_CLASS = "priority-classes/<str:name>/"
EXECUTOR = "executors/<str:name>/"
NODE = "nodes/<str:executor>/<str:name>/"
QUEUE = "queues/<str:domain>/<str:project>/<str:queue>/"
SESSION = "sessions/<uuid:session_id>/"
SCHEDULE = "schedules/<uuid:schedule_id>/"
WEBHOOK = "webhooks/<uuid:webhook_id>/"
FAILURE = "failures/<str:key>/"
BREAKER = "breakers/<uuid:breaker_id>/"
JOB_SET_EVENTS = "job-sets/<str:name>/events/"
PROJECT = "projects/<str:domain>/<str:project>/"
DOMAIN = "domains/<str:domain>/"
MEMBERSHIP = "memberships/<int:membership_id>/"
TOKEN = "tokens/<str:prefix>/"
EXPECTED: dict[tuple[str, str], dict[str, int]] = {
    ("GET", "whoami/"): READ_CLUSTER,
    # Of the scopes that one may configure; those who configure none are refused.
    ("GET", "audit/"): row(200, owner=403, colleague=403, viewer=403, nobody=403, **NO_EXECUTORS),
    # What is in it for whom: test_overview.
    ("GET", "overview/"): READ_CLUSTER,
    # What it names is of all tenants.
    ("GET", "operations/"): READ_EXECUTORS,
    ("GET", "operations/trends/"): READ_EXECUTORS,
    ("GET", "sessions/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/"): CREATE,
    # Each item has an outcome of its own; see test_rest_bulk for whose is refused.
    ("POST", "sessions/bulk/"): row(200, **NO_EXECUTORS),
    # So has each session that the filter means; see test_rest_bulk_actions.
    ("POST", "sessions/bulk-cancel/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/bulk-give-up/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/bulk-preempt/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/bulk-retry/"): row(200, **NO_EXECUTORS),
    ("POST", "sessions/bulk-update/"): row(200, **NO_EXECUTORS),
    ("GET", SESSION): READ_SESSION,
    # It waits no longer.
    ("PATCH", SESSION): refused_for_its_state(CHANGE_SESSION),
    ("GET", f"{SESSION}attempts/"): READ_SESSION,
    ("GET", "job-sets/"): READ_CLUSTER,
    # In the token's own project; that of others has to be named, as in `SCOPED`.
    ("GET", JOB_SET_EVENTS): row(400, scoped=200, elsewhere=404, **NO_EXECUTORS),
    ("GET", "failures/"): READ_CLUSTER,
    # What is in it for whom: test_shared_budgets.
    ("GET", "retry-budgets/"): READ_CLUSTER,
    # What is in it for whom: test_retry_reports.
    ("GET", "reports/retries/"): READ_CLUSTER,
    # As for job sets.
    ("GET", FAILURE): row(400, scoped=200, elsewhere=404, **NO_EXECUTORS),
    ("PATCH", FAILURE): row(400, scoped=200, elsewhere=404, **NO_EXECUTORS),
    ("GET", "breakers/"): READ_CLUSTER,
    # Without a project, it is the cluster's.
    ("POST", "breakers/"): making(WRITE_CLUSTER),
    ("GET", BREAKER): READ_PROJECT,
    ("GET", f"{BREAKER}events/"): READ_PROJECT,
    ("POST", f"{BREAKER}close/"): WRITE_PROJECT,
    ("POST", f"{BREAKER}mute/"): WRITE_PROJECT,
    ("POST", f"{BREAKER}unmute/"): WRITE_PROJECT,
    ("GET", f"{SESSION}events/"): READ_SESSION,
    ("GET", f"{SESSION}logs/"): READ_SESSION,
    ("GET", f"{SESSION}graph/"): READ_SESSION,
    ("GET", f"{SESSION}retry-decision/"): READ_SESSION,
    ("POST", f"{SESSION}cancel/"): CHANGE_SESSION,
    # It is not parked.
    ("POST", f"{SESSION}give-up/"): refused_for_its_state(CHANGE_SESSION),
    # It has ended.
    ("POST", f"{SESSION}preempt/"): refused_for_its_state(WRITE_PROJECT),
    ("POST", f"{SESSION}retry/"): making(CHANGE_SESSION),
    **{
        (method, f"{kind}/{PROJECT}"): table
        for kind in ("retry-defaults", "retry-settings")
        for method, table in (
            ("GET", READ_PROJECT),
            ("PUT", WRITE_PROJECT),
            ("PATCH", WRITE_PROJECT),
            ("DELETE", deleting(WRITE_PROJECT)),
        )
    },
    **{
        (method, f"{kind}/{DOMAIN}"): table
        for kind in ("retry-defaults", "retry-settings")
        for method, table in (
            ("GET", READ_DOMAIN),
            ("PUT", WRITE_DOMAIN),
            ("PATCH", WRITE_DOMAIN),
            ("DELETE", deleting(WRITE_DOMAIN)),
        )
    },
    **{
        (method, f"{kind}/cluster/"): table
        for kind in ("retry-defaults", "retry-settings")
        for method, table in (
            ("GET", READ_CLUSTER),
            ("PUT", WRITE_CLUSTER),
            ("PATCH", WRITE_CLUSTER),
            ("DELETE", deleting(WRITE_CLUSTER)),
        )
    },
    ("GET", f"quotas/{PROJECT}"): READ_PROJECT,
    ("PUT", f"quotas/{PROJECT}"): WRITE_PROJECT_QUOTA,
    ("PATCH", f"quotas/{PROJECT}"): WRITE_PROJECT_QUOTA,
    ("DELETE", f"quotas/{PROJECT}"): deleting(WRITE_PROJECT_QUOTA),
    ("GET", f"quotas/{DOMAIN}"): READ_DOMAIN,
    ("PUT", f"quotas/{DOMAIN}"): WRITE_DOMAIN_QUOTA,
    ("PATCH", f"quotas/{DOMAIN}"): WRITE_DOMAIN_QUOTA,
    ("DELETE", f"quotas/{DOMAIN}"): deleting(WRITE_DOMAIN_QUOTA),
    ("GET", "domains/"): READ_CLUSTER,
    ("POST", "domains/"): making(WRITE_CLUSTER),
    ("GET", DOMAIN): READ_DOMAIN,
    # It has projects.
    ("DELETE", DOMAIN): refused_for_its_state(WRITE_DOMAIN_QUOTA),
    ("GET", "projects/"): READ_CLUSTER,
    # The domain is a field here.
    ("POST", "projects/"): making(WRITE_DOMAIN) | dict.fromkeys(HIDDEN_DOMAIN, 400),
    ("GET", PROJECT): READ_PROJECT,
    # A session ran in it.
    ("DELETE", PROJECT): refused_for_its_state(WRITE_PROJECT_QUOTA),
    ("GET", "memberships/"): READ_CLUSTER,
    ("POST", "memberships/"): making(WRITE_PROJECT_QUOTA) | dict.fromkeys(UNSEEN, 400),
    ("GET", MEMBERSHIP): READ_PROJECT,
    ("PATCH", MEMBERSHIP): WRITE_PROJECT_QUOTA,
    ("DELETE", MEMBERSHIP): deleting(WRITE_PROJECT_QUOTA),
    ("GET", "tokens/"): READ_CLUSTER,
    ("POST", "tokens/"): making(READ_CLUSTER) | {"read_only": 403},
    # The owner's own.
    ("GET", TOKEN): row(404, owner=200, admin=200, **NO_EXECUTORS),
    ("DELETE", TOKEN): row(404, owner=200, admin=200, **NO_EXECUTORS),
    ("GET", "executors/"): READ_EXECUTORS,
    ("GET", "reservations/"): READ_EXECUTORS,
    # Of executors that serve a project which they see, as this one serves all.
    ("GET", "nodes/"): READ_CLUSTER,
    ("GET", NODE): row(200, nobody=404, **NO_EXECUTORS),
    ("POST", f"{NODE}quarantine/"): WRITE_CLUSTER,
    ("POST", f"{NODE}release/"): WRITE_CLUSTER,
    ("POST", "executors/"): making(WRITE_CLUSTER),
    ("GET", EXECUTOR): READ_EXECUTORS,
    ("PATCH", EXECUTOR): WRITE_CLUSTER,
    ("DELETE", EXECUTOR): deleting(WRITE_CLUSTER),
    ("GET", f"{EXECUTOR}leases/"): READ_EXECUTORS,
    ("POST", f"{EXECUTOR}cordon/"): WRITE_CLUSTER,
    ("POST", f"{EXECUTOR}uncordon/"): WRITE_CLUSTER,
    ("POST", f"{EXECUTOR}drain/"): WRITE_CLUSTER,
    ("POST", f"{EXECUTOR}token/"): making(WRITE_CLUSTER),
    **{("POST", f"{EXECUTOR}{verb}/"): WIRE for verb in ("lease", "reports", "return", "logs")},
    ("GET", "retry-policies/"): READ_CLUSTER,
    # Of the cluster's own; those of other scopes are in `SCOPED`.
    ("POST", "retry-policies/"): making(WRITE_CLUSTER),
    # Of given ends; test_simulate.py says whose history one may ask for.
    ("POST", "retry-policies/simulate/"): READ_CLUSTER,
    ("GET", POLICY): READ_CLUSTER,
    ("PUT", POLICY): WRITE_CLUSTER,
    ("DELETE", POLICY): WRITE_CLUSTER,
    ("GET", f"{POLICY}revisions/"): READ_CLUSTER,
    ("GET", "failure-categories/"): READ_CLUSTER,
    ("POST", "failure-categories/"): making(WRITE_CLUSTER),
    ("GET", CATEGORY): READ_CLUSTER,
    ("PUT", CATEGORY): WRITE_CLUSTER,
    ("PATCH", CATEGORY): WRITE_CLUSTER,
    ("DELETE", CATEGORY): deleting(WRITE_CLUSTER),
    ("GET", "priority-classes/"): READ_CLUSTER,
    ("POST", "priority-classes/"): making(WRITE_CLUSTER),
    ("GET", PRIORITY_CLASS): READ_CLUSTER,
    ("PUT", PRIORITY_CLASS): WRITE_CLUSTER,
    ("PATCH", PRIORITY_CLASS): WRITE_CLUSTER,
    ("DELETE", PRIORITY_CLASS): deleting(WRITE_CLUSTER),
    # Of the projects that one may see: test_making_room.py.
    ("GET", "preemptions/"): READ_CLUSTER,
    ("GET", "queues/"): READ_CLUSTER,
    ("POST", "queues/"): MAKE_QUEUE,
    ("GET", QUEUE): READ_PROJECT,
    ("PUT", QUEUE): WRITE_PROJECT,
    ("PATCH", QUEUE): WRITE_PROJECT,
    ("DELETE", QUEUE): deleting(WRITE_PROJECT),
    ("POST", f"{QUEUE}cordon/"): WRITE_PROJECT,
    ("POST", f"{QUEUE}uncordon/"): WRITE_PROJECT,
    # What is in it for whom: test_rest_schedules.
    ("GET", "schedules/"): READ_CLUSTER,
    ("POST", "schedules/"): CREATE,
    ("POST", "schedules/preview/"): READ_CLUSTER,
    ("GET", SCHEDULE): READ_SCHEDULE,
    # The owner's own.
    ("PUT", SCHEDULE): CHANGE_SESSION,
    ("PATCH", SCHEDULE): CHANGE_SESSION,
    ("DELETE", SCHEDULE): deleting(CHANGE_SESSION),
    ("POST", f"{SCHEDULE}pause/"): CHANGE_SESSION,
    ("POST", f"{SCHEDULE}resume/"): CHANGE_SESSION,
    ("POST", f"{SCHEDULE}trigger/"): making(CHANGE_SESSION),
    ("POST", f"{SCHEDULE}backfill/"): CHANGE_SESSION,
    # What is in it for whom: test_rest_webhooks.
    ("GET", "webhooks/"): READ_CLUSTER,
    ("POST", "webhooks/"): MAKE_QUEUE,
    ("GET", WEBHOOK): READ_WEBHOOK,
    ("PATCH", WEBHOOK): WRITE_PROJECT,
    ("DELETE", WEBHOOK): deleting(WRITE_PROJECT),
    ("POST", f"{WEBHOOK}secret/"): making(WRITE_PROJECT),
    ("POST", f"{WEBHOOK}pause/"): WRITE_PROJECT,
    ("POST", f"{WEBHOOK}resume/"): WRITE_PROJECT,
    ("POST", f"{WEBHOOK}ping/"): accepting(WRITE_PROJECT),
    ("POST", f"{WEBHOOK}redeliver/"): accepting(WRITE_PROJECT),
    ("GET", f"{WEBHOOK}deliveries/"): READ_WEBHOOK,
    ("GET", f"{WEBHOOK}deliveries/<int:number>/"): READ_WEBHOOK,
    ("GET", "schema/"): READ_CLUSTER,
    ("GET", "docs/"): READ_CLUSTER,
}
POLICY_WORLD = {"neighbour": 200, "scoped": 200, "elsewhere": 200}
"""Who works in a domain reads its policies, which apply there, also with a narrowed token."""
SCOPED: dict[tuple[str, str, str], dict[str, int]] = {
    ("GET", JOB_SET_EVENTS, "project=acme/work"): READ_SESSION,
    ("GET", FAILURE, "project=acme/work"): READ_PROJECT,
    ("PATCH", FAILURE, "project=acme/work"): WRITE_PROJECT,
    ("GET", POLICY, "project=acme/work"): READ_PROJECT,
    ("PUT", POLICY, "project=acme/work"): WRITE_PROJECT,
    ("DELETE", POLICY, "project=acme/work"): WRITE_PROJECT,
    ("GET", f"{POLICY}revisions/", "project=acme/work"): READ_PROJECT,
    ("GET", POLICY, "domain=acme"): READ_DOMAIN | POLICY_WORLD,
    ("PUT", POLICY, "domain=acme"): WRITE_DOMAIN,
    ("DELETE", POLICY, "domain=acme"): WRITE_DOMAIN,
    ("GET", f"{POLICY}revisions/", "domain=acme"): READ_DOMAIN | POLICY_WORLD,
}


def document(name: str, **spec: Any) -> dict[str, Any]:
    """A policy."""
    head = {"apiVersion": "reprise/v1", "kind": "RetryPolicy", "metadata": {"name": name}}
    return {**head, "spec": spec}


BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "sessions/"): {"project": "acme/work", "command": ["true"]},
    ("POST", "sessions/bulk/"): {"sessions": [{"project": "acme/work", "command": ["true"]}]},
    ("POST", "sessions/bulk-cancel/"): {"filter": {}},
    ("PATCH", FAILURE): {"muted": True},
    ("POST", "sessions/bulk-give-up/"): {"filter": {}},
    ("POST", "sessions/bulk-preempt/"): {"filter": {}},
    ("POST", "sessions/bulk-retry/"): {"filter": {}},
    ("POST", "sessions/bulk-update/"): {"filter": {}, "priority": 5},
    ("PATCH", SESSION): {"priority": 5},
    ("POST", "breakers/"): {"signature": "fedcba987654"},
    ("POST", "retry-policies/"): document("new"),
    ("POST", "retry-policies/simulate/"): {"chains": [{"terminations": [{"exit_code": 1}]}]},
    ("PUT", POLICY): document("one", retryLimit=7),
    ("POST", "failure-categories/"): {"name": "new", "matchers": MATCHERS},
    ("PUT", CATEGORY): {"matchers": MATCHERS, "position": 3},
    ("PATCH", CATEGORY): {"position": 3},
    ("POST", "priority-classes/"): {"name": "new", "value": 8},
    ("PUT", PRIORITY_CLASS): {"value": 7, "may_preempt": True},
    ("PATCH", PRIORITY_CLASS): {"preemptible": False},
    ("POST", "queues/"): {"project": "acme/work", "name": "new"},
    ("PUT", QUEUE): {"priority_factor": 2.0},
    ("PATCH", QUEUE): {"priority_factor": 2.0},
    **{
        (method, f"quotas/{scope}"): {"sessions": 3}
        for method in ("PUT", "PATCH")
        for scope in (PROJECT, DOMAIN)
    },
    ("POST", "tokens/"): {"name": "new"},
    ("POST", "domains/"): {"name": "new"},
    ("POST", "projects/"): {"domain": "acme", "name": "new"},
    ("POST", "memberships/"): {"user": "nobody", "role": "member", "project": "acme/work"},
    ("PATCH", MEMBERSHIP): {"role": "maintainer"},
    ("POST", f"{QUEUE}cordon/"): {"reason": "because"},
    ("POST", "schedules/"): {
        "project": "acme/work",
        "name": "new",
        "every": 60,
        "template": {"command": ["true"]},
    },
    ("POST", "schedules/preview/"): {"cron": "@daily"},
    ("PUT", SCHEDULE): {"every": 60, "template": {"command": ["true"]}},
    ("PATCH", SCHEDULE): {"every": 60},
    ("POST", f"{SCHEDULE}backfill/"): {
        "from": "2020-01-31T12:00:00Z",
        "to": "2020-01-31T12:00:00Z",
    },
    ("POST", "webhooks/"): {"project": "acme/work", "url": "https://example.com/"},
    ("PATCH", WEBHOOK): {"description": "because"},
    ("POST", f"{WEBHOOK}pause/"): {"reason": "because"},
    ("POST", f"{WEBHOOK}redeliver/"): {"since": "2030-01-31T12:00:00Z"},
    ("POST", "executors/"): {"name": "new"},
    ("PATCH", EXECUTOR): {"unconfirmed_after": 60},
    ("POST", f"{EXECUTOR}cordon/"): {"reason": "because"},
    ("POST", f"{NODE}quarantine/"): {"reason": "because"},
    ("POST", f"{EXECUTOR}lease/"): {"incarnation": 1},
    ("POST", f"{EXECUTOR}reports/"): {"incarnation": 1, "reports": []},
    ("POST", f"{EXECUTOR}return/"): {"incarnation": 1, "returns": []},
    ("POST", f"{EXECUTOR}logs/"): {"incarnation": 1, "chunks": []},
}
