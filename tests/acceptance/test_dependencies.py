"""Sessions that wait for others, on a real server: they begin at once, not at the next sweep."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reprise_client import Client

from tests.acceptance.running import ended, reached, submit
from tests.waiting import until

MANY = 1_000
WITHIN = timedelta(seconds=5)
"""Far less than the 15 s of the sweep."""


def gate(client: Client, tmp_path: Path) -> tuple[str, Path]:
    """A session that runs until somebody touches a file, once it runs."""
    path = tmp_path / "open"
    session = submit(client, f"until test -e '{path}'; do sleep 0.1; done")
    reached(client, session, "RUNNING")
    return session, path


def released(client: Client, session_id: str) -> datetime | None:
    found = [each for each in client.events(session_id) if each.type == "session.released"]
    return datetime.fromisoformat(str(found[0].time)) if found else None


def test_a_run_knows_its_dependency(client: Client, tmp_path: Path) -> None:
    first, path = gate(client, tmp_path)
    later = submit(client, 'echo "$REPRISE_DEPENDENCIES"', depends_on=[first])
    assert str(client.session(later).pending_reason).startswith("waits for 1 of 1: ")
    path.touch()
    assert ended(client, later)[-1].status == "TERMINATED"
    told = json.loads(client.logs(later))
    creation_id = client.session(first).creation_id
    assert told == [
        {"id": first, "creation_id": creation_id, "status": "TERMINATED", "exit_code": 0}
    ]


def test_a_thousand_dependants_follow_at_once(client: Client, tmp_path: Path) -> None:
    first, path = gate(client, tmp_path)
    queue = "waits"
    project = "default/default"
    client.queue_create(project, queue)
    body: dict[str, Any] = {"image": "any", "command": ["true"], "queue": queue}
    wanted = [{"session": first, "when": "failed"}]
    # They are cancelled, so that none has to run.
    made = client.sessions_create([{**body, "depends_on": wanted} for _ in range(MANY - 1)])
    last = submit(client, "true", depends_on=[first])
    assert {each.outcome for each in made} == {"created"}
    path.touch()
    end = until(lambda: client.session(first).finished_at, "the first one ends")
    began = until(lambda: released(client, last), "the last one is released")
    assert began - datetime.fromisoformat(str(end)) < WITHIN
    ids = [str(each.session_id) for each in made]
    until(lambda: client.session(ids[-1]).final, "the others are cancelled")
    latest = max(
        datetime.fromisoformat(str(client.session(each).finished_at))
        for each in (ids[0], ids[len(ids) // 2], ids[-1])
    )
    assert latest - datetime.fromisoformat(str(end)) < WITHIN
    causes = {client.session(each).retry_cause for each in ids[:: MANY // 10]}
    assert causes == {"dependency_failed"}
