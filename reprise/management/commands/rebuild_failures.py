"""`manage.py rebuild_failures`: count the failures and the ended chains of the log anew."""

from typing import Any

from django.core.management.base import BaseCommand

from reprise.upkeep.retention import complete_from
from sessions_app.locks import database_now
from sessions_app.services.failures.count import failures_rebuild


class Command(BaseCommand):
    """Can be stopped and run again at any time; everything works meanwhile."""

    help = (
        "Count failures by their signatures anew, and what retries were worth, from the whole log. "
        "Lists and reports grow meanwhile."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        counted = failures_rebuild(complete_from(database_now()))
        self.stdout.write(f"counted {counted} ends of attempts")
