"""`manage.py rebuild_failures`: make anew what sweeps keep of the log: failures, reports, breakers,
and what counts in shared budgets."""

from typing import Any

from django.core.management.base import BaseCommand

from reprise.upkeep.retention import complete_from
from sessions_app.locks import database_now
from sessions_app.services.breakers.sweep import breakers_rebuild
from sessions_app.services.budgets.sweep import budgets_rebuild
from sessions_app.services.failures.count import failures_rebuild


class Command(BaseCommand):
    """Can be stopped and run again at any time; everything works meanwhile."""

    help = (
        "Count failures by their signatures anew, what retries were worth, and what opens breakers "
        "and counts in shared budgets, from the whole log. Lists and reports grow meanwhile. What "
        "people opened, closed or muted stays."
    )

    def handle(self, *_args: Any, **_options: Any) -> None:
        counted = failures_rebuild(complete_from(database_now()))
        self.stdout.write(f"counted {counted} ends of attempts")
        self.stdout.write(f"open breakers: {breakers_rebuild()}")
        self.stdout.write(f"spent budgets: {budgets_rebuild()}")
