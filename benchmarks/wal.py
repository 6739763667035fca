"""Reads from PostgreSQL's own log how much was written: bytes, commits, rows and index entries by
table.

The log is exact to the record, costs the measured run nothing, and does not wait for statistics.
`pg_waldump` of the server's own version reads it, so the server has to run on this machine, and
its data directory has to be readable.
"""

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

_RECORD = re.compile(
    r"rmgr: (?P<manager>\S+) +len \(rec/tot\): +(?P<length>\d+)/ *(?P<total>\d+), .*?"
    r"desc: (?P<kind>[A-Z_]+)(?P<detail>.*)"
)
_RELATION = re.compile(r"blkref #0: rel \d+/(\d+)/(\d+)")
_COUNT = re.compile(r"\d+")
# A toasted value counts as a part of its table, an index entry as one of the table that has it.
_TABLES = """
    SELECT pg_relation_filenode(c.oid), coalesce(i.indrelid, t.oid, c.oid)::regclass::text,
        CASE WHEN i.indexrelid IS NOT NULL THEN c.relname END
    FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
        LEFT JOIN pg_class t ON t.reltoastrelid IN (c.oid, i.indrelid)
    WHERE pg_relation_filenode(c.oid) IS NOT NULL
"""


@dataclass
class Writes:
    """The writes to one table and its indexes."""

    inserted: int = 0
    updated: int = 0
    hot: int = 0
    """Updates, among all, that needed no index entries."""
    deleted: int = 0
    entries: int = 0
    """Entries of indexes."""
    size: int = 0
    """Bytes of the log, without images of pages."""


@dataclass
class Written:
    """The writes between two places of the log."""

    size: int = 0
    """Bytes, without images of pages."""
    images: int = 0
    """Bytes of images of whole pages: how many depends on the time since a checkpoint."""
    commits: int = 0
    """Transactions that wrote."""
    tables: dict[str, Writes] = field(default_factory=lambda: defaultdict(Writes))
    indexes: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Entries by index."""


def position(connection: Any) -> str:
    """Return the place of the log at which the next record will stand."""
    (found,) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    return str(found)


def written(connection: Any, start: str, end: str) -> Written:
    """Return what was written between two places, into the database of the connection."""
    # The commit of a transaction that wrote waits until all before it is on disk.
    connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
    found = Written()
    (found.size,) = connection.execute("SELECT (%s::pg_lsn - %s)::bigint", [end, start]).fetchone()
    (database,) = connection.execute(
        "SELECT oid FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    places = {node: (table, index) for node, table, index in connection.execute(_TABLES)}
    for line in _records(connection, start, end):
        if (record := _RECORD.match(line)) is None:
            continue
        images = int(record["total"]) - int(record["length"])
        found.images += images
        found.size -= images
        manager, kind = record["manager"], record["kind"]
        if manager == "Transaction" and kind == "COMMIT":
            found.commits += 1
        relation = _RELATION.search(record["detail"])
        if relation is None or int(relation[1]) != database:
            continue
        table, index = places.get(int(relation[2]), ("others", None))
        writes = found.tables[table]
        writes.size += int(record["length"])
        if manager in {"Heap", "Heap2"}:
            _note_row(writes, kind, record["detail"])
        elif manager == "Btree" and _is_entry(kind, record["detail"]):
            writes.entries += 1
            found.indexes[index or "others"] += 1
    return found


def _note_row(writes: Writes, kind: str, detail: str) -> None:
    match kind:
        case "INSERT":
            writes.inserted += 1
        case "MULTI_INSERT":
            count = _COUNT.search(detail)
            writes.inserted += int(count[0]) if count else 0
        case "UPDATE":
            writes.updated += 1
        case "HOT_UPDATE":
            writes.updated += 1
            writes.hot += 1
        case "DELETE":
            writes.deleted += 1


def _is_entry(kind: str, detail: str) -> bool:
    """Return whether a record writes an entry; a split writes the one that found no room."""
    if kind.startswith("SPLIT"):
        return "level: 0" in detail or "level 0" in detail
    return kind in {"INSERT_LEAF", "INSERT_POST"}


def _records(connection: Any, start: str, end: str) -> list[str]:
    (programs,) = connection.execute(
        "SELECT setting FROM pg_config WHERE name = 'BINDIR'"
    ).fetchone()
    (directory,) = connection.execute("SHOW data_directory").fetchone()
    command = [f"{programs}/pg_waldump", "-p", f"{directory}/pg_wal", "-s", start, "-e", end]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise SystemExit(f"the log of PostgreSQL cannot be read here: {error}") from error
    if done.returncode:
        raise SystemExit(f"the log of PostgreSQL cannot be read here: {done.stderr}")
    return done.stdout.splitlines()
