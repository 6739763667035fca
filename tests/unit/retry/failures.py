"""Real failures as test data: what tools print, also with other numbers, paths and hosts."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from retry.evidence.termination import Termination

DATA = Path(__file__).parents[2] / "data" / "failures"
VARIANTS = 3

_MARK = re.compile("«([^»]*)»")
_SLASH = re.compile(r"[/\\]")
_FOLDERS = ("/data/team-a", "/home/u2/exp", "/scratch/44/src")
_HOSTS = ("node17", "gpu-b-3", "r07n12.cluster.internal")


@dataclass(frozen=True)
class Failure:
    """One failure of a tool, as several runs print it; `message`: in a termination's message."""

    name: str
    tool: str
    exit_code: int
    texts: tuple[str, ...]
    message: bool = False
    generic: bool = False

    def terminations(self) -> list[tuple[Termination, str]]:
        """Return the termination and the output of each run."""
        if self.message:
            return [(Termination(exit_code=self.exit_code, message=t), "") for t in self.texts]
        return [(Termination(exit_code=self.exit_code), text) for text in self.texts]


def failures() -> list[Failure]:
    """Return all failures; the first text of each is the one that its source has."""
    return [
        *_listed("recorded"),
        *_published(),
        *_marked("written"),
        *_marked("sampled"),
        *_marked("gathered"),
        *_marked("unseen"),
        *_listed("blind"),
        *_listed("second"),
        *_listed("third"),
    ]


def kinds() -> list[tuple[str, list[str]]]:
    """Return programs with the outputs of their failures, each as several runs print it."""
    return [
        (each["tool"], [run for text in each["texts"] for run in _runs(text.replace("␍", "\r"))])
        for each in _read("kinds.yaml")
    ]


def _runs(text: str) -> list[str]:
    others = VARIANTS if "«" in text else 0
    return [_source(text), *(_other(text, number) for number in range(others))]


def _listed(stem: str) -> list[Failure]:
    return [
        Failure(
            f"{each['tool']}: {each['name']}",
            each["tool"],
            each["exit_code"],
            tuple(each["variants"]),
            each.get("message", False),
            each.get("generic", False),
        )
        for each in _read(f"{stem}.yaml")
    ]


def _published() -> list[Failure]:
    return [
        Failure(
            f"{each['tool']}: {each['source'].removeprefix('https://github.com/')}",
            each["tool"],
            1,
            (_source(each["text"]), *(_other(each["text"], n) for n in range(VARIANTS))),
            each.get("message", False),
            each.get("generic", False),
        )
        for each in _read("published.yaml")
    ]


def _marked(stem: str) -> list[Failure]:
    return [
        Failure(
            f"{each['tool']}: {stem} {number}",
            each["tool"],
            1,
            (_source(each["text"]), *(_other(each["text"], n) for n in range(VARIANTS))),
            each.get("message", False),
            each.get("generic", False),
        )
        for number, each in enumerate(_read(f"{stem}.yaml"))
    ]


def _read(name: str) -> list[dict[str, Any]]:
    with (DATA / name).open(encoding="utf-8") as file:
        return list(yaml.safe_load(file))


def _source(text: str) -> str:
    """Return the text as its source has it: with the first value of each mark."""
    return _MARK.sub(lambda match: match.group(1).partition("|")[0], text)


def _other(text: str, number: int) -> str:
    """Return the text with something else of its kind in each mark; equal marks stay equal.

    A mark with several values, as in «2s|1m 3s|41s|7m», has one for each run, in a circle.
    """
    return _MARK.sub(lambda match: _replacement(match.group(1), number), text)


def _replacement(value: str, number: int) -> str:
    if "|" in value:
        values = value.split("|")
        return values[(number + 1) % len(values)]
    for pattern, replace in _KINDS:
        if re.fullmatch(pattern, value):
            return replace(value, number)
    return _HOSTS[number]


def _digits(value: str, number: int) -> str:
    """Return a number with more or fewer digits, the same for the same value."""
    return str((int(value) * (7, 13, 1009)[number] + (1, 4, 9)[number]) % (10**9 + 7))


def _decimal(value: str, number: int) -> str:
    return re.sub("[0-9]+", lambda match: _digits(match.group(), number)[:4], value)


def _path(value: str, number: int) -> str:
    """Return the file in another folder; folders of installed packages stay."""
    for part in ("/node_modules", "/lib", "\\lib"):
        folder, found, rest = value.partition(part)
        if found and folder and ("-packages" in value or "node_modules" in value):
            return f"{_FOLDERS[number]}{found}{rest}"
    return f"{_FOLDERS[number]}/{_SLASH.split(value)[-1]}"


def _hex(value: str, number: int) -> str:
    start = "0x" if value.startswith("0x") else ""
    return start + f"{(int(value, 16) + 1) * (31, 77, 1031)[number]:x}".zfill(
        len(value) - len(start)
    )


_KINDS: tuple[tuple[str, Callable[[str, int], str]], ...] = (
    (r"[0-9]+", _digits),
    (
        r"[0-9]{4}[-/].*|[0-9]{2}/.*",
        lambda value, n: re.sub("[0-9]", lambda d: str((int(d.group()) * 7 + n + 1) % 10), value),
    ),
    (r"[0-9:]+", lambda value, n: re.sub("[0-9]", str(n), value)),
    (r"[0-9]+(\.[0-9]+){3}", lambda value, n: f"10.{n}.{n * 7 + 3}.{n + 100}"),
    (r"[0-9.]+( [KMG]iB)?", _decimal),
    (r"\[?[0-9, .]+\]?", _decimal),
    (r"0x[0-9a-f]+|[0-9a-fA-F]{16,}", _hex),
    (r"[0-9a-f]{8}-.*", lambda value, n: f"{n}c{value[2:]}"),
    (r".*[/\\].*|[\w-]+\.(py|f90|F90|so)", _path),
    (r"Makefile", lambda value, n: value),
)
