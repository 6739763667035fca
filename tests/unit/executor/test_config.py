"""The options of the agent's command line."""

import pytest

from executor import config
from executor.config import Pods

GIVEN = ("--name", "one", "--url", "http://127.0.0.1:1", "--state-dir", "state")


def pods(*options: str) -> Pods:
    parsed = config.parse([*GIVEN, *options], {config.TOKEN_VARIABLE: "x"})
    return parsed.pods


def test_classes_of_sessions_have_priority_classes() -> None:
    assert pods().priority_classes == {}
    two = ("--priority-class", "urgent=high", "--priority-class=default=a.b-c")
    assert pods(*two).priority_classes == {"urgent": "high", "default": "a.b-c"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["urgent"], "must be CLASS=NAME, and NAME must be lower-case letters"),
        (["=high"], "must be CLASS=NAME"),
        (["urgent="], "NAME must be lower-case letters, digits, '-' and '.'"),
        (["urgent=High"], "NAME must be lower-case letters"),
        (["urgent=../pods"], "NAME must be lower-case letters"),
        ([f"urgent={'x' * 254}"], "at most 253 characters"),
        (["urgent=high", "urgent=low"], "each class may be given once"),
    ],
)
def test_a_wrong_mapping_is_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        pods(*(f"--priority-class={each}" for each in options))
    assert exit_info.value.code == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "--priority-class" in error
    assert words in error
