"""Secrets on their way into the database and out of it."""

import json
from collections.abc import Mapping

from django.conf import settings

WEBHOOK_SECRET = "whsec_"  # noqa: S105  # how they begin
"""As Standard Webhooks writes them; what is encrypted never begins so."""


def secret_stored(secret: str) -> str:
    """A text as it is to be stored."""
    return settings.ENCRYPTION_KEYS.encrypt(secret)


def secret_read(stored: str) -> str:
    """What was stored, also by a version that did not encrypt; raises `SecretUnreadable`."""
    if stored.startswith(WEBHOOK_SECRET):
        return stored
    return settings.ENCRYPTION_KEYS.decrypt(stored)


def environ_stored(environ: Mapping[str, str]) -> str | None:
    """Variables as they are to be stored; None if there are none."""
    return secret_stored(json.dumps(environ)) if environ else None


def environ_read(stored: str | None) -> dict[str, str]:
    """The variables that were stored; raises `SecretUnreadable`."""
    return {} if stored is None else json.loads(secret_read(stored))
