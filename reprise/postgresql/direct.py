"""Connections to the database beside Django's pool, for what must not wait for one of those."""

from typing import Any

import psycopg
from django.db import connection as djangos

from reprise.postgresql.known_server import see_server

CONNECT_SECONDS = 3
_DJANGOS_OWN = ("context", "cursor_factory", "prepare_threshold")


def parameters() -> dict[str, Any]:
    """Django's connection parameters, less what only its own connections understand."""
    found = djangos.get_connection_params()
    return {name: value for name, value in found.items() if name not in _DJANGOS_OWN}


def lasting(name: str) -> dict[str, Any]:
    """Parameters of a connection that stays open; `name` is what the server's list calls it.

    Both sides notice within some 25 s that the other one is gone without a word.
    """
    given = parameters()
    return {
        **given,
        "connect_timeout": CONNECT_SECONDS,
        "application_name": name,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "options": f"{given.get('options', '')} -c tcp_keepalives_idle=10 "
        "-c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
    }


def connect(name: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """A lasting connection in autocommit, to a server that is known."""
    connection = psycopg.connect(**lasting(name), autocommit=True)
    try:
        see_server(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def brief(name: str, seconds: float) -> "psycopg.Connection[tuple[Any, ...]]":
    """A connection in autocommit for one question, which is given up after `seconds`."""
    given = lasting(name)
    limit = round(1000 * seconds)
    limits = f"-c statement_timeout={limit} -c lock_timeout={limit}"
    return psycopg.connect(**{**given, "options": f"{given['options']} {limits}"}, autocommit=True)
