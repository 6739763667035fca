"""`manage.py check_heartbeat`: check a process without a port, for health checks."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import Error
from django.db.models.functions import Now

from reprise.models import Heartbeat
from reprise.monitoring import disk
from reprise.worker.heartbeats import DEAD_SECONDS


class Command(BaseCommand):
    """Exits with status 1 and one line if there was no recent heartbeat."""

    help = "Check whether a worker, or beat, sent a heartbeat recently."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("part", choices=("worker", "beat"))
        parser.add_argument(
            "--node", help="name of the process, such as celery@host (default: any)"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        part, node = options["part"], options["node"]
        since = Now() - timedelta(seconds=DEAD_SECONDS)
        found = Heartbeat.objects.filter(part=part, seen_at__gt=since)
        if node is not None:
            found = found.filter(name__startswith=f"{node}:")
        try:
            alive = found.exists()
            refused = "" if alive else _refused()
        except (Error, psycopg.Error) as error:
            raise CommandError(f"the database does not answer: {error}".splitlines()[0]) from error
        if refused:
            # A restart would not help.
            self.stdout.write(
                f"{node or part}: unknown, because the database cannot write: {refused}"
            )
            return
        if not alive:
            raise CommandError(f"{node or part}: no heartbeat for {DEAD_SECONDS:.0f} s")
        self.stdout.write(f"{node or part} is alive")


def _refused() -> str:
    with disk.connect() as connection:
        return disk.write_refused(connection, "check_heartbeat")
