"""The mutants themselves: each still applies, and five of them are planted each time.

All of them, and the judge of faults: `make mutants`.
"""

import ast
from pathlib import Path

import pytest

from tests.mutants.catalogue import IN_CI, MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.planting import Edit, NotApplicable
from tests.mutants.run import CAUGHT, SURVIVED, Finding, line, run
from tests.prepared import ROOT

SOURCE = """
FIRST = "one two"


class Thing:
    def act(self) -> int:
        return (1 +
            2)


def act() -> int:
    return 1 + 2
"""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: Mutant) -> None:
    """If not: find what does now what its place did, and break it there."""
    for edit in mutant.edits:
        source = edit.path(ROOT).read_text()
        assert edit.applied(source) != source
    for test in mutant.tests:
        path, *names = test.split("::")
        found: ast.AST = ast.parse((ROOT / path).read_text())
        for name in names:
            inside = [each for each in ast.iter_child_nodes(found) if _is_called(each, name)]
            assert inside, f"{test} is not there"
            found = inside[0]


def _is_called(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name


def test_there_are_enough_of_each_kind() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 20
    assert set(names) > set(IN_CI)
    assert len(IN_CI) == 5
    assert sum(mutant.judge for mutant in MUTANTS) >= 5


@pytest.mark.parametrize(
    ("where", "old", "changed"),
    [
        ("m:FIRST", "one", 'FIRST = "new two"'),
        ("m:Thing.act", "1 + 2", "return (new)"),
        ("m:act", "1 +\n 2", "return new"),
    ],
)
def test_a_place_is_found_by_its_name(where: str, old: str, changed: str) -> None:
    after = Edit(where, old, "new").applied(SOURCE)
    assert changed in after
    assert len(SOURCE.splitlines()) - len(after.splitlines()) in {0, 1}


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("m:absent", "1", "2"),
        ("m:Thing.absent", "1", "2"),
        ("m:act", "3", "4"),
        ("m:FIRST", "o", "0"),
        ("m:act", "1", "1 +* 1"),
    ],
)
def test_missing_and_repeated_snippets_are_reported(where: str, old: str, new: str) -> None:
    with pytest.raises(NotApplicable):
        Edit(where, old, new).applied(SOURCE)


def test_survivors_are_shown() -> None:
    finding = Finding(MUTANTS[0], CAUGHT, SURVIVED, 1.0)
    assert finding.survived
    assert SURVIVED in line(finding)
    assert not Finding(MUTANTS[0], CAUGHT, "", 1.0).survived


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_five_are_planted_and_caught(prepared: Path) -> None:
    """And one that harms nobody is not."""
    chosen = [mutant for mutant in MUTANTS if mutant.name in IN_CI]
    harmless = Edit("retry.engine.case:check_budget", "used >= limit", "limit <= used")
    sound = Mutant("harmless", (harmless,), chosen[-1].tests)
    before = {edit.path(ROOT): edit.path(ROOT).read_bytes() for m in chosen for edit in m.edits}
    findings = run([*chosen, sound], judge=None, prepared=prepared)
    assert [finding.by_tests for finding in findings] == [CAUGHT] * 5 + [SURVIVED]
    assert {path: path.read_bytes() for path in before} == before
