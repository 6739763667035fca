"""The operators' pages for the records of this room, a file for each noun."""

from sessions_app.admin import (
    audit,
    breakers,
    decisions,
    failure_categories,
    failures,
    priority_classes,
    queues,
    retry_config,
    retry_policies,
    schedules,
    sessions,
    tenants,
    tokens,
    webhooks,
)

__all__ = [
    "audit",
    "breakers",
    "decisions",
    "failure_categories",
    "failures",
    "priority_classes",
    "queues",
    "retry_config",
    "retry_policies",
    "schedules",
    "sessions",
    "tenants",
    "tokens",
    "webhooks",
]
