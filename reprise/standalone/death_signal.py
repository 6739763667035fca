"""The end of a child process with the thread that started it; Linux only."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
# Loaded here, because loading a library between fork and exec can deadlock.
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)


def die_with(parent: int, number: signal.Signals) -> Callable[[], None]:
    """Return a `preexec_fn` that lets the child get this signal when the starting thread ends.

    `parent` is this process's id. The function makes one `prctl` and one `getppid`, which are safe
    between fork and exec.
    """

    def arm() -> None:
        # The parent may have died before the signal was armed.
        if _PRCTL and (_PRCTL(_PR_SET_PDEATHSIG, int(number)) or os.getppid() != parent):
            os._exit(1)

    return arm
