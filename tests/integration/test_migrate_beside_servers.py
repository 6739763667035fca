"""Two `manage.py migrate` at a time."""

import os
import subprocess
import sys
from contextlib import closing
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.db import connection

from reprise.postgresql.direct import parameters
from sessions_app.locks import AdvisoryLock
from tests.waiting import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]


def _address() -> dict[str, Any]:
    wanted = ("host", "port", "user", "password", "passfile")
    return {name: value for name, value in parameters().items() if name in wanted}


def connected(url: str) -> "psycopg.Connection[Any]":
    return psycopg.connect(url, autocommit=True)


def environ(url: str) -> dict[str, str]:
    parameters = psycopg.conninfo.conninfo_to_dict(url)
    account = f"{parameters.get('user', '')}:{parameters.get('password') or ''}".rstrip(":")
    host = str(parameters.get("host", "")).replace("/", "%2F")
    file = quote(str(parameters.get("passfile") or ""), safe="")
    query = f"?passfile={file}" if file else ""
    port, name = parameters.get("port") or 5432, parameters["dbname"]
    address = f"postgres://{account}@{host}:{port}/{name}{query}"
    return {**os.environ, "DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "reprise.settings"}


def test_a_second_migrate_waits_for_the_first_one() -> None:
    """It is not an old transaction meanwhile, for which an index of the first one would wait."""
    key = AdvisoryLock.MIGRATE.value
    parameters = connection.settings_dict
    url = psycopg.conninfo.make_conninfo(**{**_address(), "dbname": parameters["NAME"]})
    with closing(connected(url)) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [key])
        command = [sys.executable, "manage.py", "migrate", "--noinput"]
        second = subprocess.Popen(command, env=environ(url), stdout=subprocess.DEVNULL)
        asks = "SELECT state FROM pg_stat_activity WHERE application_name = 'reprise-migrate'"
        until(lambda: other.execute(asks).fetchone() == ("idle",), "it asks")
        assert second.poll() is None
        other.execute("SELECT pg_advisory_unlock(%s)", [key])
        assert second.wait(120) == 0
