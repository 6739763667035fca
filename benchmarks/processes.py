"""What a tree of processes costs, as the kernel counts it."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(root: int) -> list[int]:
    """The process `root` and all that descend from it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
            except OSError:
                continue  # it has just ended
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def cpu_seconds(pids: list[int]) -> float:
    """Seconds of processor time that these and their reaped children have used so far."""
    used = 0
    for pid in pids:
        try:
            used += sum(int(field) for field in _stat(pid)[11:15])
        except OSError:
            continue
    return used / _TICKS


def memory_mb(pids: list[int]) -> tuple[float, float]:
    """Resident and proportional memory in MiB; only the latter counts shared pages once."""
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
    """The fields of /proc/PID/stat from the third one on: state, parent, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
