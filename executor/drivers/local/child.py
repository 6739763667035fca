"""A run that was started and whose end was not observed yet."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass

from executor.drivers.local import processes
from executor.drivers.local.processes import Family
from executor.drivers.local.spawn import Started
from executor.drivers.protocol import Order


@dataclass
class Child:
    """A run whose end was not observed yet. Times are in seconds since boot.

    `cause` is why the driver itself ended it: a reason and a sentence. `exited` means that its
    process has ended and only what it left behind must still be killed.
    """

    order: Order
    process: Started
    pidfd: int
    family: Family
    deadline: float | None
    memory: int | None
    stopped: bool = False
    exited: bool = False
    kill_at: float | None = None
    cause: tuple[str, str] | None = None

    def is_over(self) -> bool:
        """Return whether it has ended by now, observed or not.

        What is done to it later cannot be the cause of its end.
        """
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self.exited or os.waitid(os.P_PIDFD, self.pidfd, flags) is not None

    def signal_group(self, number: signal.Signals) -> None:
        # The leader is waited for only by the sweep, so no other group can have its number yet.
        if not self.exited:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def sweep(self, leaders: set[int]) -> int | None:
        """Kill what is left of it. Return the leader's exit code once nothing is left.

        The code is negative for a signal. `leaders` are the leaders of all runs.
        """
        gone = processes.kill(self.family, leaders)
        return self.process.ended(gone=gone)
