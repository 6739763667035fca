"""The PostgreSQL of a benchmark: the one in `DATABASE_URL`, or an embedded one."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import django

# Without any, as for commands that need none. Django reads it with the first module of the product.
if os.environ.get("DATABASE_URL") == "none":
    del os.environ["DATABASE_URL"]


@contextmanager
def benchmark_database(name: str) -> Iterator[str]:
    """Yield the URL of an empty, migrated database `name` that Django uses; drop it afterwards."""
    import psycopg
    from django.core.management import call_command
    from django.db import connections

    base = os.environ.get("DATABASE_URL")
    django.setup()
    from reprise.standalone.postgres import EmbeddedPostgres

    directory = Path(tempfile.mkdtemp(prefix="reprise-bench-"))
    server: EmbeddedPostgres | None = None
    try:
        if not base:
            server = EmbeddedPostgres(directory)
            base = server.start()
        with psycopg.connect(base, autocommit=True) as conn:
            conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            conn.execute(f'CREATE DATABASE "{name}"')
        url = urlsplit(base)._replace(path=f"/{name}").geturl()
        use_instead(url)
        call_command("migrate", verbosity=0, interactive=False)
        yield url
        connections.close_all()
        if server is None:
            with psycopg.connect(base, autocommit=True) as conn:
                conn.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def use_instead(url: str) -> None:
    """Make Django use this database instead of the one before."""
    from django.db import connection, connections

    from reprise.standalone.configuration import use_database

    connections.close_all()
    connection.close_pool()  # type: ignore[attr-defined]  # its stubs know nothing of pools
    use_database(url)
