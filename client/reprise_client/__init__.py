"""The Reprise SDK. Its entry point is `Client`.

Modules that need the HTTP library or pydantic are loaded on first use, because they take most of
the time that the command needs to start.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reprise_client.errors import (
    ApiError,
    ConfigError,
    InvalidAnswer,
    InvalidRequest,
    RepriseError,
    ServerUnreachable,
    WaitTimeout,
)

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import (
        Attempt,
        AuditEntry,
        Backfilled,
        Breaker,
        BreakerRule,
        BulkChange,
        BulkChanges,
        Decision,
        DependencyGraph,
        Domain,
        Event,
        Executor,
        ExecutorLease,
        ExecutorNode,
        ExecutorToken,
        Failure,
        FailureCategory,
        JobSet,
        Membership,
        NamedRetryPolicy,
        Operations,
        OperationsTrends,
        Overview,
        PolicyRevision,
        Preemption,
        PriorityClass,
        Project,
        Queue,
        Quotas,
        RetryDefaults,
        RetrySettings,
        RetryState,
        Schedule,
        ScheduleRun,
        Session,
        SessionProgress,
        Simulation,
        SimulationSummary,
        Token,
        Webhook,
        WebhookDelivery,
        Whoami,
    )
    from reprise_client.retry_policy import RetryPolicy
    from reprise_client.this_attempt import attempt

__all__ = [
    "ApiError",
    "Attempt",
    "AuditEntry",
    "Backfilled",
    "Breaker",
    "BreakerRule",
    "BulkChange",
    "BulkChanges",
    "Client",
    "ConfigError",
    "Decision",
    "DependencyGraph",
    "Domain",
    "Event",
    "Executor",
    "ExecutorLease",
    "ExecutorNode",
    "ExecutorToken",
    "Failure",
    "FailureCategory",
    "InvalidAnswer",
    "InvalidRequest",
    "JobSet",
    "Membership",
    "NamedRetryPolicy",
    "Operations",
    "OperationsTrends",
    "Overview",
    "PolicyRevision",
    "Preemption",
    "PriorityClass",
    "Project",
    "Queue",
    "Quotas",
    "RepriseError",
    "RetryDefaults",
    "RetryPolicy",
    "RetrySettings",
    "RetryState",
    "Schedule",
    "ScheduleRun",
    "ServerUnreachable",
    "Session",
    "SessionProgress",
    "Simulation",
    "SimulationSummary",
    "Token",
    "WaitTimeout",
    "Webhook",
    "WebhookDelivery",
    "Whoami",
    "attempt",
]

_LOADED_LATER = {
    "Attempt": "models",
    "AuditEntry": "models",
    "Backfilled": "models",
    "BulkChange": "models",
    "BulkChanges": "models",
    "Client": "api",
    "Decision": "models",
    "DependencyGraph": "models",
    "Domain": "models",
    "Event": "models",
    "Executor": "models",
    "ExecutorLease": "models",
    "ExecutorNode": "models",
    "ExecutorToken": "models",
    "Breaker": "models",
    "BreakerRule": "models",
    "Failure": "models",
    "FailureCategory": "models",
    "Preemption": "models",
    "PriorityClass": "models",
    "JobSet": "models",
    "Membership": "models",
    "NamedRetryPolicy": "models",
    "Operations": "models",
    "OperationsTrends": "models",
    "Overview": "models",
    "PolicyRevision": "models",
    "Project": "models",
    "Queue": "models",
    "Quotas": "models",
    "RetryDefaults": "models",
    "RetryPolicy": "retry_policy",
    "RetrySettings": "models",
    "RetryState": "models",
    "Schedule": "models",
    "ScheduleRun": "models",
    "Session": "models",
    "SessionProgress": "models",
    "Simulation": "models",
    "SimulationSummary": "models",
    "Token": "models",
    "Webhook": "models",
    "WebhookDelivery": "models",
    "Whoami": "models",
    "attempt": "this_attempt",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LOADED_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
