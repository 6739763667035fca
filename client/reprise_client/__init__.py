"""The Reprise SDK: `Client` is its door."""

from reprise_client.api import Client
from reprise_client.errors import (
    ApiError,
    ConfigError,
    InvalidAnswer,
    RepriseError,
    ServerUnreachable,
    WaitTimeout,
)
from reprise_client.models import (
    Attempt,
    BulkChange,
    BulkChanges,
    Decision,
    Event,
    FailureCategory,
    PolicyRevision,
    Queue,
    Quotas,
    RetryDefaults,
    RetryPolicy,
    RetrySettings,
    RetryState,
    Session,
    Whoami,
)

__all__ = [
    "ApiError",
    "Attempt",
    "BulkChange",
    "BulkChanges",
    "Client",
    "ConfigError",
    "Decision",
    "Event",
    "FailureCategory",
    "InvalidAnswer",
    "PolicyRevision",
    "Queue",
    "Quotas",
    "RepriseError",
    "RetryDefaults",
    "RetryPolicy",
    "RetrySettings",
    "RetryState",
    "ServerUnreachable",
    "Session",
    "WaitTimeout",
    "Whoami",
]
