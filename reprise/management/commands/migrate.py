"""`manage.py migrate`: as Django's, while servers of the version before still run."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.migrations.recorder import MigrationRecorder

from reprise.postgresql.direct import connect
from reprise.postgresql.schema import (
    PAUSE_SECONDS,
    OnlineSchemaEditor,
    Patience,
    lacks_lock,
    short_waits,
)
from reprise.postgresql.tables import unusable_in
from sessions_app.locks import AdvisoryLock

READING = ("plan", "check_unapplied")
"""Options with which nothing is changed."""


class Command(migrate.Command):
    """Runs one at a time; a change that gets no locks at once is tried again for a while."""

    help = f"{migrate.Command.help} Servers of the previous version may keep running."

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate, with an exclusive lock and short lock waits."""
        connection = connections[options["database"]]
        if connection.vendor != "postgresql" or any(options[name] for name in READING):
            super().handle(*args, **options)
            return
        with self._only_one() as lock, short_waits(connection):
            if unusable := unusable_in(lock):
                raise CommandError(unusable)
            usual = connection.SchemaEditorClass
            connection.SchemaEditorClass = OnlineSchemaEditor
            try:
                self._until_done(connection, *args, **options)
            finally:
                connection.SchemaEditorClass = usual

    def _until_done(self, connection: Any, *args: Any, **options: Any) -> None:
        """Continue with the first migration not applied, as long as only locks were missing."""
        patience: defaultdict[int, Patience] = defaultdict(lambda: Patience(connection))
        while True:
            try:
                super().handle(*args, **options)
            except OperationalError as error:
                if not lacks_lock(error):
                    raise
                self.stdout.write(f" waiting: {error}".splitlines()[0])
                applied = MigrationRecorder(connection).applied_migrations()
                patience[len(applied)].pause(error)
            else:
                return

    @contextmanager
    def _only_one(self) -> Iterator["psycopg.Connection[Any]"]:
        """Hold the lock that allows one migration at a time, on the connection that it yields.

        The lock is polled: a statement that waited for it would be an old transaction, for which
        the other migration waits when it builds an index.
        """
        with connect("reprise-migrate") as lock:
            query = "SELECT pg_try_advisory_lock(%s)"
            while lock.execute(query, [AdvisoryLock.MIGRATE.value]).fetchone() != (True,):
                time.sleep(PAUSE_SECONDS)
            yield lock
