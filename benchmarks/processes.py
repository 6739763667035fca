"""The cost of a tree of processes, as the kernel counts it."""

import os
from pathlib import Path

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
