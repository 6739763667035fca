"""Connections to the database outside Django's pool, for uses that must not wait for the pool."""

from typing import Any

import psycopg
from django.db import connection as djangos

from reprise.postgresql.known_server import see_server

CONNECT_SECONDS = 3
_DJANGOS_OWN = ("context", "cursor_factory", "prepare_threshold")


def parameters() -> dict[str, Any]:
    """Return Django's connection parameters, without those that only Django uses."""
    found = djangos.get_connection_params()
    return {name: value for name, value in found.items() if name not in _DJANGOS_OWN}


def lasting(name: str) -> dict[str, Any]:
    """Return the parameters of a connection that stays open; `name` is its application name.

    Both sides notice within some 25 s if the other one vanishes.
    """
    given = parameters()
    return {
        **given,
        "connect_timeout": CONNECT_SECONDS,
        "application_name": name,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "options": f"{given['options']} -c tcp_keepalives_idle=10 "
        "-c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
    }


def connect(name: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Return a lasting connection in autocommit mode, to a server that is known."""
    connection = psycopg.connect(**lasting(name), autocommit=True)
    try:
        see_server(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def brief(name: str, seconds: float) -> "psycopg.Connection[tuple[Any, ...]]":
    """Return a connection in autocommit mode whose statements time out after `seconds`."""
    given = lasting(name)
    limit = round(1000 * seconds)
    limits = f"-c statement_timeout={limit} -c lock_timeout={limit}"
    return psycopg.connect(**{**given, "options": f"{given['options']} {limits}"}, autocommit=True)
