"""Tests that a deferred step runs once, at the end of its step, and not at all if the step
fails."""

from contextlib import suppress

import pytest

from sessions_app.db.deferred import closing, put_off


class Done:
    """The steps that were done, in order."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def take(self, items: list[int]) -> None:
        self.calls.append(items)


@pytest.fixture
def done() -> Done:
    return Done()


def test_outside_of_a_step_it_is_done_at_once(done: Done) -> None:
    put_off(done.take, iter([1]))
    assert done.calls == [[1]]


def test_all_of_a_step_is_done_at_once_at_its_end(done: Done) -> None:
    take = done.take
    with closing():
        put_off(take, [1])
        put_off(take, [2, 3])
        assert done.calls == []
    assert done.calls == [[1, 2, 3]]
    with closing():
        pass
    assert done.calls == [[1, 2, 3]]


def test_a_step_within_a_step_has_its_own_end(done: Done) -> None:
    take = done.take
    with closing():
        put_off(take, [1])
        with closing():
            put_off(take, [2])
        assert done.calls == [[2]]
    assert done.calls == [[2], [1]]


def test_a_step_that_fails_forgets(done: Done) -> None:
    with suppress(ZeroDivisionError), closing():
        put_off(done.take, [1])
        raise ZeroDivisionError
    assert done.calls == []
    put_off(done.take, [2])
    assert done.calls == [[2]]
