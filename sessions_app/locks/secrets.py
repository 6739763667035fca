"""Locks of encrypted values while they are encrypted under another key.

Nothing is locked after these rows: whoever changes a session or a webhook waits for one slice.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import connection

_OLD_SPECS = """
    SELECT id, secret_environ FROM sessions_app_sessionspec
    WHERE secret_environ IS NOT NULL AND left(secret_environ, 8) = %s
    LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
_OLD_DECISIONS = """
    SELECT session_id, changes #>> '{secrets,stored}' FROM sessions_app_retrydecision
    WHERE changes ? 'secrets' AND left(changes #>> '{secrets,stored}', 8) = %s
    LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
"""
_OLD_WEBHOOKS = """
    SELECT id, secret, previous_secret FROM sessions_app_webhookendpoint
    WHERE secret LIKE %(plain)s OR left(secret, 8) = ANY(%(old)s)
        OR previous_secret LIKE %(plain)s OR left(previous_secret, 8) = ANY(%(old)s)
    LIMIT %(limit)s FOR NO KEY UPDATE
"""
_PLAIN = r"whsec\_%"


class StoredSecret(NamedTuple):
    """The secrets of a specification, or of a retry that waits, as they are stored."""

    id: UUID
    stored: str


class WebhookSecrets(NamedTuple):
    """The secrets of a webhook, as they are stored."""

    id: UUID
    secret: str
    previous: str


def claim_specs_under(key: str, limit: int) -> list[StoredSecret]:
    """Lock specifications whose secrets are stored under a key, but for those others hold."""
    return _claimed(_OLD_SPECS, key, limit)


def claim_decisions_under(key: str, limit: int) -> list[StoredSecret]:
    """Lock decisions whose changes have secrets that are stored under a key, likewise."""
    return _claimed(_OLD_DECISIONS, key, limit)


def _claimed(statement: str, key: str, limit: int) -> list[StoredSecret]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [key, limit])
        return [StoredSecret._make(row) for row in cursor.fetchall()]


def lock_webhooks_under(keys: Sequence[str], limit: int) -> list[WebhookSecrets]:
    """Lock webhooks with a secret that is stored under one of the keys, or in the clear."""
    with connection.cursor() as cursor:
        cursor.execute(_OLD_WEBHOOKS, {"plain": _PLAIN, "old": list(keys), "limit": limit})
        return [WebhookSecrets._make(row) for row in cursor.fetchall()]
