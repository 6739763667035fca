"""`reprise top`: what people see of what goes on, on screens of any size."""

import json
from typing import Any

import pytest
from reprise_client import Client
from reprise_client.cli.top import Look
from reprise_client.cli.top_view import top_line, top_view
from reprise_client.errors import ApiError
from reprise_client.models import Operations, Overview
from rich.console import Console

from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, problem

PATH = "/overview/"
ID = "019a2b3c-0000-7000-8000-000000000001"


def queue(number: int) -> dict[str, Any]:
    return {
        "project": "lab/storm",
        "name": f"queue-{number:02}",
        "priority_factor": 2.0,
        "cordoned": number == 1,
        "waiting": {"value": 1_000 - number, "more": number == 0},
        "live": 60 - number,
        "share": 0.1 / (number + 1),
        "effective_priority": 0.2 / (number + 1),
    }


def executor(name: str, **more: Any) -> dict[str, Any]:
    usual = {"health": "alive", "heartbeat_age": 5.0, "lease_count": 0, "max_sessions": 256}
    return {"name": name, **usual, "cordoned": False, **more}


def answer(**more: Any) -> dict[str, Any]:
    return {
        "at": "2030-01-31T12:00:00Z",
        "waiting": {"value": 12_345, "more": True},
        "live": 678,
        "retries": {
            "scheduled": {"value": 90, "more": False},
            "held": {"value": 4, "more": False},
        },
        "pace": {
            "window": 10.0,
            "submitted": 0,
            "settled": 4_000,
            "succeeded": 3_975,
            "failed": 25,
            "retried": 22,
            "cause_window": 20.0,
            "causes": {"preempted": 40, "oom_killed": 10},
        },
        "queues": [queue(number) for number in range(50)],
        "more_queues": 3,
        "executors": [
            executor("east", lease_count=200, heartbeat_age=1.5),
            executor("west", health="silent", heartbeat_age=300.0),
            executor("new", health="never_heard", heartbeat_age=None, cordoned=True),
            executor("full", draining_since="2030-01-31T11:00:00Z", cordoned=True),
        ],
        **more,
    }


def drawn(width: int, height: int, **more: Any) -> list[str]:
    seen = Overview.model_validate(answer(**more))
    screen = Console(width=width, height=height, highlight=False)
    with screen.capture() as captured:
        screen.print(top_view(seen, "http://here", width=width, height=height))
    return captured.get().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60), (60, 15)])
def test_it_fits_the_screen(width: int, height: int) -> None:
    lines = drawn(width, height)
    assert len(lines) <= height
    assert max(len(line) for line in lines) <= width
    assert any(line.startswith("and ") and line.endswith("more queues") for line in lines)
    assert drawn(width, height, queues=[], causes={}, executors=[])


def test_the_whole_overview_is_drawn() -> None:
    text = "\n".join(drawn(140, 80))
    for words in (
        "Waiting 12,345+   Live 678   Retries that wait 90 (4 held)",
        "Settled 400/s   succeeded 398/s   failed 2.5/s   retried 2.2/s   submitted 0/s",
        "FAILED IN 20 S",
        "lab/storm/queue-00",
        "1,000+",
        "lab/storm/queue-01 cordoned",
        "10.0%",
        "200 of 256",
        "2 s ago",
        "never cordoned",
        "5 s ago draining",
        "and 3 more queues",
    ):
        assert words in text
    # Who is silent comes first.
    assert text.index("west") < text.index("east")


def test_without_executors_none_are_drawn() -> None:
    assert not any("EXECUTOR" in line for line in drawn(80, 24, executors=None))


def test_a_line_for_logs() -> None:
    assert top_line(Overview.model_validate(answer())).split("  ", 1)[1] == (
        "waiting 12,345+  live 678  retries 90 (4 held)  settled 400/s  retried 2.2/s  "
        "failed in 20 s: preempted 40, oom_killed 10"
    )


def test_once(command: Command, server: FakeServer) -> None:
    server.on(f"GET {PATH}", answer())
    done = command("top", "--once")
    assert done.exit_code == 0, done.output
    assert "lab/storm/queue-49" in done.stdout
    assert json.loads(command("top", "--once", "-o", "json").stdout) == answer()
    assert command("top", "--once", "-o", "name").stdout.splitlines()[0] == "lab/storm/queue-00"
    assert "project" not in server.calls[-1].query
    command("top", "--once", "--project", "lab/storm")
    assert server.calls[-1].query["project"] == "lab/storm"


