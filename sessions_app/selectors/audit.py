"""Reads of the audit log: newest first, in one statement that never scans the whole log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Q, QuerySet
from django.db.models.expressions import RawSQL

from sessions_app.audit.context import ENGINE, TASK
from sessions_app.authorization import RANK, Action, Actor, require_user
from sessions_app.core.errors import NotPermitted
from sessions_app.models import AuditLog
from sessions_app.models.audit import DISPATCH
from sessions_app.models.tenants import Role
from sessions_app.selectors.sessions import project_resolve
from sessions_app.selectors.tenants import domain_named, domains_visible

SLACK = timedelta(minutes=10)
"""Time by which the clock that dated a project may be ahead of the database's."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Place(NamedTuple):
    """The position of an entry in the log."""

    time: datetime
    id: int

    def __str__(self) -> str:
        return f"{(self.time - _EPOCH) // timedelta(microseconds=1)}-{self.id}"


def place_parsed(text: str) -> Place:
    """Return the position that `str` wrote. Raises `ValueError` or `OverflowError`."""
    micros, _, key = text.partition("-")
    found = Place(_EPOCH + timedelta(microseconds=int(micros)), int(key))
    if str(found) != text or not 0 <= found.id < 2**63:
        raise ValueError("is not a valid cursor")
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters for entries; all that are given must match."""

    actor: str | None = None
    action: str | None = None
    object_type: str | None = None
    object_id: str | None = None
    project: str | None = None
    domain: str | None = None
    door: str | None = None
    automatic: bool | None = None
    session: UUID | None = None
    chain: UUID | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def _condition(sql: str, *parameters: object) -> RawSQL:
    return RawSQL(sql, parameters, output_field=BooleanField())  # noqa: S611  # constants


# Constants in the text, not parameters: only then can a cached plan use the partial indexes.
PEOPLE = _condition(f"sessions_app_auditlog.actor <> '{ENGINE}'")
_NO_DISPATCH = _condition(f"sessions_app_auditlog.action <> '{DISPATCH}'")
NO_SESSION = _condition("sessions_app_auditlog.object_type <> 'session'")


def audit_entries(wanted: Wanted) -> QuerySet[AuditLog]:
    """Return the entries that match the filters, in all scopes."""
    plain = {
        "actor": ENGINE if wanted.automatic else wanted.actor,
        "action": wanted.action,
        "object_type": wanted.object_type,
        "object_id": wanted.object_id,
        "door": wanted.door,
        "root": wanted.chain,
        "time__gte": wanted.created_after,
        "time__lt": wanted.created_before,
    }
    found = AuditLog.objects.filter(**{k: v for k, v in plain.items() if v is not None})
    if wanted.session is not None:
        found = found.filter(object_type="session", object_id=str(wanted.session))
    if wanted.automatic and wanted.actor not in {None, ENGINE}:
        return found.none()
    if wanted.automatic is False or wanted.actor not in {None, ENGINE}:
        found = found.filter(PEOPLE)
    elif wanted.door not in {None, TASK}:
        found = found.filter(PEOPLE)  # the engine has no other door
    if wanted.action not in {None, DISPATCH}:
        found = found.filter(_NO_DISPATCH)
    if wanted.object_type not in {None, "session"}:
        found = found.filter(NO_SESSION)
    return found


def audit_page(
    actor: Actor, wanted: Wanted, *, limit: int, place: Place | None = None, newer: bool = False
) -> list[AuditLog]:
    """Return at most `limit` entries that the actor may see, newest first, after `place`.

    With `newer`, return the nearest entries before `place`, oldest first. Raises `NotPermitted`,
    and `InvalidInput` for a project or a domain that does not exist for the actor.
    """
    order = ("time", "id") if newer else ("-time", "-id")
    rows = audit_entries(wanted)
    if place is not None:
        columns = "(sessions_app_auditlog.time, sessions_app_auditlog.id)"
        sign = ">" if newer else "<"
        rows = rows.filter(_condition(f"{columns} {sign} (%s::timestamptz, %s::bigint)", *place))
    scopes = _scopes(actor, wanted)
    # Each scope uses its own index, and reads no more than a page.
    first, *others = [rows.filter(scope).order_by(*order)[:limit] for scope in scopes]
    if not others:
        return list(first)
    return list(first.union(*others, all=True).order_by(*order)[:limit])


def _scopes(actor: Actor, wanted: Wanted) -> Sequence[Q]:
    """Return conditions for what the actor may see of the entries; no entry matches two of them."""
    require_user(actor)
    if actor.is_cluster_admin:
        named = {"project": wanted.project, "domain": wanted.domain}
        return [Q(**{field: name for field, name in named.items() if name is not None})]
    if wanted.project is not None:
        project = project_resolve(actor, wanted.project, Action.AUDIT_READ)
        within = Q() if wanted.domain is None else Q(domain=wanted.domain)
        return [within & _since(project.created_at, project=project.address)]
    if wanted.domain is not None:
        domain = domain_named(actor, wanted.domain, Action.AUDIT_READ)
        return [_since(domain.created_at, domain=domain.name)]
    return _own_scopes(actor)


def _own_scopes(actor: Actor) -> Sequence[Q]:
    least = RANK[Role.DOMAIN_ADMIN]
    domains = [each for each in domains_visible(actor) if actor.rank_in_domain(each) >= least]
    projects = actor.projects(least=Role.MAINTAINER).exclude(domain__in=domains)
    found = [_since(each.created_at, domain=each.name) for each in domains]
    found += [
        _since(each.created_at, project=each.address) for each in projects.select_related("domain")
    ]
    if not found:
        raise NotPermitted("this needs the role maintainer or more in a project")
    return found


def _since(created_at: datetime, **scope: str) -> Q:
    """Return the condition for a scope, without an earlier one of the same name."""
    return Q(**scope, time__gte=created_at - SLACK)


def audit_all() -> QuerySet[AuditLog]:
    """Return the whole log: for operators, who may see all."""
    return AuditLog.objects.all()
