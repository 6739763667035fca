"""The planted bugs: each breaks one promise of the heart, and somebody has to notice."""

from tests.mutants.mutant import Mutant
from tests.mutants.of_chains import DEPENDENCIES, DISPATCH, PEOPLE, SETTLE
from tests.mutants.of_executors import EXPIRY, FENCING, LEASES, STARTS
from tests.mutants.of_records import COUNTERS, LOG

MUTANTS: tuple[Mutant, ...] = (
    *DISPATCH,
    *SETTLE,
    *FENCING,
    *LEASES,
    *EXPIRY,
    *PEOPLE,
    *DEPENDENCIES,
    *COUNTERS,
    *LOG,
    *STARTS,
)

IN_CI = (
    "fencing-token-ignored",
    "decision-written-after-the-commit",
    "suspicion-is-a-verdict",
    "one-retry-too-many",
    "fold-that-forgets-the-decision",
)
"""Cheap and certain: one for each kind of place and of test."""
