"""Waits until the database has the tables that this code needs.

A process that starts before `migrate` has ended would fail at each call. What it needs is the list
of migrations on its disk. Once they all are there, nobody asks again.
"""

import logging
import threading
import time
from functools import cache
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

import psycopg
from django.apps import apps
from django.conf import settings
from django.db import connection as djangos
from django.db.migrations.loader import MigrationLoader

from reprise.postgresql.direct import brief
from sessions_app.db.initial_tables import INITIAL_TABLES, UNRELEASED

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
SAY_SECONDS = 60.0
ANSWER_SECONDS = 5.0
_APPLIED = "SELECT app, name FROM django_migrations"
_IS_NOTED = "SELECT to_regproc('reprise_initial_tables') IS NOT NULL"
_NOTED = "SELECT reprise_initial_tables()"


@cache
def _wanted() -> frozenset[tuple[str, str]]:
    """Return the apps and names of all migrations of this code, without importing them."""
    found = set()
    for config in apps.get_app_configs():
        module, _ = MigrationLoader.migrations_module(config.label)
        spec = find_spec(module) if module else None
        places = (spec and spec.submodule_search_locations) or ()
        found |= {(config.label, each.name) for each in iter_modules(places) if _counts(each.name)}
    return frozenset(found)


def _counts(name: str) -> bool:
    return name[0] not in "_~"  # as Django's loader


def unusable_in(connection: "psycopg.Connection[Any]") -> str:
    """Return why this code cannot use the tables of the database; "" if it can, and if there are
    none."""
    return _unusable(connection, _applied(connection))


def _unusable(connection: "psycopg.Connection[Any]", applied: set[tuple[str, str]]) -> str:
    if ("sessions_app", "0001_initial") not in applied:
        return ""
    if connection.execute(_IS_NOTED).fetchone() == (True,):
        noted = connection.execute(_NOTED).fetchone()
        return "" if noted == (INITIAL_TABLES,) else UNRELEASED
    return UNRELEASED


def _applied(connection: "psycopg.Connection[Any]") -> set[tuple[str, str]]:
    try:
        return set(connection.execute(_APPLIED).fetchall())
    except psycopg.errors.UndefinedTable:
        return set()


def missing_in(connection: "psycopg.Connection[Any]") -> str:
    """Return which migrations the database lacks, in words; "" if it has all that are needed."""
    applied = _applied(connection)
    if unusable := _unusable(connection, applied):
        return unusable
    lacking = sorted(_wanted() - applied)
    if not lacking:
        return ""
    more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
    first = ".".join(lacking[0])
    return f"the database lacks {first}{more}: run {settings.REPRISE_COMMAND} migrate"


class Tables:
    """What this process knows of the tables."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._complete = False
        self._looked = self._said = float("-inf")
        self._missing = ""

    def missing(self) -> str:
        """Return which migrations are missing, in words, as of a second ago; "" if none is.

        Also "" while the database does not answer. Logs a warning once a minute.
        """
        if self._complete or djangos.vendor != "postgresql":
            return ""  # a process without a database, as of a check, needs no tables
        with self._lock:
            if not self._complete and time.monotonic() >= self._looked + LOOK_SECONDS:
                self._look()
            return self._missing

    def wait(self) -> None:
        """Return when no migration is missing, and the database has answered."""
        while self.missing() or not self._complete:
            time.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        try:
            with brief("reprise-tables", ANSWER_SECONDS) as connection:
                self._missing = missing_in(connection)
        except psycopg.Error as error:
            logger.info("cannot look which tables are there: %s", error)
        else:
            self._complete = not self._missing
            self._say()
        self._looked = time.monotonic()

    def _say(self) -> None:
        now = time.monotonic()
        if self._missing and now >= self._said + SAY_SECONDS:
            logger.warning("waiting for tables: %s", self._missing)
            self._said = now
        elif self._complete and self._said > 0:
            logger.warning("all tables are there")


tables = Tables()
"""Those of this process."""
