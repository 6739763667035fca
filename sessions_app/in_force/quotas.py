"""The quotas of projects, and what is in use of them."""

from collections.abc import Collection, Iterable

from sessions_app.core.quotas import PENDING, Quota, Quotas
from sessions_app.locks import Usage, usage_read


def quotas_read(project_ids: Collection[int] | None, *, waiting: bool, live: bool) -> Quotas:
    """The quotas of projects (None: of all) as they stand; others may be using them up."""
    return _quotas(usage_read(project_ids, waiting=waiting, live=live))


def quotas_lock(project_ids: Collection[int]) -> Quotas:
    """The quotas of projects on what is live, which stay as they are until this transaction ends.

    For who has yet to choose what is let in. It locks all that `usage_note` will move.
    """
    rows = usage_read(project_ids, waiting=True, live=True, lock=True)
    return _quotas(row for row in rows if row.name != PENDING)


def _quotas(rows: Iterable[Usage]) -> Quotas:
    return Quotas((row.project_id, _quota(row)) for row in rows)


def _quota(row: Usage) -> Quota | None:
    if row.limit is None:
        return None
    return Quota(row.id, row.scope, row.name, row.limit, row.used)
