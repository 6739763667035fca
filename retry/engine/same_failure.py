"""The end of a chain that fails in the same way again and again."""

from itertools import takewhile
from typing import Any

from retry.engine.case import Case, Verdict, check_condition
from retry.engine.decision import Chain
from retry.evidence.causes import CauseClass


def same_failures(chain: Chain) -> int:
    """Return how many failures in a row are this one, with it; platform causes are passed over.

    An attempt that made progress interrupts the row; 0 if this one did.
    """
    if chain.advanced:
        return 0
    if not chain.signature:
        return 1
    return 1 + sum(1 for _ in takewhile(chain.signature.__eq__, chain.failures))


def repeats(case: Case, most: int | None, **facts: Any) -> Verdict | None:
    """Refuse the retry of a failure that has come `most` times in a row; None is no limit."""
    if most is None or case.kind is not CauseClass.FAILURE:
        return None
    count = same_failures(case.chain)
    return check_condition(
        case,
        "same_failure",
        "repeating_failure",
        count < most,
        **facts,
        signature=case.chain.signature,
        count=count,
        limit=most,
    )
