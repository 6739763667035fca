"""The records, one module for each kind."""

from sessions_app.models.audit import AuditEntry, AuditLog, AutomaticDispatch
from sessions_app.models.events import SessionEvent
from sessions_app.models.logs import LogChunk
from sessions_app.models.policies import FailureCategory, RetryPolicy, RetryPolicyRevision
from sessions_app.models.queues import Queue
from sessions_app.models.quotas import ProjectUsage
from sessions_app.models.retries import RetryDecision, RetryDefaults, RetrySettings, RetrySlots
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
    "Domain",
    "FailureCategory",
    "LogChunk",
    "Membership",
    "Project",
    "ProjectUsage",
    "Queue",
    "RequestBudget",
    "RetryDecision",
    "RetryDefaults",
    "RetryPolicy",
    "RetryPolicyRevision",
    "RetrySettings",
    "RetrySlots",
    "Session",
    "SessionEvent",
    "SessionSpec",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookReader",
    "WebhookSender",
]
