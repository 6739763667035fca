"""Which initial migrations made a database.

Before the first release they are edited in place. So a database says which ones made it, and code
with others does not use it.
"""

from hashlib import sha256
from pathlib import Path

_CODE = Path(__file__).parents[2]
_APPS = ("sessions_app", "scheduler", "reprise")
UNRELEASED = (
    "the database has the tables of an unreleased version of Reprise, which this version cannot "
    "use: begin with a new database"
)


def _digest() -> str:
    digest = sha256()
    for app in _APPS:
        migrations = _CODE / app / "migrations"
        for file in (migrations / "0001_initial.py", *sorted(migrations.glob("sql/*.sql"))):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


INITIAL_TABLES = _digest()
"""A digest of the initial migrations of this code."""
NOTE_INITIAL_TABLES = f"""
    CREATE FUNCTION reprise_initial_tables() RETURNS text LANGUAGE sql IMMUTABLE
    AS $$ SELECT '{INITIAL_TABLES}' $$
"""
"""Makes a new database say which migrations made it."""
