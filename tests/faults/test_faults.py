"""A short storm, as in CI; a long one: `make faults SEED=7 SECONDS=600`."""

import pytest

from tests.faults.plan import KINDS
from tests.faults.run import run, table

SECONDS = 40.0


@pytest.mark.slow
@pytest.mark.rabbitmq
@pytest.mark.timeout(400)
@pytest.mark.xdist_group("rabbitmq")
def test_nothing_is_lost_and_nothing_happens_twice() -> None:
    result = run(seed=1, seconds=SECONDS)
    told = "\n".join([table(result), *result.violations])
    assert result.violations == [], told
    assert set(result.faults) == set(KINDS), told
    assert result.attempts > result.sessions > 100, told
