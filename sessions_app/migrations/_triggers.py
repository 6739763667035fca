"""Operations of migrations that are SQL: whole files, and the triggers of one table."""

from collections.abc import Sequence
from pathlib import Path

from django.db.migrations import RunSQL


def sql_file(name: str, migration: str = __file__) -> RunSQL:
    """Return the operation that executes a file of `sql/`, beside the file of the migration."""
    return RunSQL((Path(migration).with_name("sql") / name).read_text())


def audited(table: str, kind: str, told: Sequence[str], *, secret: Sequence[str] = ()) -> RunSQL:
    """Record each change of a table in the audit log as one of a `kind` of record.

    Only a change of the columns `told`, or of those that are `secret` (of which only that they
    changed is told), is one: writing the others costs a comparison, and no row.
    """
    arguments = ", ".join(f"'{each}'" for each in (kind, _array(told), _array(secret)))
    return audited_by(table, f"reprise_audit({arguments})", (*told, *secret))


def audited_by(table: str, function: str, columns: Sequence[str]) -> RunSQL:
    """Call a trigger function for each new and deleted row, and when one of the columns changes."""
    return RunSQL(
        f"""
        CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION {function};
        CREATE TRIGGER audit_changed AFTER UPDATE ON {table}
            FOR EACH ROW WHEN ({changed(*columns)}) EXECUTE FUNCTION {function};
        """
    )


def followed(table: str, *, updated: str, inserted: str = "", deleted: str = "") -> RunSQL:
    """Give a new version of the configuration (`config_version.sql`) to a table's changes.

    Each is a condition on the row; "": no such change counts.
    """
    conditions = {
        "added": ("INSERT", inserted),
        "gone": ("DELETE", deleted),
        "changed": ("UPDATE", updated),
    }
    return RunSQL(
        "".join(
            f"CREATE TRIGGER config_{name} AFTER {event} ON {table} FOR EACH ROW"
            f" WHEN ({condition}) EXECUTE FUNCTION reprise_config_changed();"
            for name, (event, condition) in conditions.items()
            if condition
        )
    )


def changed(*columns: str) -> str:
    """Return the condition that an UPDATE changes one of these columns; `*` is the whole row."""
    names = (column if column == "*" else f'"{column}"' for column in columns)
    return " OR ".join(f"OLD.{name} IS DISTINCT FROM NEW.{name}" for name in names)


def _array(columns: Sequence[str]) -> str:
    return "{" + ",".join(columns) + "}"
