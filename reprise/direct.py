"""Connections to the database beside Django's pool, for what must not wait for one of those."""

from typing import Any

import psycopg
from django.db import connection

CONNECT_SECONDS = 5
_DJANGOS_OWN = ("context", "cursor_factory", "prepare_threshold")


def parameters() -> dict[str, Any]:
    """Django's connection parameters, less what only its own connections understand."""
    found = connection.get_connection_params()
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
    """A lasting connection in autocommit."""
    return psycopg.connect(**lasting(name), autocommit=True)
