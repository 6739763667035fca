"""A short storm, as in CI; a long one: `make faults SEED=7 SECONDS=600`."""

from pathlib import Path

import pytest

from tests.faults.late import CASES
from tests.faults.plan import KINDS
from tests.faults.plant import LEASE_GRACE, LEASE_TTL, TROUBLES
from tests.faults.run import run, table

SECONDS = 30.0


@pytest.mark.slow
@pytest.mark.rabbitmq
@pytest.mark.timeout(400)
@pytest.mark.xdist_group("rabbitmq")
def test_nothing_is_lost_and_nothing_happens_twice(prepared: Path) -> None:
    result = run(seed=1, seconds=SECONDS, prepared=prepared)
    told = "\n".join([table(result), *result.violations])
    assert result.violations == [], told
    assert set(result.faults) == set(KINDS), told
    for kind in ("executor cut off", "executor frozen"):
        assert result.lasted[kind] > LEASE_TTL + LEASE_GRACE, told
    assert set(result.troubles) == set(TROUBLES), told
    assert {"cancelled in bulk", "retried in bulk"} <= set(result.outcomes), told
    assert set(result.played) == {case.__name__.strip("_") for case in CASES}, told
    assert result.looks > SECONDS, told
    assert result.paced, told
    assert result.attempts > result.sessions > 30, told
