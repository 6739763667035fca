"""The SQL of the triggers that write the audit log, for migrations of every app.

Migrations that have run gave what it gives: it never changes. Other SQL gets another function.
"""

from collections.abc import Sequence

from django.db.migrations import RunSQL


def audited(table: str, kind: str, told: Sequence[str], *, secret: Sequence[str] = ()) -> RunSQL:
    """Let each change of a table be told as one of a `kind` of record.

    Only a change of the columns `told`, or of those that are `secret` (of which only that they
    changed is told), is one: writing the others costs a comparison, and no row.
    """
    arguments = ", ".join(f"'{each}'" for each in (kind, _array(told), _array(secret)))
    changed = " OR ".join(
        f'OLD."{column}" IS DISTINCT FROM NEW."{column}"' for column in (*told, *secret)
    )
    return RunSQL(
        f"""
        CREATE OR REPLACE TRIGGER audit_made AFTER INSERT OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION reprise_audit({arguments});
        CREATE OR REPLACE TRIGGER audit_changed AFTER UPDATE ON {table}
            FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION reprise_audit({arguments});
        """,
        f"""
        DROP TRIGGER IF EXISTS audit_made ON {table};
        DROP TRIGGER IF EXISTS audit_changed ON {table};
        """,
    )


def _array(columns: Sequence[str]) -> str:
    return "{" + ",".join(columns) + "}"
