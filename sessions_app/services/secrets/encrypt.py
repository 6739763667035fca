"""Encrypts secrets under the newest key that are stored under older ones or in the clear.

It goes slice by slice, each a short transaction: submissions and leases continue meanwhile, since
every process can read what is encrypted under any of its keys.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction

from sessions_app.audit.context import audited
from sessions_app.core.encryption import EncryptionKeys
from sessions_app.core.errors import SecretUnreadable
from sessions_app.db.bulk import columns
from sessions_app.locks import (
    StoredSecret,
    claim_decisions_under,
    claim_specs_under,
    lock_webhooks_under,
)
from sessions_app.services.secrets.stored import secret_read, secret_stored

SLICE = 500

# One index lookup for each key, however many rows there are.
_KEYS_OF_SPECS = """
    WITH RECURSIVE keys(id) AS (
        (SELECT left(secret_environ, 8) FROM sessions_app_sessionspec
            WHERE secret_environ IS NOT NULL ORDER BY 1 LIMIT 1)
        UNION ALL
        SELECT (SELECT left(secret_environ, 8) FROM sessions_app_sessionspec
            WHERE secret_environ IS NOT NULL AND left(secret_environ, 8) > keys.id
            ORDER BY 1 LIMIT 1)
        FROM keys WHERE keys.id IS NOT NULL)
    SELECT id FROM keys WHERE id IS NOT NULL
"""
_KEYS_OF_WEBHOOKS = r"""
    SELECT DISTINCT left(stored, 8) FROM sessions_app_webhookendpoint,
        unnest(ARRAY[secret, previous_secret]) AS stored
    WHERE stored <> '' AND stored NOT LIKE 'whsec\_%'
"""
_KEYS_OF_DECISIONS = """
    SELECT DISTINCT left(changes #>> '{secrets,stored}', 8) FROM sessions_app_retrydecision
    WHERE changes ? 'secrets' AND changes #>> '{secrets,stored}' IS NOT NULL
"""
_SAVE_DECISIONS = """
    UPDATE sessions_app_retrydecision d
    SET changes = jsonb_set(d.changes, '{secrets,stored}', to_jsonb(v.stored))
    FROM unnest(%s::uuid[], %s::text[]) AS v(id, stored) WHERE d.session_id = v.id
"""
_SAVE_SPECS = """
    UPDATE sessions_app_sessionspec s SET secret_environ = v.stored
    FROM unnest(%s::uuid[], %s::text[]) AS v(id, stored) WHERE s.id = v.id
"""
_SAVE_WEBHOOKS = """
    UPDATE sessions_app_webhookendpoint w SET secret = v.secret, previous_secret = v.previous
    FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS v(id, secret, previous) WHERE w.id = v.id
"""
_READY = """
    SELECT count(*) FROM pg_attribute
    WHERE attrelid = to_regclass('sessions_app_sessionspec') AND attname = 'secrets_by'
"""


class Encrypted(NamedTuple):
    """The numbers of records that were encrypted again."""

    webhooks: int
    sessions: int


def keys_in_use() -> set[str]:
    """Return the ids of the keys that stored secrets need."""
    found: set[str] = set()
    with connection.cursor() as cursor:
        for query in (_KEYS_OF_SPECS, _KEYS_OF_WEBHOOKS, _KEYS_OF_DECISIONS):
            cursor.execute(query)
            found.update(key for (key,) in cursor.fetchall())
    return found


def secrets_check() -> None:
    """Raise `SecretUnreadable` if a secret is stored under a key that this process does not have.

    Does nothing before the tables exist.
    """
    with connection.cursor() as cursor:
        cursor.execute(_READY)
        if cursor.fetchone() == (0,):
            return
    if missing := keys_in_use() - set(_keys().ids):
        raise SecretUnreadable(
            f"secrets in the database need the key {', '.join(sorted(missing))}, which is not in "
            "REPRISE_ENCRYPTION_KEYS: put it there again (docs/production.md)"
        )


def secrets_encrypt() -> Encrypted:
    """Encrypt all secrets that are stored under an older key of this process, or in the clear.

    Raises `SecretUnreadable` for text that was changed since it was encrypted.
    """
    old = _keys().ids[1:]
    # Retries that wait first: dispatch copies their secrets into specifications.
    waiting = sum(_all_of(partial(_decisions_slice, key)) for key in old)
    specs = sum(_all_of(partial(_specs_slice, key)) for key in old)
    return Encrypted(_all_of(_webhooks_slice), waiting + specs)


def _keys() -> EncryptionKeys:
    keys: EncryptionKeys = settings.ENCRYPTION_KEYS
    return keys


def _all_of(step: Callable[[], int]) -> int:
    done = 0
    while found := step():
        done += found
    return done


def _decisions_slice(key: str) -> int:
    return _slice(claim_decisions_under, key, _SAVE_DECISIONS)


def _specs_slice(key: str) -> int:
    return _slice(claim_specs_under, key, _SAVE_SPECS)


def _slice(claim: Callable[[str, int], list[StoredSecret]], key: str, save: str) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        rows = [(each.id, _anew(each.stored)) for each in claim(key, SLICE)]
        if rows:
            cursor.execute(save, columns(rows))
    return len(rows)


def _webhooks_slice() -> int:
    with (
        audited(by="", action="webhook.encrypt"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        found = lock_webhooks_under(_keys().ids[1:], SLICE)
        rows = [(each.id, _anew(each.secret), _anew(each.previous)) for each in found]
        if rows:
            cursor.execute(_SAVE_WEBHOOKS, columns(rows))
    return len(rows)


def _anew(stored: str) -> str:
    """Return the secret under the newest key; unchanged if it cannot be read or is already so."""
    keys = _keys()
    key, encrypted, _ = stored.partition(".")
    kept = key == keys.newest or key not in keys.ids if encrypted else not stored
    return stored if kept else secret_stored(secret_read(stored))
