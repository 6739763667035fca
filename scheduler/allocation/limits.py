"""What queues and quotas still allow, as a round counts it down."""

from collections.abc import Mapping
from typing import Any

from podspec.quantity import parse
from podspec.resources import Amounts
from scheduler.core.fairshare import Limit
from sessions_app.core.quotas import Quota


def quota_limit(quota: Quota) -> Limit:
    """Return the limit of a quota, reduced by what is used of it."""
    return Limit(f"quota of {quota.scope}", {quota.name: quota.limit - quota.used})


def queue_limit(resource_limits: Mapping[str, Any], used: Amounts) -> Limit:
    """Return the limit of a queue, reduced by what it uses."""
    limits = {name: parse(value) for name, value in resource_limits.items()}
    return Limit(
        "limit of the queue",
        {name: value - used.get(name, value * 0) for name, value in limits.items()},
    )
