"""Settings that come from standalone's data directory and options, alike in all its processes."""

import logging
import os
import pwd
from pathlib import Path

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from reprise.settings import database
from reprise.standalone.credentials import encryption_keys, secret_key

POOL_SIZE = 24
"""Maximum number of Django's connections of a process that does everything."""
WEB_POOL_SIZE = 16
"""The same of a web process, and of the process beside such ones."""
CONNECTIONS = 100
"""Connections that the embedded PostgreSQL allows at least."""
PROCESS_CONNECTIONS = WEB_POOL_SIZE + 4
"""Those of a web process: the pool, wake-ups, streams, the disk's watch, a probe."""
LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""The address under which a server that listens on all addresses is reached locally."""


def connections_wanted(web_processes: int) -> int:
    """Return how many connections PostgreSQL has to allow for so many web processes.

    A fifth of `CONNECTIONS` is left to the main process, and to people with `psql` or `backup`.
    """
    return max(CONNECTIONS, CONNECTIONS // 5 + PROCESS_CONNECTIONS * web_processes)


def configure(data_dir: Path, *, host: str, isolate: str) -> None:
    """Complete the settings. Secrets that are missing are made and kept in `data_dir`."""
    if isolate == "off":
        settings.REPRISE_RUNS_AS = own_user()
    settings.SECRET_KEY = secret_key(data_dir)
    if settings.GIVEN.encryption_keys is None:
        settings.ENCRYPTION_KEYS = encryption_keys(data_dir)
    settings.REPRISE_DEFAULT_PROJECT = settings.REPRISE_DEFAULT_PROJECT or "default/default"
    # A server on all addresses is reached under names that are not known here.
    names = "*" if host in LOOPBACK else host
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, names]


def own_user() -> str:
    """Return the name of this process's user, or its number."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def use_database(url: str, pool_size: int = POOL_SIZE) -> None:
    """Make Django use this database; before its first connection."""
    # The pool logs each connection that our own PostgreSQL closes when it stops; callers report
    # their errors themselves.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    wanted = connections.settings[DEFAULT_DB_ALIAS]
    wanted.update(database(url, pool_size))
    connections[DEFAULT_DB_ALIAS].settings_dict = wanted
