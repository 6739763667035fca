"""The quotas of projects, with their use."""

from collections.abc import Collection, Iterable

from sessions_app.core.quotas import PENDING, Quota, Quotas
from sessions_app.locks import Usage, usage_read


def quotas_read(project_ids: Collection[int] | None, *, waiting: bool, live: bool) -> Quotas:
    """Return the quotas of projects (None: of all), without locks: they may change."""
    return _quotas(usage_read(project_ids, waiting=waiting, live=live))


def quotas_lock(project_ids: Collection[int]) -> Quotas:
    """Lock the quotas of projects for live sessions until this transaction ends. Return them.

    For callers that still have to choose what to admit. Locks all counters that `usage_note` will
    change.
    """
    rows = usage_read(project_ids, waiting=True, live=True, lock=True)
    return _quotas(row for row in rows if row.name != PENDING)


def _quotas(rows: Iterable[Usage]) -> Quotas:
    return Quotas((row.project_id, _quota(row)) for row in rows)


def _quota(row: Usage) -> Quota | None:
    if row.limit is None:
        return None
    return Quota(row.id, row.scope, row.name, row.limit, row.used)
