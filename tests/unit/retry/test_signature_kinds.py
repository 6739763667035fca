"""Kinds of ends that hide what failed: runs of one failure fall together, others stay apart."""

from itertools import combinations

from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.signatures.signature import Signature, signature
from tests.unit.retry.failures import kinds

ASKED = 0.97


def found() -> list[tuple[str, list[Signature]]]:
    failed = Termination(exit_code=1)
    return [
        (tool, [signature(Ended(failed), text, image=tool, command=[tool]) for text in texts])
        for tool, texts in kinds()
    ]


def test_runs_of_one_failure_fall_together() -> None:
    pairs = [pair for _, signatures in found() for pair in combinations(signatures, 2)]
    apart = [(a.title, b.title) for a, b in pairs if a.key != b.key]
    assert len(pairs) > 1_000
    assert len(apart) <= (1 - ASKED) * len(pairs), apart


def test_failures_of_one_program_stay_apart_and_no_two_programs_are_one() -> None:
    keys = [(tool, {each.key for each in signatures}) for tool, signatures in found()]
    pairs = [(a, b, bool(mine & yours)) for (a, mine), (b, yours) in combinations(keys, 2)]
    siblings = [together for a, b, together in pairs if a == b]
    assert len(siblings) > 300
    assert sum(siblings) <= (1 - ASKED) * len(siblings)
    assert [(a, b) for a, b, together in pairs if a != b and together] == []
