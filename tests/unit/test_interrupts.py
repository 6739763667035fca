"""An interruption waits while it is held back, and then comes once."""

import signal

import pytest

from reprise.standalone.interrupts import interrupt, uninterrupted


def test_it_comes_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_it_waits_for_the_end_of_a_hold_and_comes_once() -> None:
    passed = []

    def interrupted() -> None:
        with uninterrupted():
            interrupt()
            passed.append("the rest of the block")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert passed
    with uninterrupted():
        pass


def test_a_signal_in_the_middle_of_a_hold() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: interrupt())
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
