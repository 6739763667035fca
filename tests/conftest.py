"""Fixtures of all tests: a real PostgreSQL, found in the environment or started for the run."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings as hypothesis_settings

LONGEST_ID = 100
REQUIRED = os.environ.get("REPRISE_REQUIRE_SERVICES") == "1"
QUICK_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"

# How long an example takes is the machine's affair.
hypothesis_settings.register_profile("any machine", deadline=None)
hypothesis_settings.register_profile("few examples", deadline=None, max_examples=10)
hypothesis_settings.load_profile("any machine")


def unavailable(reason: str) -> None:
    """Skip with a reason and the way to get what is missing; in CI, fail."""
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a test by the beginning of a long value, so that a list of tests can be read."""
    if not isinstance(val, str | bytes | int):
        return None
    text = repr(val) if isinstance(val, int) else ascii(val[: LONGEST_ID + 1]).strip("b'\"")
    return f"{text[:LONGEST_ID]}..." if len(text) > LONGEST_ID else None


def pytest_collection(session: pytest.Session) -> None:
    """What is collected stays: to look for garbage in it would be in vain."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups that are silently not kept would make every member set up what the group shares."""
    gc.enable()
    gc.collect()
    gc.freeze()  # Thousands of tests stay to the end: no collection has to walk them.
    if session.config.getoption("loadgroup", default=False):
        grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
        lost = [item.nodeid for item in grouped if "@" not in item.nodeid]
        assert not lost, f"pytest-xdist does not group {lost[0]}: is this pytest too new for it?"


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the prepared database that `copy_database` copies."""
    from tests.prepared import prepare, shared_directory

    return prepare(shared_directory(tmp_path_factory))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, django_db_modify_db_settings_parallel_suffix: None
) -> Iterator[None]:
    """Without `DATABASE_URL`, the embedded PostgreSQL serves the tests, too."""
    if os.environ.get("DATABASE_URL"):
        yield
        return
    from django.db import connection

    from reprise.standalone.configuration import use_database
    from reprise.standalone.postgres import DATABASE, SETTINGS, EmbeddedPostgres
    from tests.prepared import copy_database

    directory = Path(tempfile.mkdtemp(prefix="reprise-tests-"))
    copy_database(request.getfixturevalue("prepared"), directory)
    server = EmbeddedPostgres(directory)
    # Nobody asks this one what it kept through a loss of power.
    with patch.dict(SETTINGS, fsync="off"):
        use_database(server.start())
    connection.settings_dict["TEST"]["TEMPLATE"] = DATABASE
    try:
        yield
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


# TRUNCATE makes each table and index a new file: a quarter of a second, and most are empty anyway.
# What a load of thousands leaves is truncated, so that nobody after it reads past dead rows.
# What a migrated database has is copied back: Django would make it anew, permission by permission.
_EMPTY = """
DO $$
DECLARE
    tables regclass[] := '{%s}';
    each regclass;
    kept name;
BEGIN
    SET LOCAL session_replication_role = replica;  -- no foreign key is asked for each row
    IF (SELECT max(pg_relation_size(t)) FROM unnest(tables) t) > 500000 THEN
        TRUNCATE %s;
    ELSE
        FOREACH each IN ARRAY tables LOOP
            EXECUTE format('DELETE FROM %%s', each);
        END LOOP;
    END IF;
    FOR kept IN SELECT tablename FROM pg_tables WHERE schemaname = 'as_migrated' LOOP
        EXECUTE format(
            'INSERT INTO %%1$I OVERRIDING SYSTEM VALUE SELECT * FROM as_migrated.%%1$I', kept
        );
    END LOOP;
END $$
"""
_KEEP = """
DO $$
DECLARE
    each name;
    filled boolean;
BEGIN
    CREATE SCHEMA as_migrated;
    FOR each IN SELECT unnest(%s::name[]) LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %%I)', each) INTO filled;
        IF filled THEN
            EXECUTE format('CREATE TABLE as_migrated.%%1$I AS TABLE %%1$I', each);
        END IF;
    END LOOP;
END $$
"""


def _empty(_style: object, tables: Sequence[str], **_options: bool) -> list[str]:
    """Return what makes all tables as a migration leaves them, instead of Django's statement."""
    names = ", ".join(tables)
    return [_EMPTY % (names, names)]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Between tests Django empties every table, also the one that lets nobody do so."""
    from django.core.management.commands import flush
    from django.db import connection
    from django.test import override_settings

    from reprise.monitoring import disk

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE sessions_app_auditentry DISABLE TRIGGER audit_kept_whole")
        cursor.execute("SHOW is_superuser")
        (may_skip_triggers,) = cursor.fetchone()
        if may_skip_triggers == "on":
            tables = connection.introspection.django_table_names(only_existing=True)
            cursor.execute(_KEEP % f"'{{{', '.join(tables)}}}'")
    with ExitStack() as stack:
        # A good hash takes a third of a second, which many tests would spend to sign somebody in.
        stack.enter_context(override_settings(PASSWORD_HASHERS=[QUICK_HASHER]))
        # Who asked a server for its health has started it; it would keep the database from going.
        stack.callback(disk.watch.stop)
        if may_skip_triggers == "on":
            stack.enter_context(patch.object(connection.ops, "sql_flush", _empty))
            stack.enter_context(patch.object(flush, "emit_post_migrate_signal", lambda *_: None))
        yield
