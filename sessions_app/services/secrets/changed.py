"""The secret variables of an attempt whose specification a person changes.

They belong to whoever gave them. Somebody else who changes what runs would read them by printing
them, so the attempt does not get them then.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import IntegerField
from django.db.models.functions import Coalesce

from sessions_app.core.errors import InvalidInput, SecretUnreadable
from sessions_app.core.retry_changes import RUN_FIELDS, Changes
from sessions_app.models import Session
from sessions_app.services.secrets.stored import environ_read, environ_stored, too_large


class Secrets(NamedTuple):
    """The names of secret variables, what is stored of them, and the id of who gave them.

    `by` None: the user is gone.
    """

    names: tuple[str, ...] = ()
    stored: str | None = None
    by: int | None = None


NONE = Secrets()


def secrets_of(ids: Iterable[UUID]) -> dict[UUID, Secrets]:
    """Return the secrets of the sessions that have any, in one statement."""
    rows = Session.objects.filter(pk__in=ids, spec__secret_names__isnull=False)
    by = Coalesce("spec__secrets_by", "owner_id", output_field=IntegerField())
    found = rows.values_list("pk", "spec__secret_names", "spec__secret_environ", by)
    return {key: Secrets(tuple(names), stored, by) for key, names, stored, by in found}


def user_named(name: str) -> int | None:
    """Return the id of the user with a name; None if there is none."""
    return User.objects.filter(username=name).values_list("pk", flat=True).first()


def changed_secrets(had: Secrets, changes: Changes, by: int | None) -> dict[str, Any]:
    """Return what changes by the user `by` make of the secrets, as parts of the stored changes.

    Nothing if the secrets stay. The values of `secret_environ` are added, or replace those of the
    same names; a null in `environ` removes one. If somebody else gave the present ones, and what
    runs is changed, none of these is left. Raises `InvalidInput`.
    """
    if RUN_FIELDS.isdisjoint(changes):
        return {}
    environ, given = changes.get("environ") or {}, changes.get("secret_environ") or {}
    dropped = had.names if had.by is None or had.by != by else ()
    own = [] if dropped else [name for name in had.names if name not in given]
    kept = [name for name in own if environ.get(name, "") is not None]
    if both := sorted({*kept} & environ.keys()):
        text = f"has {', '.join(both[:5])}, which secret_environ also has"
        raise InvalidInput({"changes.environ": [text]})
    if not dropped and not given and len(kept) == len(had.names):
        return {}
    values = {**(_kept(had, kept, changes)), **given}
    if why := too_large(values):
        raise InvalidInput({"changes.secret_environ": [f"with those that it has, {why}"]})
    parts: dict[str, Any] = {
        "secrets": {"names": sorted(values), "stored": environ_stored(values), "by": by}
    }
    if dropped:
        parts["secrets_dropped"] = sorted(dropped)
    if given:
        parts["secret_environ"] = sorted(given)
    return parts


def _kept(had: Secrets, names: list[str], changes: Changes) -> Mapping[str, str]:
    try:
        found = environ_read(had.stored) if names else {}
    except SecretUnreadable as error:
        removed = sorted({*had.names} & (changes.get("environ") or {}).keys())
        field, verb = "secret_environ", "added to the others"
        if removed:
            field, verb = f"environ.{removed[0]}", "removed"
        text = f"cannot be {verb}: {error}"
        raise InvalidInput({f"changes.{field}": [text]}) from None
    return {name: found[name] for name in names}
