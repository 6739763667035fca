from itertools import product

import pytest

from sessions_app.core.states import (
    EVENT_TYPES,
    FINAL_STATUSES,
    LIVE_STATUSES,
    Phase,
    Status,
    TransitionNotAllowed,
    check,
    is_allowed,
    phase_of,
)

# Rows: from; columns: to, in the same order; x: allowed.
TABLE = """
             PENDING SCHEDULED PREPARING PULLING PREPARED CREATING RUNNING TERMINATING TERMINATED ERROR CANCELLED
PENDING      .       x         .         .       .        .        .       .           .          x     x
SCHEDULED    x       .         x         x       x        x        x       x           x          x     x
PREPARING    x       .         .         x       x        x        x       x           x          x     x
PULLING      .       .         .         .       x        x        x       x           x          x     x
PREPARED     .       .         .         .       .        x        x       x           x          x     x
CREATING     .       .         .         .       .        .        x       x           x          x     x
RUNNING      .       .         .         .       .        .        .       x           x          x     x
TERMINATING  .       .         .         .       .        .        .       .           x          x     x
TERMINATED   .       .         .         .       .        .        .       .           .          .     .
ERROR        .       .         .         .       .        .        .       .           .          .     .
CANCELLED    .       .         .         .       .        .        .       .           .          .     .
"""  # noqa: E501  # a table is read in lines


def written_table() -> dict[tuple[Status, Status], bool]:
    head, *rows = (line.split() for line in TABLE.strip().splitlines())
    return {
        (Status(current), Status(target)): mark == "x"
        for current, *marks in rows
        for target, mark in zip(head, marks, strict=True)
    }


ALLOWED = written_table()


def test_the_written_table_has_every_pair() -> None:
    assert set(ALLOWED) == set(product(Status, Status))
    assert len(ALLOWED) == 121


@pytest.mark.parametrize(("current", "target"), list(product(Status, Status)))
def test_a_step_is_allowed_as_written(current: Status, target: Status) -> None:
    assert is_allowed(current, target) is ALLOWED[current, target]
    if ALLOWED[current, target]:
        check(current, target)
    else:
        with pytest.raises(TransitionNotAllowed, match=f"{current} -> {target}"):
            check(current, target)


def test_every_status_has_a_phase() -> None:
    phases = {status: phase_of(status) for status in Status}
    assert [s for s, phase in phases.items() if phase is Phase.WAITING] == [Status.PENDING]
    assert tuple(s for s, phase in phases.items() if phase is Phase.LIVE) == LIVE_STATUSES
    assert {s for s, phase in phases.items() if phase is Phase.FINAL} == FINAL_STATUSES


def test_every_status_that_is_reached_has_an_event() -> None:
    assert {status: EVENT_TYPES[status] for status in EVENT_TYPES} == {
        status: f"session.{status.value.lower()}" for status in Status if status != "PENDING"
    }
