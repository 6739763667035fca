"""Python loads this at its start from PYTHONPATH: the process's clocks are off by what a file says.

The wall clock alone, as when an administrator or NTP sets it, or also the clock that counts seconds
since boot while every timer stands still, as on a machine that was suspended.
"""

import json
import os
import time
from pathlib import Path

_OFFSETS = Path(os.environ["SKEWED_CLOCK"])
_time, _time_ns, _clock_gettime = time.time, time.time_ns, time.clock_gettime


def _offset(name: str) -> float:
    seconds: float = json.loads(_OFFSETS.read_bytes())[name]
    return seconds


def _shifted(clock: int) -> float:
    names = {time.CLOCK_REALTIME: "wall", time.CLOCK_BOOTTIME: "boot"}
    return _clock_gettime(clock) + (_offset(names[clock]) if clock in names else 0.0)


time.time = lambda: _time() + _offset("wall")
time.time_ns = lambda: _time_ns() + round(_offset("wall") * 1e9)
time.clock_gettime = _shifted
