"""The operators' pages for the records of this room, a file for each noun."""

from sessions_app.admin import (
    audit,
    decisions,
    failure_categories,
    queues,
    retry_config,
    retry_policies,
    sessions,
    tenants,
    tokens,
    webhooks,
)

__all__ = [
    "audit",
    "decisions",
    "failure_categories",
    "queues",
    "retry_config",
    "retry_policies",
    "sessions",
    "tenants",
    "tokens",
    "webhooks",
]
