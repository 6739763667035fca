"""`manage.py after_restore`: run once after PostgreSQL was restored by its own tools."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection

from reprise.upkeep.restored import mark_restored


class Command(BaseCommand):
    """Needed after a dump was restored and after point-in-time recovery; harmless when repeated."""

    help = "Make a database safe to use after it was restored to an earlier time."

    def handle(self, *_args: Any, **_options: Any) -> None:
        connection.ensure_connection()
        mark_restored(connection.connection, by="manage.py after_restore")
        self.stdout.write(
            "fencing tokens and event ids continue far above all that were used before"
        )
