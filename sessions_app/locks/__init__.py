"""Every row lock and advisory lock on the records, by name.

Order: a schedule, a policy's name, policy, queue or settings, root, session, lease, retry slots,
usage, the counts of shared budgets. The outbox of webhooks, the figures of failures and the
breakers have a lock of their own each, under which none of these is taken. The version of the
configuration is locked by whoever changes what it covers (decision 0068), behind the changed row.
Whoever changes a chain locks its root first, so that one chain is changed by one transaction at a
time; only the lease round, which takes waiting sessions, locks a session without its root, and
skips what it cannot have.
What needs the models is imported from `locks.resources`: connections take locks before there are
any.
"""

from sessions_app.locks.advisory import (
    AdvisoryLock,
    database_now,
    hold_if_free,
    lock_breakers,
    lock_budgets,
    lock_charges,
    lock_failures,
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
    lock_sessions_now,
    lock_sessions_with,
    locked_session,
)
from sessions_app.locks.claims import (
    CLAIM_DISPATCHES,
    CLAIM_LOGS,
    CLAIM_USE,
    claim_archived,
    claim_breaker_held,
    claim_ended,
    claim_over_budget,
    claim_parked,
    claim_resumable,
)
from sessions_app.locks.configuration import (
    QueueNames,
    lock_token,
    policies_named,
    queues_for_submit,
)
from sessions_app.locks.decisions import (
    DueRetries,
    StoredDecision,
    claim_due,
    lock_retries,
    read_decisions,
)
from sessions_app.locks.dependencies import claim_dependants, claim_further, share_roots
from sessions_app.locks.secrets import (
    StoredSecret,
    claim_decisions_under,
    claim_specs_under,
    lock_webhooks_under,
)
from sessions_app.locks.usage import (
    Counter,
    Usage,
    usage_lock_scope,
    usage_read,
    usage_stop,
)

__all__ = [
    "CLAIM_DISPATCHES",
    "CLAIM_LOGS",
    "CLAIM_USE",
    "SESSION_COLUMNS",
    "AdvisoryLock",
    "Counter",
    "DueRetries",
    "LockedChain",
    "LockedSession",
    "QueueNames",
    "StoredDecision",
    "StoredSecret",
    "Usage",
    "claim_archived",
    "claim_breaker_held",
    "claim_decisions_under",
    "claim_dependants",
    "claim_due",
    "claim_ended",
    "claim_further",
    "claim_over_budget",
    "claim_parked",
    "claim_resumable",
    "claim_specs_under",
    "database_now",
    "hold_if_free",
    "lock_breakers",
    "lock_budgets",
    "lock_chains",
    "lock_charges",
    "lock_failures",
    "lock_policy_name",
    "lock_retries",
    "lock_sessions",
    "lock_sessions_now",
    "lock_sessions_with",
    "lock_slots",
    "lock_token",
    "lock_webhooks",
    "lock_webhooks_of",
    "lock_webhooks_under",
    "locked_session",
    "policies_named",
    "queues_for_submit",
    "read_decisions",
    "share_roots",
    "usage_lock_scope",
    "usage_read",
    "usage_stop",
]
