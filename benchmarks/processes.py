"""The cost of a tree of processes, as the kernel counts it."""

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """Return the process `root` and all its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
            except OSError:
                continue  # the process has just ended
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Return the seconds of CPU time that these and their reaped children have used."""
    used = 0
    for pid in pids:
        try:
            used += sum(int(field) for field in _stat(pid)[11:15])
        except OSError:
            continue
    return used / _TICKS


def postgres_seconds(connection: Any, *, without: str) -> dict[str, float]:
    """Return the CPU seconds of the PostgreSQL behind a connection, by what its processes are.

    Those of backends count if they serve the connection's database, but not this connection and
    those whose application name is `without`. What has ended is under `ended`, with all that it
    ever used: compare two of these with `spent`.
    """
    (mine,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    postmaster = postmaster_of(connection)
    found = {f"ended:{postmaster}": sum(map(int, _stat(postmaster)[13:15])) / _TICKS}
    for pid, kind in connection.execute(_BACKENDS, [mine, without]):
        with suppress(OSError):
            found[f"{kind}:{pid}"] = precise_seconds(pid)
    found[f"postmaster:{postmaster}"] = precise_seconds(postmaster)
    return found


def postmaster_of(connection: Any) -> int:
    """Return the first process of the PostgreSQL behind a connection."""
    (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    try:
        return int(_stat(backend)[1])
    except OSError:
        raise SystemExit("PostgreSQL has to run on this machine: its costs are read") from None


_BACKENDS = """
    SELECT pid, CASE WHEN datname IS NULL THEN backend_type
        ELSE 'backends' || CASE application_name WHEN '' THEN '' ELSE ' ' || application_name END
        END
    FROM pg_stat_activity
    WHERE pid <> %s AND application_name <> %s AND coalesce(datname = current_database(), true)
"""


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds between two results of `postgres_seconds`, by kind."""
    found: dict[str, float] = defaultdict(float)
    for name, seconds in after.items():
        found[name.partition(":")[0]] += seconds - before.get(name, 0.0)
    # What a process had used before its end counts among the ended ones now.
    found["ended"] -= sum(seconds for name, seconds in before.items() if name not in after)
    return dict(found)


def precise_seconds(pid: int) -> float:
    """Return the CPU seconds of a process with one thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory_mb(pids: list[int]) -> tuple[float, float]:
    """Return resident and proportional memory in MiB. Only the latter counts shared pages once."""
    resident = proportional = 0
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                name, _, value = line.partition(":")
                if name == "Rss":
                    resident += int(value.split()[0])
                elif name == "Pss":
                    proportional += int(value.split()[0])
        except OSError:
            continue
    return resident / 1024, proportional / 1024


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third one on: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
