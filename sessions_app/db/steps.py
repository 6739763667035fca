"""Steps of services: one transaction each."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from sessions_app.db.failpoints import failpoint
from sessions_app.db.writes import Writes


@contextmanager
def atomic_step(step: str) -> Iterator[Writes]:
    """Run the block in a transaction with its writes, do what they put last, and commit.

    Tests can kill the process on either side of the commit: `step` is one of `failpoints.STEPS`.
    """
    with transaction.atomic():
        writes = Writes()
        yield writes
        writes.finish()
        failpoint(f"{step}.before_commit")
    failpoint(f"{step}.after_commit")
