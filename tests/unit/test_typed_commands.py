"""Commands are shown so that bash would make the same of them, on pages and by the command."""

import subprocess
from collections.abc import Callable, Sequence

import pytest
from reprise_client.cli.typed import typed

from interfaces.templatetags.reprise import shell

SHOWN = pytest.mark.parametrize("shown", [shell, typed], ids=["pages", "command"])
Shown = Callable[[Sequence[str]], str]


@SHOWN
@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", 'set -e\nfor each in 1 2; do\n\techo "it\'s $each"\ndone\n'],
        ["python", "-c", "print('a b')", "", "  "],
        ["printf", "\x1b[2Jgone\n", "a\\b'c\x07"],
        ["rm", "report\u202egpj.exe", "a\u200bb", "\x85", "größe"],
    ],
)
def test_bash_reads_what_is_shown(shown: Shown, command: list[str]) -> None:
    script = f"printf '%s\\0' {shown(command)}"
    environ = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env=environ)
    assert done.stdout.decode().split("\0")[:-1] == command


@SHOWN
def test_lines_stay_lines(shown: Shown) -> None:
    assert shown(["sh", "-c", "one\ntwo"]) == "sh -c 'one\ntwo'"


@SHOWN
def test_nothing_reaches_a_terminal_or_turns_the_text(shown: Shown) -> None:
    text = shown(["echo", "\x1b[31mred", "\u202eabc"])
    assert text == "echo $'\\x1b[31mred' $'\\U0000202eabc'"
