"""The signature of a failure: what makes two failures the same one."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from base.runlines.dumps import is_frame
from retry.evidence.causes import PLATFORM_CAUSES, RetryCause
from retry.evidence.ended import Ended
from retry.evidence.workload_message import NO_MESSAGE
from retry.signatures.error_lines import (
    error_line,
    gpu_line,
    last_line,
    npm_error,
)
from retry.signatures.failed_tests import with_test
from retry.signatures.gradle import gradle_error
from retry.signatures.lines import Output, end_of
from retry.signatures.masks import MOST_MASKED, masked
from retry.signatures.native_stacks import with_native_place
from retry.signatures.nccl import with_warning
from retry.signatures.places import with_place
from retry.signatures.ranks import Rank, generic_word, rank_of
from retry.signatures.spring import spring_error
from retry.signatures.stacks import last_head
from retry.signatures.tracebacks import Exceptions, Failure, exceptions_of, last_told, place_masked
from retry.signatures.vague_lines import is_vague

KEY_LENGTH = 12
TITLE_LENGTH = 200
END_LENGTH = 60
"""Characters of the end of a longer text that are kept."""
REMEMBERED_LENGTH = 1024
"""Characters up to which a process remembers the text of an output."""
_SAY_WHY = frozenset(
    {RetryCause.OOM_KILLED, RetryCause.DEADLINE_EXCEEDED, RetryCause.LIMIT_EXCEEDED}
)
"""Causes that say why a run ended, whatever it printed last, and with whatever exit code."""
WITHOUT_EXIT_CODE = _SAY_WHY | PLATFORM_CAUSES
"""Causes whose failures are the same one whatever the exit code was."""
_SIGNALS = {4: "SIGILL", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_KILLED = {code: name for n, name in _SIGNALS.items() for code in (128 + n, -n)}
"""Exit codes that say the same. SIGABRT is not here: a program that aborts says why itself."""
_PACKAGES = re.compile(r"^(?:[a-z_]\w*+\.)++(?=[A-Z]\w*+: )")
"""Where an exception is defined; its own name says nearly as much."""


class Signature(NamedTuple):
    """The key of a failure, 12 hex digits, and its title, masked, of at most 200 characters.

    `of_program` says that no text tells the failure, so that the key is also of the image and the
    command. `generic` says that the end does not tell it either: such failures open no breaker.
    """

    key: str
    title: str
    generic: bool = False
    of_program: bool = False


class _End(NamedTuple):
    """What an end says without any text; `killed`: it says why the run ended."""

    code: str
    title: str
    killed: bool


def signature(
    ended: Ended, log_tail: str = "", *, image: str = "", command: Sequence[str] = ()
) -> Signature:
    """Return the signature of a failure. Never raises, and depends on its arguments alone.

    `log_tail` is the end of the output of the first failed container or rank; only its last 16 KiB
    count. `image` and `command` are those of the session.
    """
    cause = ended.cause
    if cause in PLATFORM_CAUSES:
        reason = ended.termination.reason
        title = f"{cause.value}: {reason}" if reason else cause.value
        return Signature(_key(cause.value, reason), title[:TITLE_LENGTH])
    end = _end(cause, ended.exit_code)
    text, generic = _text(ended, log_tail, killed=end.killed)
    if not generic:
        return Signature(_key(cause.value, end.code, text), text)
    program = (_without_tag(image), command[0].split()[0] if command and command[0].split() else "")
    said = text or end.title
    where = ", ".join(part for part in program if part)
    title = f"{said} ({where})" if where else said
    key = _key(cause.value, end.code, text, *program)
    return Signature(key, title[:TITLE_LENGTH], generic=not end.killed, of_program=True)


def _end(cause: RetryCause, code: int | None) -> _End:
    if cause in _SAY_WHY:
        return _End("", cause.value, killed=True)
    if code is None:
        return _End("", cause.value, killed=False)
    if cause is RetryCause.KERNEL_NONZERO_EXIT and code in _KILLED:
        return _End(_KILLED[code], _KILLED[code], killed=True)
    return _End(str(code), f"exit code {code}", killed=False)


def _key(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:KEY_LENGTH]


def _text(ended: Ended, log_tail: str, *, killed: bool) -> tuple[str, bool]:
    """Return the masked text that tells the failure, and whether it is generic."""
    message = ended.words if ended.wishes is NO_MESSAGE else ""
    outputs = (message, log_tail, ended.termination.pod_message)
    short = sum(map(len, outputs)) <= REMEMBERED_LENGTH
    return _remembered_text_of(outputs, killed) if short else _text_of(outputs, killed)


def _text_of(outputs: tuple[str, ...], killed: bool) -> tuple[str, bool]:
    """Return the same of the first output that tells a failure.

    What a killed run happened to print last does not tell why it was killed. An error may, and so
    does what the cluster says last, which is the same for all programs.
    """
    for source, output in enumerate(outputs, start=1):
        clusters = killed and source == len(outputs)
        failure = failure_in(output, errors_only=killed and not clusters)
        if failure is None or is_frame(b"\t" + failure.text):
            continue
        signal = generic_word(failure.text)
        if killed and signal is not None and not failure.place:
            continue
        # The shell writes the number of the process and its command beside the signal.
        told = replace(failure, text=signal) if signal else failure
        return _shown(told), clusters or signal is not None
    return "", True


# Messages of the termination log and of the cluster are few, and one failure of many sessions has
# the same one. Outputs differ in their numbers, so long ones are not worth their memory.
_remembered_text_of = lru_cache(maxsize=1024)(_text_of)


def failure_in(output: str, *, errors_only: bool = False) -> Failure | None:
    """Return the part of an output that tells the failure; None if it is empty.

    With `errors_only` only an exception, the head of a stack, or a line that is surely an error and
    tells a reason counts.
    """
    if not output:
        return None
    tail = end_of(output)
    return with_warning(tail, _failure_in(tail, errors_only=errors_only))


def _failure_in(tail: bytes, *, errors_only: bool) -> Failure | None:
    told = last_told(tail)
    if told is not None:
        return told
    read = Output(tail)
    exceptions = exceptions_of(read)
    if exceptions.told is not None:
        return exceptions.told
    over = exceptions.passed_over
    found = last_head(read) or npm_error(read) or gradle_error(read) or spring_error(read)
    found = found or gpu_line(read, over)
    if found is not None:
        return with_test(read, with_native_place(read, found))
    line = with_native_place(read, _error_before_end(read, exceptions))
    if errors_only and not (line is not None and (line.place or _is_sure(read.lines[line.line]))):
        return None
    line = with_test(read, with_place(read, line))
    return line or with_native_place(read, exceptions.wrapper or last_line(read, over))


def _is_sure(line: bytes) -> bool:
    """Return whether a line is surely that of an error, and tells a reason."""
    return rank_of(line) is Rank.LIKE_ONE and not is_vague(line)


def _error_before_end(read: Output, exceptions: Exceptions) -> Failure | None:
    """Return the line of an error, unless an exception that says how all ended tells as much."""
    found = error_line(read, exceptions.passed_over)
    if not exceptions.ended or found is None:
        return found
    line = read.lines[found.line]
    return found if rank_of(line) >= Rank.WEAKER and not is_vague(line) else None


def _shown(failure: Failure) -> str:
    """Return the masked text with its place, both within 200 characters.

    Of a longer text the packages of its exception go, and then the middle: what failed may stand at
    the end of a chain of causes.
    """
    place = place_masked(failure.place)
    after = f" ({place})" if place else ""
    text = masked(failure.text).decode("utf-8", "replace")
    room = TITLE_LENGTH - len(after)
    if len(text) > room:
        text = _PACKAGES.sub("", text)
    if len(text) > room and len(failure.text) <= MOST_MASKED:
        text = f"{text[: room - END_LENGTH - 1]}…{text[-END_LENGTH:]}"
    return text[:room] + after


def _without_tag(image: str) -> str:
    """Return the image without digest and tag; a port of its registry stays."""
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(":")[0]
