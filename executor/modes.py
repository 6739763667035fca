"""Modes of the agent's own files: it takes them back if a run of the same user has changed them.

Landlock keeps runs from reading and writing these files, but it does not guard their modes.
"""

import logging
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

log = logging.getLogger(__name__)

TRIES = 20
PAUSE = 0.001
_Result = TypeVar("_Result")


def insist(path: Path, action: Callable[[], _Result]) -> _Result:
    """Return what the action on the file returns; if modes forbid it, take them back and try again.

    Raises what the action raises. A run may take the modes as often as it likes, so the tries end.
    """
    for _ in range(TRIES):
        try:
            return action()
        except PermissionError:
            take_back(path)
            time.sleep(PAUSE)
    return action()


def take_back(path: Path) -> None:
    """Let the owner use the file again, and all directories above that are theirs."""
    for above in reversed(path.parents[1:]):
        _add(above, stat.S_IXUSR)
    _add(path.parent, stat.S_IRWXU)
    _add(path, stat.S_IRUSR | stat.S_IWUSR)


def restore(path: Path, mode: int) -> None:
    """Give the directory its mode again, with a warning if it had another."""
    with suppress(OSError):
        if stat.S_IMODE(path.lstat().st_mode) != mode:
            log.warning("the mode of %s was changed; it is %o again", path, mode)
            path.chmod(mode)


def open_directory(path: Path) -> None:
    """Let the owner read and change the directory."""
    _add(path, stat.S_IRWXU)


def open_all(tree: Path) -> None:
    """Let the owner read and change every directory of a tree, which nobody uses any more."""
    _add(tree, stat.S_IRWXU)
    for directory, names, _ in os.walk(tree):
        for name in names:
            _add(Path(directory, name), stat.S_IRWXU)


def _add(path: Path, bits: int) -> None:
    with suppress(OSError):
        found = path.lstat()
        if found.st_uid != os.geteuid() or stat.S_ISLNK(found.st_mode):
            return
        if stat.S_ISDIR(found.st_mode):
            bits |= stat.S_IXUSR
        if found.st_mode & bits != bits:
            path.chmod(stat.S_IMODE(found.st_mode) | bits)
