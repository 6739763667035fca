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
    from reprise_client.audit import AuditEntry
    from reprise_client.models import (
        Attempt,
        BulkChange,
        BulkChanges,
        Decision,
        Event,
        JobSet,
        RetryState,
        Session,
        Whoami,
    )
    from reprise_client.operator_models import (
        Executor,
        ExecutorLease,
        ExecutorNode,
        ExecutorToken,
        FailureCategory,
        NamedRetryPolicy,
        PolicyRevision,
        Queue,
        Quotas,
        RetryDefaults,
        RetrySettings,
    )
    from reprise_client.overviews import Overview
    from reprise_client.retry_policy import RetryPolicy
    from reprise_client.simulations import Simulation, SimulationSummary
    from reprise_client.tenant_models import Domain, Membership, Project, Token
    from reprise_client.webhooks import Webhook, WebhookDelivery

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
    "AuditEntry": "audit",
    "BulkChange": "models",
    "BulkChanges": "models",
    "Client": "api",
    "Decision": "models",
    "Domain": "tenant_models",
    "Event": "models",
    "Executor": "operator_models",
    "ExecutorLease": "operator_models",
    "ExecutorNode": "operator_models",
    "ExecutorToken": "operator_models",
    "FailureCategory": "operator_models",
    "JobSet": "models",
    "Membership": "tenant_models",
    "NamedRetryPolicy": "operator_models",
    "Overview": "overviews",
    "PolicyRevision": "operator_models",
    "Project": "tenant_models",
    "Queue": "operator_models",
    "Quotas": "operator_models",
    "RetryDefaults": "operator_models",
    "RetryPolicy": "retry_policy",
    "RetrySettings": "operator_models",
    "RetryState": "models",
    "Session": "models",
    "Simulation": "simulations",
    "SimulationSummary": "simulations",
    "Token": "tenant_models",
    "Webhook": "webhooks",
    "WebhookDelivery": "webhooks",
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
