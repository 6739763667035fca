"""Landlock: a process gives up rights over files and other processes, for itself and its children.

Only the three calls of the kernel are used, by their numbers, which are the same on every
architecture.
"""

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = (1 << bit for bit in range(4))
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
EVERYTHING = (1 << 16) - 1
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
# The rights of the first version, and the bit that each later one added: to link and rename across
# directories, to truncate, to command a device.
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: EVERYTHING}
_NETWORK_ABI, _SCOPES_ABI = 4, 6
_SCOPES = 0b11
"""Abstract sockets and signals do not reach processes outside."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """Return the Landlock version of this kernel; 0 for none."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


@contextmanager
def ruleset(version: int, allowed: dict[Path, int]) -> Iterator[int]:
    """Yield a descriptor of rules that forbid everything known to `version` but `allowed`.

    `allowed` says what may be done with a path and everything below it. Missing paths are skipped.
    Raises `OSError`.
    """
    rights = _RIGHTS[max(each for each in _RIGHTS if each <= version)]
    scopes = _SCOPES if version >= _SCOPES_ABI else 0
    attributes = _RulesetAttributes(rights, 0, scopes)
    # A kernel refuses a structure that is longer than the one it knows.
    size = 8 if version < _NETWORK_ABI else 16 if version < _SCOPES_ABI else 24
    rules = _checked(_syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path, access in allowed.items():
            with suppress(FileNotFoundError):
                allow(rules, path, access & rights)
        yield rules
    finally:
        os.close(rules)


def forbid_new_rights() -> None:
    """Forbid that any program this process starts gains rights, such as a setuid one.

    Raises `OSError`.
    """
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def restrict(rules: int) -> None:
    """Put this process under the rules for good. It takes no lock, so it is safe after a fork.

    Call `forbid_new_rights` before. Raises `OSError`.
    """
    _checked(_syscall(_RESTRICT_SELF, rules, 0))


def allow(rules: int, path: Path, access: int) -> None:
    """Allow rights, which these rules know, on a path and everything below it. Raises `OSError`."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _OF_FILES
        rule = _PathBeneath(access, place)
        _checked(_syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(place)


def _syscall(number: int, *arguments: object) -> int:
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *given))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
