"""Admission: which new sessions the quotas have room for."""

from collections.abc import Collection, Iterable

from sessions_app.core.errors import QuotaExceeded
from sessions_app.core.quotas import PENDING, SESSIONS, WAITING, Held, Quotas, running, spelled
from sessions_app.services.sessions.new_roots import NewRoot


def roots_admit(
    roots: Iterable[NewRoot], quotas: Quotas, known: Collection[tuple[int, str]]
) -> None:
    """Refuse the roots for which the quotas have no room; first come, first served.

    `known` are the projects and `creation_id`s of existing sessions, which need no room.
    """
    seen = set(known)
    for root in roots:
        name = root.project_id, root.creation_id
        if name in seen or root.project_id not in quotas.projects:
            continue
        if (held := _held(root, quotas)) is not None:
            root.refusal = _exceeded(held)
            continue
        seen.add(name)
        quotas.take(root.project_id, WAITING)


def _held(root: NewRoot, quotas: Quotas) -> Held | None:
    """Return the quota that is in the way, if one is."""
    spec = root.placed.submission.spec
    live = running(spec["resources"], spec["cluster_size"])
    # Sessions wait for quotas on live ones, unless they could never fit.
    del live[SESSIONS]
    return quotas.held(root.project_id, WAITING) or quotas.never(root.project_id, live)


def _exceeded(held: Held) -> QuotaExceeded:
    used, limit = (spelled(held.name, amount) for amount in (held.used, held.limit))
    errors = {} if held.name == PENDING else {held.name: [f"is more than {limit}"]}
    return QuotaExceeded(
        str(held), errors=errors, scope=held.scope, name=held.name, used=used, limit=limit
    )
