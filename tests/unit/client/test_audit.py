import json

from tests.unit.client import answers
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer

CHANGE = {
    "id": 7,
    "time": "2026-03-02T14:00:00Z",
    "actor": "ann",
    "door": "rest",
    "action": "queue.change",
    "object_type": "queue",
    "object_id": "d/p/batch",
    "before": {"priority_factor": 1},
    "after": {"priority_factor": 2},
    "data": {},
}
DISPATCH = {
    "id": 6,
    "time": "2026-03-02T13:00:00Z",
    "actor": "reprise",
    "automatic": True,
    "action": "retry.dispatch",
    "object_type": "session",
    "object_id": answers.IDS[0],
    "before": None,
    "after": None,
    "data": {"cause": "failure", "attempt": 2},
}


def test_the_log_is_shown_with_who_and_what(command: Command, server: FakeServer) -> None:
    server.on("GET /audit/", answers.page(CHANGE, DISPATCH))
    shown = command("audit", "--people", "--type", "queue", "--project", "d/p").stdout
    assert server.calls[0].query == {
        "page_size": "50", "automatic": "false", "object_type": "queue", "project": "d/p",
    }  # fmt: skip
    for text in ("ann", "rest", "queue.change", "d/p/batch", "priority_factor 1 → 2",
                 "cause failure; attempt 2"):  # fmt: skip
        assert text in shown
    assert json.loads(command("audit", "-o", "json").stdout) == [CHANGE, DISPATCH]
    assert command("audit", "-o", "name", "--limit", "1").stdout == "7\n"
