"""Plants one bug after the other in a copy of the tree, and looks who finds it."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.planting import plant
from tests.prepared import GIVEN, ROOT, prepare

LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "var", "build", ".*_cache", ".hypothesis")
LONGEST_SECONDS = 600.0
# Others take longer to be loaded than most of these tests to run.
PLUGINS = ("pytest_django.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
CAUGHT, SURVIVED = "caught", "SURVIVED"
_TESTS_FAILED, _PASSED = 1, 0


class Broken(Exception):
    """The searchers cannot look for bugs: their findings would mean nothing."""


@dataclass(frozen=True)
class Finding:
    """The findings about a mutant: empty where nobody was asked."""

    mutant: Mutant
    by_tests: str
    by_judge: str
    seconds: float
    wrong: str = ""
    """The first thing that the judge said."""

    @property
    def survived(self) -> bool:
        return SURVIVED in {self.by_tests, self.by_judge}


@dataclass(frozen=True)
class Judge:
    """The way to run the faults: the seed, and the length."""

    seed: int
    seconds: float


@contextmanager
def copied_tree() -> Iterator[Path]:
    """A copy of the working tree, which nobody else looks at."""
    with tempfile.TemporaryDirectory(prefix="reprise-mutants-") as directory:
        tree = Path(directory) / "tree"
        shutil.copytree(ROOT, tree, ignore=LEFT_OUT, symlinks=True)
        yield tree


def run(
    mutants: Sequence[Mutant],
    *,
    judge: Judge | None = None,
    prepared: Path | None = None,
    tell: Callable[[Finding], None] = lambda _: None,
) -> list[Finding]:
    """Plant each mutant and ask its tests, and the judge if there is one to ask.

    On copies of the `prepared` database, if there is one. Raises `Broken` if the tests fail without
    any bug, or cannot be run.
    """
    with copied_tree() as tree:
        looking = _Looking(tree, judge, prepared or prepare(tree.parent))
        looking.ask_soundly(mutants)
        findings = []
        for mutant in mutants:
            findings.append(looking.look(mutant))
            tell(findings[-1])
        return findings


class _Looking:
    """The copy, and who looks for bugs in it."""

    def __init__(self, tree: Path, judge: Judge | None, prepared: Path):
        self._tree = tree
        self._judge = judge
        self._prepared = prepared

    def ask_soundly(self, mutants: Sequence[Mutant]) -> None:
        """All tests pass as long as nothing is planted."""
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        if self._ask_tests(tests) != SURVIVED:
            raise Broken("tests fail without any bug: mend them first")

    def look(self, mutant: Mutant) -> Finding:
        """Plant it, ask, and put back what was there."""
        began = time.monotonic()
        with _kept({edit.path(self._tree) for edit in mutant.edits}):
            plant(self._tree, mutant.edits)
            by_tests = self._ask_tests(mutant.tests)
            by_judge, wrong = self._ask_judge() if mutant.judge and self._judge else ("", "")
        return Finding(mutant, by_tests, by_judge, time.monotonic() - began, wrong)

    def _ask_tests(self, tests: Sequence[str]) -> str:
        base = self._tree.parent / "pytest"
        plugins = [word for name in PLUGINS for word in ("-p", name)]
        options = ("-x", "-q", "-p", "no:cacheprovider", *plugins, f"--basetemp={base}")
        done = self._python("-m", "pytest", *options, *tests)
        if done.returncode not in {_TESTS_FAILED, _PASSED}:
            raise Broken(f"pytest ended with {done.returncode}: {done.stdout}{done.stderr}")
        return CAUGHT if done.returncode == _TESTS_FAILED else SURVIVED

    def _ask_judge(self) -> tuple[str, str]:
        assert self._judge is not None
        given = ("--seed", str(self._judge.seed), "--seconds", str(self._judge.seconds))
        options = ("--first", "--prepared", str(self._prepared))
        done = self._python("-m", "tests.faults", *given, *options)
        found = [line for line in done.stdout.splitlines() if line.startswith("VIOLATION ")]
        if done.returncode not in {_TESTS_FAILED, _PASSED} or bool(found) != bool(done.returncode):
            raise Broken(f"the faults ended with {done.returncode}: {done.stdout}{done.stderr}")
        return (CAUGHT, found[0].removeprefix("VIOLATION ")) if found else (SURVIVED, "")

    def _python(self, *words: str) -> "subprocess.CompletedProcess[str]":
        ours = {
            "PYTHONPATH": str(self._tree),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        kept = {name: value for name, value in os.environ.items() if not _is_of_pytest(name)}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self._tree,
            env={**kept, **ours, GIVEN: str(self._prepared)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )


@contextmanager
def _kept(paths: Collection[Path]) -> Iterator[None]:
    """Files are afterwards as they were, also in their time: what was compiled of them is good."""
    with tempfile.TemporaryDirectory() as directory:
        copies = {path: Path(directory) / str(number) for number, path in enumerate(paths)}
        for path, copy in copies.items():
            shutil.copy2(path, copy)
        try:
            yield
        finally:
            for path, copy in copies.items():
                shutil.copy2(copy, path)


def _is_of_pytest(name: str) -> bool:
    # What one run of pytest tells its own processes says nothing to another.
    return name.startswith("PYTEST_")


HEAD = f"{'mutant':48} {'tests':>10} {'judge':>10} {'seconds':>8}"


def line(finding: Finding) -> str:
    """A row of the table for people."""
    asked = (finding.by_tests or "-", finding.by_judge or "-")
    row = f"{finding.mutant.name:48} {asked[0]:>10} {asked[1]:>10} {finding.seconds:8.1f}"
    return f"{row}  {finding.wrong[:100]}".rstrip()
