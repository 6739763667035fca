from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retry.evidence.termination import Termination
from retry.policies.patterns import pattern
from tests.unit.retry.build import decided
from tests.unit.retry.named import category, named


def matches(text: str, message: str) -> bool:
    rule = {"action": "Retry", "onTerminationMessage": {"pattern": text}}
    return decided(Termination(message=message), named=[named(rule)]).action == "retry"


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        (".*TRANSIENT.*", "a TRANSIENT fault", True),
        ("TRANSIENT", "a TRANSIENT fault", True),
        ("^TRANSIENT$", "a TRANSIENT fault", False),
        ("(?i)transient", "a TRANSIENT fault", True),
        (".*", "", True),
        (".*", "anything", True),
        ("a.c", "a\nc", False),
        ("(?s)a.c", "a\nc", True),
        ("^b", "a\nb", False),
        ("(?m)^b", "a\nb", True),
        ("\\bGPU\\b", "no GPU here", True),
        ("Xid [0-9]{2,3}", "Xid 79", True),
        ("\\pL+ß", "Straße weiß", True),
        ("ä", "a\u0308", False),
        ("^.$", "🙂", True),
        ("\\x00", "a\x00b", True),
        ("a\x00b", "a\x00b", True),
        ("\\Q(.)\\E", "(.)", True),
    ],
)
def test_a_pattern_is_searched_anywhere(text: str, message: str, expected: bool) -> None:
    assert matches(text, message) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(", "missing ): ("),
        (")", "unexpected ): )"),
        ("[a", "missing ]: [a"),
        ("a**", "bad repetition operator: **"),
        ("*a", "no argument for repetition operator: *"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("\\", "trailing \\"),
        ("\\8", "invalid escape sequence: \\8"),
        # What backtracking engines have, and linear time cannot.
        ("(a)\\1", "invalid escape sequence: \\1"),
        ("(?=a)", "invalid perl operator: (?="),
        ("(?!a)", "invalid perl operator: (?!"),
        ("(?<=a)b", "invalid perl operator: (?<="),
        ("(?>a)", "invalid perl operator: (?>"),
        ("(?(1)a|b)", "invalid perl operator: (?("),
        ("(?#x)", "invalid perl operator: (?#"),
    ],
)
def test_patterns_the_engine_refuses_have_a_message(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^is not an RE2 regular expression: ") as refused:
        pattern(text)
    assert str(refused.value).removeprefix("is not an RE2 regular expression: ") == message


def test_a_pattern_that_grows_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        pattern("(\\pL{30}){30}")


def test_a_pattern_is_at_most_1024_characters_long() -> None:
    assert pattern("ä" * 1024)
    with pytest.raises(ValueError, match=r"^must have at most 1,024 characters$"):
        pattern("a" * 1025)


def test_a_pattern_is_text() -> None:
    with pytest.raises(ValueError, match="not valid text"):
        pattern("\ud800")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("needle" + "x" * 4090, True),
        ("needle" + "x" * 4091, False),
        ("needle" + "ä" * 2045, True),
        ("needle" + "ä" * 2046, False),
        ("x" * 100_000 + "needle", True),
    ],
)
def test_only_the_last_4096_bytes_are_searched(message: str, expected: bool) -> None:
    assert matches("needle", message) == expected


def test_a_message_is_cut_between_characters() -> None:
    # A character of two bytes lies across the edge.
    assert matches("^x{95}x{1000}x{1000}x{1000}x{1000}$", "ä" + "x" * 4095)
    assert matches("^äx{94}x{1000}x{1000}x{1000}x{1000}$", "ää" + "x" * 4094)


@pytest.mark.parametrize("message", ["\x00", "a\ud800b", "\udfff" * 3000, "\U0010ffff\x00\ud800"])
def test_any_message_can_be_searched(message: str) -> None:
    assert matches(".*", message)
    assert matches("(?s)^.+$", message)
    compiled = category("it", {"onPodMessage": {"pattern": "(?s)^.+$"}})
    end = Termination(pod_message=message)
    assert decided(end, categories=[compiled]).failure_category == "it"


@given(st.text(min_size=1, max_size=30), st.text())
def test_no_pattern_makes_it_raise_anything_else(text: str, message: str) -> None:
    try:
        pattern(text)
    except ValueError:
        return
    matches(text, message)


def seconds(work: Callable[[], Any]) -> float:
    """The shortest of a few runs, in processor time."""

    def once() -> float:
        began = process_time()
        work()
        return process_time() - began

    return min(once() for _ in range(7))


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("(a+)+$", "a"),
        ("(a|a)*$", "a"),
        ("(a|aa)+$", "a"),
        ("(.*)*x", "a"),
        ("([a-z]+)*\\d", "a"),
        ("(x+x+)+y", "x"),
        ("a?" * 100 + "a{100}$", "a"),
    ],
)
def test_pathological_patterns_take_linear_time(text: str, letter: str) -> None:
    compiled = pattern(text)
    short, long = (f"{letter * size}!".encode() for size in (400, 4000))

    def search(message: bytes) -> float:
        return seconds(lambda: [compiled.search(message) for _ in range(20)])

    # Ten times the length takes some ten times as long; a square would be a hundred.
    assert search(long) < 50 * search(short)
