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
@pytest.mark.timeout(1200)
@pytest.mark.xdist_group("rabbitmq")
def test_nothing_is_lost_and_nothing_happens_twice(prepared: Path) -> None:
    result = run(seed=1, seconds=SECONDS, prepared=prepared)
    summary = "\n".join([table(result), *result.violations])
    assert result.violations == [], summary
    assert set(result.faults) == set(KINDS), summary
    for kind in ("executor cut off", "executor frozen"):
        assert result.lasted[kind] > LEASE_TTL + LEASE_GRACE, summary
    assert set(result.troubles) == set(TROUBLES), summary
    assert {"cancelled in bulk", "retried in bulk"} <= set(result.outcomes), summary
    assert set(result.played) == {case.__name__.strip("_") for case in CASES}, summary
    assert result.looks > SECONDS, summary
    assert result.paced, summary
    assert result.waited, summary
    assert result.made_room, summary
    assert result.attempts > result.sessions > 30, summary
