"""Steps of services: one transaction each."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from sessions_app.db.deferred import closing
from sessions_app.db.failpoints import failpoint


@contextmanager
def atomic_step(step: str) -> Iterator[None]:
    """Run the block in a transaction, do what it put off, and commit.

    Tests can kill the process on either side of the commit: `step` is one of `failpoints.STEPS`.
    """
    with transaction.atomic():
        with closing():
            yield
        failpoint(f"{step}.before_commit")
    failpoint(f"{step}.after_commit")
