import json

from tests.unit.client import answers
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply, problem

EVENTS = "GET /job-sets/sweep/events/"
EVENT = {
    "id": 7,
    "cursor": "0-5-7",
    "session_id": answers.IDS[0],
    "type": "session.running",
    "time": "2026-03-02T14:00:00Z",
    "data": {"node": "a"},
}


def test_job_sets_are_listed(command: Command, server: FakeServer) -> None:
    item = {"name": "sweep", "project": "d/p", "last_event_at": "2026-03-02T14:00:00Z"}
    server.on("GET /job-sets/", answers.page(item))
    shown = command("job-set", "list", "--project", "d/p")
    assert shown.stdout.split()[:6] == ["NAME", "PROJECT", "FIRST", "EVENT", "LAST", "EVENT"]
    assert "sweep" in shown.stdout
    assert server.calls[0].query == {"project": "d/p"}
    assert json.loads(command("job-set", "list", "-o", "json").stdout) == [item]
    assert command("job-set", "list", "-o", "name").stdout == "sweep\n"


def test_events_of_a_job_set_are_listed(command: Command, server: FakeServer) -> None:
    server.on(EVENTS, answers.page(EVENT))
    shown = command("job-set", "events", "sweep", "--after", "0-5-6").stdout
    assert server.calls[0].query == {"after": "0-5-6"}
    for text in ("0-5-7", answers.IDS[0], "session.running", "node=a"):
        assert text in shown
    assert command("job-set", "events", "sweep", "-o", "name").stdout == "0-5-7\n"


def test_events_of_a_job_set_are_followed(command: Command, server: FakeServer) -> None:
    """Until the server says that this is over: the token was withdrawn."""
    stream = Reply(f"data: {json.dumps(EVENT)}\n\n".encode(), kind="text/event-stream")
    gone = problem(401, "Not authenticated")
    server.on(EVENTS, stream, gone)
    followed = command("job-set", "events", "sweep", "-f", "-o", "json")
    assert [json.loads(line) for line in followed.stdout.splitlines()] == [EVENT]
    assert followed.exit_code != 0
    server.on(EVENTS, stream, gone)
    line = command("job-set", "events", "sweep", "-f").stdout
    assert f"{answers.IDS[0]}  session.running  node=a\n" in line
