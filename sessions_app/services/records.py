"""Configuration records of operators: saved and deleted together with their audit entries.

For records whose saving keeps nothing else together; others have a service of their own.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from typing import Any

from django.db import models, transaction

from sessions_app.errors import InvalidInput
from sessions_app.locks import database_now
from sessions_app.services.audit import AuditRow, audit_append

SECRET = frozenset({"password", "digest", "secret", "previous_secret"})
"""Of these fields the audit log says only whether they changed."""
UNTOLD = frozenset(
    {
        *("id", "last_login", "last_used_at", "created_at", "date_joined"),
        # The place of a reader in the log.
        *("epoch", "xid", "event_id"),
    }
)
JSON_KINDS = (bool, int, float, str, dict, list)


def record_save(
    record: models.Model,
    *,
    by: str,
    fields: Collection[str] | None = None,
    many: Mapping[str, Iterable[models.Model]] | None = None,
    verb: str = "change",
) -> None:
    """Save a record, and for its many-to-many fields in `many` the members.

    Of a record that is there only `fields` are written, if given: the others may be somebody
    else's, such as an executor's heartbeat. Audits what was there before and after, a change as
    `verb`; saving what is there already leaves no entry.
    """
    many = many or {}
    with transaction.atomic():
        stored = _locked(record)
        told = None if fields is None or stored is None else {*fields, *many}
        before, hidden = (record_facts(stored, told), _hidden(stored)) if stored else ({}, {})
        record.save(update_fields=_concrete(record, told))
        for name, members in many.items():
            getattr(record, name).set(members)
        # Read anew, so that before and after are both as the database gives them.
        saved = type(record)._base_manager.get(pk=record.pk)  # noqa: SLF001  # Django's, for all
        after = record_facts(saved, told)
        if stored:
            # That they did, not to what.
            now = _hidden(saved)
            after |= {name: "changed" for name in now if now[name] != hidden[name]}
        if before != after:
            _audit(record, verb if stored else "create", before, after, by)


def record_delete(record: models.Model, *, by: str) -> None:
    """Delete a record with all that belongs to it; its last state is audited."""
    with transaction.atomic():
        stored = _locked(record)
        if stored is not None:
            _audit(record, "delete", record_facts(stored), {}, by)
            stored.delete()


def cordon_check(*, cordoned: bool, reason: str) -> None:
    """Raise `InvalidInput` if what is closed to new work does not say why."""
    if cordoned and not reason.strip():
        raise InvalidInput({"cordon_reason": ["Say why it is cordoned."]})


def record_type(kind: type[models.Model]) -> str:
    """The name of a kind of record in the audit log: `queue`, `periodic_task`."""
    return str(kind._meta.verbose_name).lower().replace(" ", "_")  # noqa: SLF001


def record_facts(record: models.Model, wanted: Collection[str] | None = None) -> dict[str, Any]:
    """Fields of a record (None: all) as JSON values, other records by name; nothing secret."""
    facts = {
        field.name: _value(getattr(record, field.name))
        for field in record._meta.concrete_fields  # noqa: SLF001
        if field.name not in SECRET | UNTOLD and (wanted is None or field.name in wanted)
    }
    for many in record._meta.many_to_many:  # noqa: SLF001
        if wanted is None or many.name in wanted:
            facts[many.name] = sorted(str(member) for member in _members(record, many.name))
    return facts


def _concrete(record: models.Model, wanted: Collection[str] | None) -> list[str] | None:
    if wanted is None:
        return None
    known = [field.name for field in record._meta.concrete_fields]  # noqa: SLF001
    return [name for name in known if name in wanted]


def _members(record: models.Model, name: str) -> models.QuerySet[models.Model]:
    found: models.QuerySet[models.Model] = getattr(record, name).all()
    # A project's name is its address, which is told by its domain, too.
    return found.select_related("domain") if hasattr(found.model, "domain") else found


def _hidden(record: models.Model) -> dict[str, Any]:
    return {name: getattr(record, name, None) for name in SECRET}


def _value(value: Any) -> Any:
    if value is None or isinstance(value, JSON_KINDS):
        return value
    return value.isoformat() if isinstance(value, datetime | date) else str(value)


def _locked(record: models.Model) -> models.Model | None:
    rows = type(record)._base_manager.filter(pk=record.pk)  # noqa: SLF001
    return rows.select_for_update(no_key=True, of=("self",)).first() if record.pk else None


def _audit(
    record: models.Model, verb: str, before: dict[str, Any], after: dict[str, Any], by: str
) -> None:
    kind = record_type(type(record))
    project = getattr(record, "project", None)
    entry = AuditRow(
        by,
        f"{kind}.{verb}",
        kind,
        str(record)[:200],
        project.address if project is not None else "",
        {"before": before, "after": after},
    )
    audit_append([entry], now=database_now())
