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
    RepriseError,
    ServerUnreachable,
    WaitTimeout,
)

if TYPE_CHECKING:
    from reprise_client.api import Client
    from reprise_client.models import (
        Attempt,
        AuditEntry,
        BulkChange,
        BulkChanges,
        Decision,
        Domain,
        Event,
        Executor,
        ExecutorLease,
        ExecutorNode,
        ExecutorToken,
        FailureCategory,
        JobSet,
        Membership,
        NamedRetryPolicy,
        Overview,
        PolicyRevision,
        Project,
        Queue,
        Quotas,
        RetryDefaults,
        RetrySettings,
        RetryState,
        Session,
        Simulation,
        SimulationSummary,
        Token,
        Webhook,
        WebhookDelivery,
        Whoami,
    )
    from reprise_client.retry_policy import RetryPolicy

__all__ = [
    "ApiError",
    "Attempt",
    "AuditEntry",
    "BulkChange",
    "BulkChanges",
    "Client",
    "ConfigError",
    "Decision",
    "Domain",
    "Event",
    "Executor",
    "ExecutorLease",
    "ExecutorNode",
    "ExecutorToken",
    "FailureCategory",
    "InvalidAnswer",
    "JobSet",
    "Membership",
    "NamedRetryPolicy",
    "Overview",
    "PolicyRevision",
    "Project",
    "Queue",
    "Quotas",
    "RepriseError",
    "RetryDefaults",
    "RetryPolicy",
    "RetrySettings",
    "RetryState",
    "ServerUnreachable",
    "Session",
    "Simulation",
    "SimulationSummary",
    "Token",
    "WaitTimeout",
    "Webhook",
    "WebhookDelivery",
    "Whoami",
]

_LOADED_LATER = {
    "Attempt": "models",
    "AuditEntry": "models",
    "BulkChange": "models",
    "BulkChanges": "models",
    "Client": "api",
    "Decision": "models",
    "Domain": "models",
    "Event": "models",
    "Executor": "models",
    "ExecutorLease": "models",
    "ExecutorNode": "models",
    "ExecutorToken": "models",
    "FailureCategory": "models",
    "JobSet": "models",
    "Membership": "models",
    "NamedRetryPolicy": "models",
    "Overview": "models",
    "PolicyRevision": "models",
    "Project": "models",
    "Queue": "models",
    "Quotas": "models",
    "RetryDefaults": "models",
    "RetryPolicy": "retry_policy",
    "RetrySettings": "models",
    "RetryState": "models",
    "Session": "models",
    "Simulation": "models",
    "SimulationSummary": "models",
    "Token": "models",
    "Webhook": "models",
    "WebhookDelivery": "models",
    "Whoami": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_LOADED_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
