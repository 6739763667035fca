"""A new database gets at once what the migrations would leave in it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from reprise.standalone import first_schema
from reprise.standalone.first_schema import SCHEMA, create_schema
from reprise.standalone.postgres import EmbeddedPostgres
from tests.prepared import ROOT, copy_database, migrated_schema
from tests.waiting import PATIENCE_SECONDS

# What a first start does after the tables are there.
_FINISH = """
import sys
import django
django.setup()
from reprise.standalone.configuration import use_database
from reprise.standalone.server import _migrate
use_database(sys.argv[1])
_migrate()
"""
_AGE = "SELECT extract(epoch FROM clock_timestamp()) - reprise_epoch()"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
# Of each row what is the same in every database.
_ROWS = """
    SELECT (to_jsonb(t) - array(
        SELECT attname FROM pg_attribute
        WHERE attrelid = {name}::regclass AND (atttypid IN ('timestamptz'::regtype, 'uuid'::regtype)
            OR attname IN ('id', 'content_type_id', 'interval_id', 'object_key', 'after', 'changes',
                'system_identifier'))
    ))::text AS row FROM {table} t ORDER BY row
"""


@pytest.fixture
def new(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A server with a database in which nothing is."""
    server = EmbeddedPostgres(tmp_path / "new")
    server.start()
    yield server
    server.stop()


def _rows(url: str) -> dict[str, list[str]]:
    found = {}
    with psycopg.connect(url) as connection:
        for (name,) in connection.execute(_TABLES).fetchall():
            query = sql.SQL(_ROWS).format(name=name, table=sql.Identifier(name))
            found[name] = [row for (row,) in connection.execute(query).fetchall()]
    return found


def test_the_file_is_what_the_migrations_leave(prepared: Path, tmp_path: Path) -> None:
    assert SCHEMA.read_text() == migrated_schema(prepared, tmp_path), "run `make schema`"


def test_a_first_start_leaves_what_the_migrations_leave(
    new: EmbeddedPostgres, prepared: Path, tmp_path: Path
) -> None:
    migrated = EmbeddedPostgres(copy_database(prepared, tmp_path / "migrated"))
    assert create_schema(new.url)
    # Here a first start may be killed; the next one finishes.
    assert not create_schema(new.url)
    subprocess.run([sys.executable, "-c", _FINISH, new.url], cwd=ROOT, check=True)
    try:
        expected = _rows(migrated.start())
    finally:
        migrated.stop()
    rows = _rows(new.url)
    assert rows.keys() == expected.keys()
    for name, found in rows.items():
        assert found == expected[name], name
    assert rows["django_celery_beat_periodictask"]


def test_a_database_knows_when_it_was_new(new: EmbeddedPostgres) -> None:
    create_schema(new.url)

    with psycopg.connect(new.url) as connection:
        ((age,),) = connection.execute(_AGE).fetchall()
    assert 0 <= age + 1 < PATIENCE_SECONDS


def test_tables_that_are_there_are_left_alone(new: EmbeddedPostgres) -> None:
    with psycopg.connect(new.url) as connection:
        connection.execute("CREATE TABLE somebodys (id int)")

    assert not create_schema(new.url)
    assert list(_rows(new.url)) == ["somebodys"]


def test_another_version_of_postgresql_is_left_to_the_migrations(
    new: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "schema.sql"
    older.write_text(SCHEMA.read_text().replace("PostgreSQL 18;", "PostgreSQL 17;"))
    monkeypatch.setattr(first_schema, "SCHEMA", older)

    assert not create_schema(new.url)
    assert _rows(new.url) == {}


def test_a_schema_that_fails_leaves_nothing(
    new: EmbeddedPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "schema.sql"
    broken.write_text(SCHEMA.read_text() + "SELECT 1 / 0;\n")
    monkeypatch.setattr(first_schema, "SCHEMA", broken)

    with pytest.raises(psycopg.errors.DivisionByZero):
        create_schema(new.url)
    assert _rows(new.url) == {}
