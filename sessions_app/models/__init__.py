"""The records, one module for each kind."""

from sessions_app.models.audit import AuditEntry, AuditLog, AutomaticDispatch
from sessions_app.models.breakers import Breaker, BreakerFailure
from sessions_app.models.budgets import RetryBudgetMinute, RetryBudgetState
from sessions_app.models.config_version import ConfigVersion
from sessions_app.models.dependencies import Dependency
from sessions_app.models.events import SessionEvent
from sessions_app.models.failures import (
    FailureHour,
    FailureLedger,
    FailureReader,
    FailureSignature,
    FailureTotals,
)
from sessions_app.models.logs import LogChunk
from sessions_app.models.pages import PreparedAction, SavedSearch
from sessions_app.models.policies import FailureCategory, RetryPolicy, RetryPolicyRevision
from sessions_app.models.priority_classes import PriorityClass
from sessions_app.models.queues import Queue
from sessions_app.models.quotas import ProjectUsage
from sessions_app.models.reports import RetryAdvice, RetryDay
from sessions_app.models.retries import (
    RetryDecision,
    RetryDefaults,
    RetrySettings,
    RetrySlots,
    RetryTrace,
)
from sessions_app.models.schedules import Schedule
from sessions_app.models.sessions import Session, SessionSpec
from sessions_app.models.tenants import ApiToken, Domain, Membership, Project, RequestBudget
from sessions_app.models.webhooks import (
    WebhookDelivery,
    WebhookEndpoint,
    WebhookReader,
    WebhookSender,
)

__all__ = [
    "ApiToken",
    "AuditEntry",
    "AuditLog",
    "AutomaticDispatch",
    "Breaker",
    "BreakerFailure",
    "ConfigVersion",
    "Dependency",
    "Domain",
    "FailureCategory",
    "FailureHour",
    "FailureLedger",
    "FailureReader",
    "FailureSignature",
    "FailureTotals",
    "LogChunk",
    "Membership",
    "PreparedAction",
    "PriorityClass",
    "Project",
    "ProjectUsage",
    "Queue",
    "RequestBudget",
    "RetryAdvice",
    "RetryBudgetMinute",
    "RetryBudgetState",
    "RetryDay",
    "RetryDecision",
    "RetryDefaults",
    "RetryPolicy",
    "RetryPolicyRevision",
    "RetrySettings",
    "RetrySlots",
    "RetryTrace",
    "SavedSearch",
    "Schedule",
    "Session",
    "SessionEvent",
    "SessionSpec",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookReader",
    "WebhookSender",
]
