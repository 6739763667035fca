"""Encryption of secrets on their way into the database, and decryption on their way out."""

import json
from collections.abc import Mapping

from django.conf import settings

WEBHOOK_SECRET = "whsec_"  # noqa: S105  # how they begin
"""The prefix of Standard Webhooks' secrets; encrypted text never begins so."""

MOST_SECRET = 512 * 1024
"""Most bytes of a session's secrets: roughly what a Secret of Kubernetes and its etcd can hold."""


def too_large(environ: Mapping[str, str]) -> str:
    """Return why a session cannot have so many secrets; "" if it can."""
    size = sum(len(each.encode()) for pair in environ.items() for each in pair)
    return f"holds more than {MOST_SECRET} bytes of names and values" if size > MOST_SECRET else ""


def secret_stored(secret: str) -> str:
    """Return a text encrypted, as it is stored."""
    return settings.ENCRYPTION_KEYS.encrypt(secret)


def secret_read(stored: str) -> str:
    """Return the secret, also one that an older version stored in the clear.

    Raises `SecretUnreadable`.
    """
    if stored.startswith(WEBHOOK_SECRET):
        return stored
    return settings.ENCRYPTION_KEYS.decrypt(stored)


def environ_stored(environ: Mapping[str, str]) -> str | None:
    """Return variables encrypted, as they are stored; None if there are none."""
    return secret_stored(json.dumps(environ)) if environ else None


def environ_read(stored: str | None) -> dict[str, str]:
    """Return the variables that were stored. Raises `SecretUnreadable`."""
    return {} if stored is None else json.loads(secret_read(stored))
