"""Saves and deletes operators' configuration records, on behalf of somebody.

The audit log names that person. For records whose saving involves nothing else; others have a
service of their own.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager

from django.db import models, transaction

from sessions_app.audit.context import audited
from sessions_app.core.errors import InvalidInput
from sessions_app.locks.resources import lock_record

CHANGE = "change"


def record_save(
    record: models.Model,
    *,
    by: str,
    fields: Collection[str] | None = None,
    many: Mapping[str, Iterable[models.Model]] | None = None,
    verb: str = CHANGE,
) -> None:
    """Save a record, and the members of its many-to-many fields in `many`.

    If the record exists and `fields` are given, only those are written: others may belong to
    somebody else, such as an executor's heartbeat. A change is audited as `verb`; saving equal
    values leaves no entry.
    """
    with _on_behalf(record, verb, by), transaction.atomic():
        stored = lock_record(record)
        update_fields = None if fields is None or stored is None else fields
        record.save(update_fields=_concrete(record, update_fields))
        for name, members in (many or {}).items():
            getattr(record, name).set(members)


def record_delete(record: models.Model, *, by: str) -> None:
    """Delete a record with everything that belongs to it."""
    with audited(by=by), transaction.atomic():
        stored = lock_record(record)
        if stored is not None:
            stored.delete()


def cordon_check(*, cordoned: bool, reason: str) -> None:
    """Raise `InvalidInput` if it is cordoned without a reason."""
    if cordoned and not reason.strip():
        raise InvalidInput({"cordon_reason": ["Say why it is cordoned."]})


def record_type(kind: type[models.Model]) -> str:
    """Return the name of a kind of record in the audit log: `queue`, `periodic_task`."""
    return str(kind._meta.verbose_name).lower().replace(" ", "_")


def _concrete(record: models.Model, wanted: Collection[str] | None) -> list[str] | None:
    if wanted is None:
        return None
    known = [field.name for field in record._meta.concrete_fields]
    return [name for name in known if name in wanted]


def _on_behalf(record: models.Model, verb: str, by: str) -> AbstractContextManager[None]:
    action = "" if verb == CHANGE else f"{record_type(type(record))}.{verb}"
    return audited(by=by, action=action)
