"""Admission: which new sessions the quotas have room for."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sessions_app.core.errors import QuotaExceeded
from sessions_app.core.quotas import PENDING, SESSIONS, WAITING, Held, Quotas, running, spelled


class Applicant(NamedTuple):
    """A session to be created; `spec` has the fields of `SessionSpec`."""

    project_id: int
    creation_id: str
    spec: Mapping[str, Any]


def admission_refusals(
    applicants: Iterable[Applicant], quotas: Quotas, known: Collection[tuple[int, str]]
) -> list[QuotaExceeded | None]:
    """Return the refusal of each applicant, None for those admitted; first come, first served.

    `known` are the projects and `creation_id`s of existing sessions, which need no room.
    """
    seen = set(known)
    return [_refusal(each, quotas, seen) for each in applicants]


def _refusal(
    applicant: Applicant, quotas: Quotas, seen: set[tuple[int, str]]
) -> QuotaExceeded | None:
    project_id, creation_id, spec = applicant
    if (project_id, creation_id) in seen or project_id not in quotas.projects:
        return None
    live = running(spec["resources"], spec["cluster_size"])
    # Sessions wait for quotas on live ones, unless they could never fit.
    del live[SESSIONS]
    held = quotas.held(project_id, WAITING) or quotas.never(project_id, live)
    if held is not None:
        return _exceeded(held)
    seen.add((project_id, creation_id))
    quotas.take(project_id, WAITING)
    return None


def _exceeded(held: Held) -> QuotaExceeded:
    used, limit = (spelled(held.name, amount) for amount in (held.used, held.limit))
    errors = {} if held.name == PENDING else {held.name: [f"is more than {limit}"]}
    return QuotaExceeded(
        str(held), errors=errors, scope=held.scope, name=held.name, used=used, limit=limit
    )
