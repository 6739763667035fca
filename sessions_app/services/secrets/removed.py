"""The secret variables of a session that changes of its next attempt leave."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from sessions_app.core.retry_changes import Changes
from sessions_app.models import Session
from sessions_app.services.secrets.stored import environ_read, environ_stored


def removed_variables(changes: Changes | None) -> set[str]:
    """Return the names of the variables that changes remove."""
    return {name for name, value in (changes or {}).get("environ", {}).items() if value is None}


def secrets_of(ids: Iterable[UUID]) -> dict[UUID, tuple[Sequence[str], str]]:
    """Return the names of the secrets and their stored text, for sessions that have any."""
    rows = Session.objects.filter(pk__in=ids, spec__secret_names__isnull=False)
    found = rows.values_list("pk", "spec__secret_names", "spec__secret_environ")
    return {key: (names or (), stored or "") for key, names, stored in found}


def secrets_left(names: Sequence[str], stored: str, changes: Changes | None) -> str | None:
    """Return the secrets without what changes remove, as they are stored.

    "" if none are left; then nothing is read. None if all are. Raises `SecretUnreadable`.
    """
    removed = removed_variables(changes)
    if removed.isdisjoint(names):
        return None
    kept = [name for name in names if name not in removed]
    environ = environ_read(stored) if kept else {}
    return environ_stored({name: environ[name] for name in kept}) or ""
