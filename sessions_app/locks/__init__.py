"""Every row lock and advisory lock on the records, by name.

The order is: a policy's name, policy, queue or settings, root, session, lease, decision, retry
slots, usage. The outbox of webhooks has a lock of its own, under which none of these is taken.
Whoever changes a chain locks its root first, so that one transaction at a time changes a chain.
Only the lease round, which takes waiting sessions, locks a session without its root; it skips
sessions that are locked.
"""

from sessions_app.locks.advisory import (
    AdvisoryLock,
    database_now,
    hold_if_free,
    lock_policy_name,
    lock_slots,
    lock_webhooks,
    lock_webhooks_of,
)
from sessions_app.locks.chains import (
    SESSION_COLUMNS,
    LockedChain,
    LockedSession,
    lock_chains,
    lock_sessions,
    lock_sessions_of,
    locked_session,
)
from sessions_app.locks.claims import (
    DueRetry,
    claim_archived,
    claim_due,
    claim_ended,
    claim_resumable,
)
from sessions_app.locks.configuration import (
    QueueNames,
    lock_token,
    policies_named,
    queues_for_submit,
)
from sessions_app.locks.usage import (
    Counter,
    Usage,
    usage_lock_scope,
    usage_read,
    usage_stop,
)

__all__ = [
    "SESSION_COLUMNS",
    "AdvisoryLock",
    "Counter",
    "DueRetry",
    "LockedChain",
    "LockedSession",
    "QueueNames",
    "Usage",
    "claim_archived",
    "claim_due",
    "claim_ended",
    "claim_resumable",
    "database_now",
    "hold_if_free",
    "lock_chains",
    "lock_policy_name",
    "lock_sessions",
    "lock_sessions_of",
    "lock_slots",
    "lock_token",
    "lock_webhooks",
    "lock_webhooks_of",
    "locked_session",
    "policies_named",
    "queues_for_submit",
    "usage_lock_scope",
    "usage_read",
    "usage_stop",
]