PROBLEMS = [
    {
        "kind": "no_worker",
        "severity": "critical",
        "sentence": "No worker is alive.",
        "since": "2030-01-31T11:55:00Z",
    },
    {
        "kind": "retries_paused",
        "severity": "notice",
        "sentence": "Retries of acme are paused.",
        "affected": {"value": 12, "more": False},
        "unit": "held retries",
    },
]


def told(count: int = 1) -> dict[str, Any]:
    return {"at": "2030-01-31T12:00:00Z", "problems": PROBLEMS * count}


def test_operators_are_told_what_is_wrong(command: Command, server: FakeServer) -> None:
    server.on(f"GET {PATH}", answer())
    server.on("GET /operations/", told())
    shown = command("top", "--once").stdout
    assert "CRITICAL: No worker is alive.  5 min" in shown
    assert "NOTICE: Retries of acme are paused. [12 held retries]" in shown
    assert json.loads(command("top", "--once", "-o", "json").stdout)["problems"] == PROBLEMS
    asked = server.count("GET", "/operations/")
    assert "CRITICAL" not in command("top", "--once", "--project", "lab/storm").stdout
    server.on(f"GET {PATH}", answer(executors=None))
    assert "CRITICAL" not in command("top", "--once").stdout
    assert server.count("GET", "/operations/") == asked, "they are none of a member's"


def schedule(name: str, **more: Any) -> dict[str, Any]:
    return {"id": ID, "project": "lab/storm", "name": name, **more}


def test_operators_are_told_which_schedules_come_next(
    command: Command, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    schedules = {
        "coming": [
            schedule(f"job-{each}", next_at=f"2030-01-31T12:0{each}:00Z") for each in "1234"
        ],
        "paused": [
            schedule("backup", paused_reason="its owner is gone"),
            *(schedule(name) for name in ("a", "b", "c")),
        ],
    }
    server.on(f"GET {PATH}", answer())
    server.on("GET /operations/", {"at": "2030-01-31T12:00:00Z", "schedules": schedules})
    shown = command("top", "--once").stdout
    assert "Schedules lab/storm/job-1 in 1 min, lab/storm/job-2 in 2 min, lab/storm/job-3" in shown
    assert "job-4" not in shown
    assert (
        "Paused schedules lab/storm/backup (its owner is gone), lab/storm/a, lab/storm/b and 1 "
        "more schedule" in shown
    )
    assert json.loads(command("top", "--once", "-o", "json").stdout)["schedules"] == schedules
    server.on(f"GET {PATH}", answer(executors=None))
    assert "Schedules" not in command("top", "--once").stdout, "they are none of a member's"


def test_many_problems_leave_room_for_the_queues() -> None:
    operations = Operations.model_validate(told(20))
    seen = Overview.model_validate(answer())
    for width, height in ((80, 24), (200, 60)):
        screen = Console(width=width, height=height, highlight=False)
        with screen.capture() as captured:
            screen.print(
                top_view(seen, "http://here", width=width, height=height, operations=operations)
            )
        lines = captured.get().splitlines()
        assert len(lines) <= height
        assert any(line.startswith("and ") and "more problems" in line for line in lines)
        assert any("lab/storm/queue-00" in line for line in lines)
    assert top_line(seen, operations).endswith("  CRITICAL: No worker is alive.")


def test_lines_and_objects_are_what_goes_on_for_ever(command: Command) -> None:
    done = command("top", "-o", "yaml")
    assert done.exit_code == 2
    assert "--once" in done.stderr


def test_an_outage_is_sat_out_and_told(client: Client, server: FakeServer) -> None:
    server.on(f"GET {PATH}", answer(), problem(500, "Out of order"))
    look = Look(client, None)
    seen = look.again()
    assert look.trouble == ""
    assert look.again() == seen
    assert look.trouble == "Out of order"
    server.on(f"GET {PATH}", answer(live=1))
    assert look.again().live == 1
    assert look.trouble == ""


def test_a_server_that_never_answered_is_an_error(client: Client, server: FakeServer) -> None:
    server.on(f"GET {PATH}", problem(500, "Out of order"))
    with pytest.raises(ApiError):
        Look(client, None).again()
