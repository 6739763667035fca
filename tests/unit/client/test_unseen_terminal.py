"""The command marks what nobody sees; JSON and YAML mean the same as without marks."""

import json
import re
from pathlib import Path

import pytest
import reprise_client.cli
import yaml
from reprise_client.cli.follow import echo_log
from reprise_client.cli.output import facts, grid
from reprise_client.cli.text import Text
from reprise_client.cli.unseen import marked_log
from rich.console import Console

from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply, problem

TURNED = "gnp\u202egpj.exe"
SHOWN = "gnp<U+202E>gpj.exe"
COLOUR = "\x1b[31mred\x1b[0m"


def test_tables_and_lines_mark_them(command: Command, server: FakeServer) -> None:
    session = {**answers.session("ERROR"), "name": TURNED, "status_message": f"{COLOUR}\u200b"}
    server.on(f"GET /sessions/{IDS[0]}/", Reply(session))
    server.on("GET /sessions/", Reply({"next": None, "previous": None, "results": [session]}))
    for asked in (("session", "info", IDS[0]), ("session", "list")):
        shown = command(*asked).stdout
        assert SHOWN in shown
        assert "\u202e" not in shown
        assert "\x1b" not in shown


def test_json_and_yaml_mean_the_same(command: Command, server: FakeServer) -> None:
    session = {**answers.session("ERROR"), "name": f"{TURNED}\u009b\U000e0041"}
    server.on(f"GET /sessions/{IDS[0]}/", Reply(session), Reply(session))
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        shown = command("session", "info", IDS[0], "-o", form).stdout
        assert "\u202e" not in shown
        assert "\u009b" not in shown
        assert read(shown)["name"] == session["name"]


def test_errors_mark_them(command: Command, server: FakeServer) -> None:
    server.on(f"GET /sessions/{IDS[0]}/", problem(404, f"no session {TURNED}"))
    shown = command("session", "info", IDS[0]).stderr
    assert SHOWN in shown


def test_a_log_keeps_its_colours_and_is_left_alone_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = f"{COLOUR} 10%\r20% {TURNED}\u200b\n"
    assert marked_log(log) == f"{COLOUR} 10%\r20% {SHOWN}<U+200B>\n"
    echo_log(log.encode())
    assert capsysbinary.readouterr().out == log.encode()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    echo_log(log.encode())
    assert capsysbinary.readouterr().out == marked_log(log).encode()


def test_columns_are_as_wide_as_their_marks() -> None:
    console = Console(width=80, record=True, markup=False)
    console.print(grid(["NAME", "AGE"], [[TURNED, "1"], [Text("a").append("\u200b"), "2"]]))
    console.print(facts([("name", TURNED)]))
    first, second, third, fourth = console.export_text().splitlines()
    assert first.index("AGE") == second.index("1  ") == third.index("2  ") == len(SHOWN) + 2
    assert "a<U+200B>" in third
    assert SHOWN in fourth


def test_all_texts_of_the_command_mark_them() -> None:
    made = re.compile(r"from rich\.text|import rich\.text|from rich import text")
    folder = Path(reprise_client.cli.__file__).parent
    found = [each.name for each in folder.rglob("*.py") if made.search(each.read_text())]
    assert found == ["text.py"]
