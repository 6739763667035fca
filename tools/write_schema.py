"""Write reprise/standalone/schema.sql: what all migrations leave in a new database.

    python tools/write_schema.py

`make schema` runs this; tests/integration/test_first_schema.py fails if the file is out of date.
"""
# ruff: noqa: INP001  # a script for people, of ruff alone

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reprise.standalone.first_schema import SCHEMA
from tests.prepared import migrated_schema, prepare


def main() -> None:
    """Migrate a database of its own, and write its tables."""
    with TemporaryDirectory(prefix="reprise-schema-") as directory:
        place = Path(directory)
        SCHEMA.write_text(migrated_schema(prepare(place), place))


if __name__ == "__main__":
    os.environ.pop("DATABASE_URL", None)
    main()
