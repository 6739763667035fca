"""`manage.py encrypt_secrets`: run after a new first key was set, and after an upgrade."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from sessions_app.audit.context import audited
from sessions_app.core.errors import SecretUnreadable
from sessions_app.services.secrets.encrypt import (
    Encrypted,
    keys_in_use,
    secrets_check,
    secrets_encrypt,
)

BY = "manage.py encrypt_secrets"
PATIENCE = 60.0
"""Seconds to wait for other transactions."""


class Command(BaseCommand):
    """Can be stopped and run again at any time; everything works meanwhile."""

    help = (
        "Encrypt the secrets in the database with the first of REPRISE_ENCRYPTION_KEYS, and list "
        "which other keys are no longer needed."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        try:
            with audited(by=BY):
                done = self._encrypt()
            secrets_check()
        except SecretUnreadable as error:
            raise CommandError(str(error)) from error
        keys = settings.ENCRYPTION_KEYS
        self.stdout.write(
            f"encrypted under the key {keys.newest}: the secrets of {done.webhooks} webhooks and "
            f"{done.sessions} sessions"
        )
        used = keys_in_use()
        for key in keys.ids[1:]:
            advice = "is still needed: run this again" if key in used else "can be removed once "
            if key not in used:
                advice += f"every process was started with {keys.newest} before it"
            self.stdout.write(f"the key {key} {advice}")

    def _encrypt(self) -> Encrypted:
        """Encrypt twice: a retry may have copied a secret that was being written the first time."""
        first = secrets_encrypt()
        if not _others_ended():
            self.stderr.write(
                "another transaction has been running for over a minute: run this again after it"
            )
        rest = secrets_encrypt()
        return Encrypted(first.webhooks + rest.webhooks, first.sessions + rest.sessions)


def _others_ended() -> bool:
    """Wait until all transactions that may write now have ended. Return whether they did."""
    until = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        ((border,),) = cursor.fetchall()
        while time.monotonic() < until:
            cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8", [border])
            if cursor.fetchone() == (True,):
                return True
            time.sleep(0.1)
    return False
