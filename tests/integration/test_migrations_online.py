"""Migrations run while the server works: none may hold a lock for long or break older code.

squawk reads the SQL of each; what it cannot see there, such as rows changed in bulk, is looked
for here. A migration that has to do what is refused is named in `ALLOWED`, with the reason.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    ValidateConstraint,
)
from django.db import connection, migrations, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

pytestmark = pytest.mark.django_db(transaction=True)

OURS = ("sessions_app", "scheduler", "reprise")
BASELINE = {(app, "0001_initial") for app in OURS}
"""They make the tables; no older server is there."""
ALLOWED: dict[tuple[str, str], set[str]] = {}
"""Migration -> rules that it may break."""

# Style, and time limits, which the connection sets (docs/production.md).
EXCLUDED = (
    "prefer-bigint-over-int",
    "prefer-bigint-over-smallint",
    "prefer-identity",
    "prefer-robust-stmts",
    "prefer-text-field",
    "prefer-timestamp-tz",
    "require-lock-timeout",
    "require-statement-timeout",
)
OLDEST_POSTGRESQL = "14"
ROWS_IN_BULK = "rows-in-bulk"
CODE_IN_TRANSACTION = "code-in-transaction"


def broken_rules(migration: migrations.Migration, state: ProjectState, directory: Path) -> set[str]:
    """The rules that a migration breaks when it is applied to `state`."""
    with connection.schema_editor(collect_sql=True, atomic=migration.atomic) as editor:
        migration.apply(state, editor, collect_sql=True)
    statements = editor.collected_sql
    if migration.atomic:
        statements = ["BEGIN;", *statements, "COMMIT;"]
    return _squawk("\n".join(statements), directory) | _ours(migration, statements)


def _squawk(sql: str, directory: Path) -> set[str]:
    path = directory / "migration.sql"
    path.write_text(sql)
    command = [str(Path(sys.executable).with_name("squawk")), "--reporter=json"]
    options = [f"--pg-version={OLDEST_POSTGRESQL}", f"--exclude={','.join(EXCLUDED)}"]
    done = subprocess.run([*command, *options, str(path)], capture_output=True, text=True)
    assert done.returncode in {0, 1}, done.stderr
    return {found["rule_name"] for found in json.loads(done.stdout)}


def _ours(migration: migrations.Migration, statements: Sequence[str]) -> set[str]:
    broken = set()
    if any(re.match(r"\s*(UPDATE|DELETE)\b", each, re.IGNORECASE) for each in statements):
        broken.add(ROWS_IN_BULK)
    if migration.atomic and any(
        isinstance(each, migrations.RunPython) for each in migration.operations
    ):
        broken.add(CODE_IN_TRANSACTION)
    return broken


def test_every_migration_runs_online(tmp_path: Path) -> None:
    loader = MigrationLoader(connection)
    later = sorted(key for key in loader.disk_migrations if key[0] in OURS and key not in BASELINE)
    assert loader.disk_migrations.keys() >= BASELINE
    found = {
        key: broken - ALLOWED.get(key, set())
        for key in later
        if (
            broken := broken_rules(
                loader.disk_migrations[key], loader.project_state(key, at_end=False), tmp_path
            )
        )
    }
    assert {key: broken for key, broken in found.items() if broken} == {}


def test_a_longer_varchar_writes_nothing() -> None:
    """It is a change of the catalog: neither the rows nor an index are written anew."""
    files = """
        SELECT c.relname, pg_relation_filenode(c.oid) FROM pg_class c
        LEFT JOIN pg_index i ON i.indexrelid = c.oid
        WHERE 'sessions_app_session'::regclass IN (c.oid, i.indrelid) ORDER BY 1
    """
    altered = "ALTER TABLE sessions_app_session ALTER COLUMN creation_id TYPE varchar"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"{altered}(200)")
        cursor.execute(files)
        before = cursor.fetchall()
        assert len(before) > 2
        cursor.execute(f"{altered}(255)")
        cursor.execute(files)
        assert cursor.fetchall() == before


def _nothing(*_args: object) -> None:
    pass


HOT = "session"
BAD: list[tuple[str, Operation]] = [
    (
        "require-concurrent-index-creation",
        migrations.AddIndex(HOT, models.Index(fields=["node"], name="bad")),
    ),
    ("require-concurrent-index-deletion", migrations.RemoveIndex(HOT, "session_by_owner")),
    # Django drops the default again, so that an older server's INSERT fails.
    ("ban-drop-default", migrations.AddField(HOT, "bad", models.IntegerField(default=0))),
    (
        "adding-foreign-key-constraint",
        migrations.AddField(
            HOT,
            "bad",
            models.ForeignKey("sessions_app.queue", models.CASCADE, null=True, related_name="+"),
        ),
    ),
    (
        "constraint-missing-not-valid",
        migrations.AddConstraint(
            HOT, models.CheckConstraint(condition=models.Q(stored_priority__gte=0), name="bad")
        ),
    ),
    (
        "disallowed-unique-constraint",
        migrations.AddConstraint(HOT, models.UniqueConstraint(fields=["node"], name="bad")),
    ),
    ("adding-not-nullable-field", migrations.AlterField(HOT, "exit_code", models.IntegerField())),
    (
        "changing-column-type",
        migrations.AlterField(HOT, "stored_priority", models.BigIntegerField(db_column="priority")),
    ),
    ("ban-drop-column", migrations.RemoveField(HOT, "node")),
    ("renaming-column", migrations.RenameField(HOT, "node", "machine")),
    ("ban-drop-table", migrations.DeleteModel("logchunk")),
    (
        "adding-field-with-default",
        migrations.RunSQL(
            "ALTER TABLE sessions_app_session ADD bad uuid NOT NULL DEFAULT gen_random_uuid()"
        ),
    ),
    (ROWS_IN_BULK, migrations.RunSQL("UPDATE sessions_app_session SET priority = 0")),
    (CODE_IN_TRANSACTION, migrations.RunPython(_nothing)),
]


@pytest.mark.parametrize(("rule", "operation"), BAD, ids=[rule for rule, _ in BAD])
def test_blocking_migrations_are_found(tmp_path: Path, rule: str, operation: Operation) -> None:
    assert rule in _broken_by(operation, tmp_path, atomic=True)


@pytest.mark.parametrize(
    "operation",
    [
        AddIndexConcurrently(HOT, models.Index(fields=["node"], name="good")),
        migrations.AddField(HOT, "good", models.IntegerField(null=True)),
        migrations.AddField(HOT, "good", models.IntegerField(db_default=0)),
        AddConstraintNotValid(
            HOT, models.CheckConstraint(condition=models.Q(stored_priority__gte=0), name="good")
        ),
        ValidateConstraint(HOT, "session_finished_when_final"),
        migrations.CreateModel(
            "new",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("name", models.CharField(max_length=63, unique=True)),
                ("project", models.ForeignKey("sessions_app.project", models.CASCADE)),
            ],
        ),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_online_migrations_pass(tmp_path: Path, operation: Operation) -> None:
    concurrent = isinstance(operation, AddIndexConcurrently)
    assert _broken_by(operation, tmp_path, atomic=not concurrent) == set()


def _broken_by(operation: Operation, directory: Path, *, atomic: bool) -> set[str]:
    content = {"operations": [operation], "atomic": atomic}
    migration = type("Migration", (migrations.Migration,), content)("next", "sessions_app")
    return broken_rules(migration, MigrationLoader(connection).project_state(), directory)
