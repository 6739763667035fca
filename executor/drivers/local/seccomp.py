"""Seccomp: a process gives up calls by which it could harm others of its user, for good.

The numbers of calls differ between architectures, and one kernel serves programs of several. So the
filter looks at the architecture of each call first.
"""

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _JUMP_IF_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32
_PRIO_USER, _IOPRIO_WHO_USER = 2, 3


@dataclass(frozen=True)
class _Calls:
    """The calls of one architecture: its number in the kernel, and theirs."""

    architecture: int
    prlimit64: int
    setpriority: int
    ioprio_set: int
    keys: tuple[int, int, int]
    mask: int = 0xFFFFFFFF


_X86_64 = _Calls(0xC000003E, 302, 141, 251, (248, 249, 250), mask=0xBFFFFFFF)
"""x32 has the same numbers with one more bit."""
_I386 = _Calls(0x40000003, 340, 97, 289, (286, 287, 288))
_AARCH64 = _Calls(0xC00000B7, 261, 140, 30, (217, 218, 219))
_ARM = _Calls(0x40000028, 369, 97, 314, (309, 310, 311))
_RISCV64 = _Calls(0xC00000F3, 261, 140, 30, (217, 218, 219))
_KNOWN = {
    "x86_64": (_X86_64, _I386),
    "aarch64": (_AARCH64, _ARM),
    "riscv64": (_RISCV64,),
}

_Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class Filter:
    """What is refused: limits of other processes, priorities of all of this user, and its keys.

    A machine of unknown architecture refuses nothing.
    """

    def __init__(self, machine: str | None = None):
        program = [
            line
            for calls in _KNOWN.get(machine or platform.machine(), ())
            for line in _of_architecture(calls)
        ]
        program.append((_RETURN, 0, 0, _ALLOW))
        code = b"".join(struct.pack("HBBI", *line) for line in program)
        self._program = _Program(len(program), code)
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def apply(self) -> None:
        """Put this process under the filter. It takes no lock, so it is safe after a fork.

        Call `landlock.forbid_new_rights` before. Without seccomp in the kernel it does nothing.
        Raises `OSError`.
        """
        if self._prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(self._program), 0, 0) < 0:
            number = ctypes.get_errno()
            if number != errno.EINVAL:
                raise OSError(number, f"seccomp: {os.strerror(number)}")


def _of_architecture(calls: _Calls) -> list[_Instruction]:
    body = [
        (_LOAD, 0, 0, _NUMBER),
        (_AND, 0, 0, calls.mask),
        *(line for number in calls.keys for line in _refused(number)),
        *_refused_if(calls.setpriority, _PRIO_USER),
        *_refused_if(calls.ioprio_set, _IOPRIO_WHO_USER),
        *_refused_limits(calls.prlimit64),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, len(body), calls.architecture),
        *body,
    ]


def _refused(number: int) -> list[_Instruction]:
    return [(_JUMP_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]


def _refused_if(number: int, first: int) -> list[_Instruction]:
    """Refuse a call with this first argument."""
    return [
        (_JUMP_IF_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_EQUAL, 0, 1, first),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _refused_limits(number: int) -> list[_Instruction]:
    """Refuse new limits, the third argument, for a process that is named, the first one."""
    return [
        (_JUMP_IF_EQUAL, 0, 7, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_IF_EQUAL, 5, 0, 0),
        (_LOAD, 0, 0, _THIRD_ARGUMENT),
        (_JUMP_IF_EQUAL, 0, 2, 0),
        (_LOAD, 0, 0, _THIRD_ARGUMENT + 4),
        (_JUMP_IF_EQUAL, 1, 0, 0),
        (_RETURN, 0, 0, _REFUSE),
    ]
