import json
from pathlib import Path
from typing import Any

import pytest
from reprise_client import ApiError, Client

from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import TOKEN, FakeServer, Reply, problem

RETRY, CANCEL = "POST /sessions/bulk-retry/", "POST /sessions/bulk-cancel/"
PREEMPT = "POST /sessions/bulk-preempt/"


def change(number: int, outcome: str, **more: Any) -> dict[str, Any]:
    return {
        "session_id": IDS[number],
        "outcome": outcome,
        "next_session_id": None,
        "due_at": None,
        "problem": None,
        **more,
    }


def refused(number: int) -> dict[str, Any]:
    detail = "retries are switched off here, also retries by hand"
    return change(number, "refused", problem={"status": 409, "detail": detail})


def changes(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"dry_run": False, "results": list(items), "next": None, "remaining": 0, **more}


def test_a_filter_is_sent_as_the_list_takes_it(server: FakeServer) -> None:
    server.on(RETRY, changes(change(0, "retried", next_session_id=IDS[1])))
    with Client(server.url, TOKEN, project="d/p") as client:
        done = client.sessions_retry_bulk(
            {"status": "ERROR", "queue": None}, resources={"memory": "4Gi"}, limit=5
        )
        client.sessions_retry_bulk({"project": None, "tip": True}, dry_run=True, after=IDS[3])
    assert [item.next_session_id for item in done.results] == [IDS[1]]
    assert [call.body for call in server.calls] == [
        {
            "filter": {"project": "d/p", "status": "ERROR"},
            "resources": {"memory": "4Gi"},
            "dry_run": False,
            "limit": 5,
        },
        {"filter": {"tip": True}, "dry_run": True, "after": IDS[3]},
    ]


@pytest.mark.parametrize(("dry_run", "calls"), [(True, 2), (False, 1)])
def test_only_what_changes_nothing_is_repeated(
    server: FakeServer, client: Client, dry_run: bool, calls: int
) -> None:
    server.on(RETRY, problem(503, "Busy"), Reply(changes()))
    if dry_run:
        client.sessions_retry_bulk({}, dry_run=True)
    else:
        with pytest.raises(ApiError, match="Busy"):
            client.sessions_retry_bulk({})
    assert len(server.calls) == calls


@pytest.mark.parametrize(("dry_run", "calls"), [(True, 2), (False, 1)])
def test_a_preemption_may_find_newer_attempts_and_is_not_repeated(
    server: FakeServer, client: Client, dry_run: bool, calls: int
) -> None:
    server.on(PREEMPT, problem(503, "Busy"), Reply(changes(change(0, "preempted"))))
    if dry_run:
        assert client.sessions_preempt_bulk({}, dry_run=True).results[0].done
    else:
        with pytest.raises(ApiError, match="Busy"):
            client.sessions_preempt_bulk({})
    assert len(server.calls) == calls


def test_a_cancel_is_repeated(server: FakeServer, client: Client) -> None:
    server.on(CANCEL, problem(503, "Busy"), Reply(changes(change(0, "cancelled"))))
    assert client.sessions_cancel_bulk({}).results[0].done


def test_all_that_match_are_retried_page_by_page(command: Command, server: FakeServer) -> None:
    server.on(
        RETRY,
        changes(change(3, "retried", next_session_id=IDS[0]), next=IDS[3], remaining=2),
        changes(change(2, "scheduled", due_at="2999-01-01T00:00:00Z"), refused(1)),
    )
    result = command(
        "session", "retry", "--all", "--status", "error", "--queue", "batch", "--cause",
        "oom_killed", "--exit-code", "137", "--resources", "memory=4Gi", "--resource", "cpu=2",
    )  # fmt: skip
    assert result.exit_code == 0
    wanted = {"status": "error", "queue": "batch", "retry_cause": "oom_killed", "exit_code": 137}
    body = {"filter": wanted, "dry_run": False, "resources": {"memory": "4Gi", "cpu": "2"}}
    assert [call.body for call in server.calls] == [body, {**body, "after": IDS[3]}]
    head, first, second, third = result.stdout.splitlines()
    assert head.split() == ["ID", "OUTCOME", "NEXT", "WHY"]
    assert first.split() == [IDS[3], "retried", IDS[0]]
    assert second.startswith(f"{IDS[2]}  scheduled  in ")
    assert third.split(maxsplit=2)[1:] == ["refused", refused(1)["problem"]["detail"]]
    assert result.stderr.strip() == "1 retried, 1 scheduled, 1 refused"


def test_a_dry_run_says_so(command: Command, server: FakeServer) -> None:
    server.on(CANCEL, changes(change(0, "cancelled"), dry_run=True))
    result = command("session", "cancel", "--all", "--owner", "ada", "--dry-run", "-o", "name")
    assert (result.exit_code, result.stdout) == (0, f"{IDS[0]}\n")
    assert result.stderr.strip() == "a dry run, nothing was changed: 1 cancelled"
    assert server.calls[0].body == {"filter": {"owner": "ada"}, "dry_run": True}


def test_the_context_s_project_holds_unless_all_are_meant(
    command: Command, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_PROJECT", "research/vision")
    server.on(CANCEL, changes())
    for more in ([], ["--project", "a/b"], ["--all-projects"]):
        result = command("session", "cancel", "--all", *more)
        assert (result.exit_code, result.stderr.strip()) == (0, "no session matches")
    projects = [call.body["filter"].get("project") for call in server.calls]
    assert projects == ["research/vision", "a/b", None]


def test_when_all_are_refused_scripts_hear_of_it(command: Command, server: FakeServer) -> None:
    server.on(RETRY, changes(refused(0), refused(1)))
    result = command("session", "retry", "--all", "-o", "json")
    assert result.exit_code == 5
    assert [item["outcome"] for item in json.loads(result.stdout)] == ["refused", "refused"]


@pytest.mark.parametrize("verb", ["retry", "cancel", "preempt"])
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give one session's ID, or --all"),
        ([IDS[0], "--all"], "give one session's ID, or --all"),
        ([IDS[0], "--status", "error"], "go with --all"),
        ([IDS[0], "--yes"], "go with --all"),
    ],
)
def test_one_or_all(
    command: Command, server: FakeServer, verb: str, args: list[str], message: str
) -> None:
    result = command("session", verb, *args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert server.calls == []


@pytest.mark.parametrize("verb", ["cancel", "preempt"])
def test_only_a_retry_of_one_session_has_a_dry_run(
    command: Command, server: FakeServer, verb: str
) -> None:
    result = command("session", verb, IDS[0], "--dry-run")
    assert result.exit_code == 2
    assert "go with --all" in " ".join(result.stderr.split())
    assert server.calls == []


def test_one_with_other_resources(command: Command, server: FakeServer) -> None:
    server.on(f"POST /sessions/{IDS[0]}/retry/", Reply(answers.session(attempt=1), 201))
    assert command("session", "retry", IDS[0], "--resources", "memory=4Gi").exit_code == 0
    assert server.calls[0].body == {"resources": {"memory": "4Gi"}}
    wrong = command("session", "retry", IDS[0], "--resources", "memory")
    assert wrong.exit_code == 2
    assert "--resources takes KEY=VALUE" in wrong.stderr


def test_one_with_changes(command: Command, server: FakeServer, tmp_path: Path) -> None:
    server.on(f"POST /sessions/{IDS[0]}/retry/", Reply(answers.session(attempt=1), 201))
    changes = tmp_path / "changes.yaml"
    changes.write_text("image: a:1\nenviron: {OLD: null}\npriority: 3\n")
    options = ["--changes", str(changes), "--image", "a:2", "-e", "MODE=safe", "--reason", "fixed"]
    assert command("session", "retry", IDS[0], *options).exit_code == 0
    environ = {"OLD": None, "MODE": "safe"}
    assert server.calls[0].body == {
        "changes": {"image": "a:2", "environ": environ, "priority": 3},
        "reason": "fixed",
    }


def test_one_gets_another_priority(command: Command, server: FakeServer) -> None:
    server.on(f"PATCH /sessions/{IDS[0]}/", Reply(answers.session(priority=-5)))
    assert command("session", "priority", IDS[0], "--to", "-5").exit_code == 0
    assert [call.body for call in server.calls] == [{"priority": -5}]


def test_all_that_match_get_another_priority(command: Command, server: FakeServer) -> None:
    server.on("POST /sessions/bulk-update/", changes(change(0, "updated"), refused(1)))
    result = command("session", "priority", "--all", "--queue", "night", "--to", "5")
    assert (result.exit_code, result.stderr.strip()) == (0, "1 updated, 1 refused")
    sent = {"filter": {"queue": "night"}, "dry_run": False, "priority": 5}
    assert [call.body for call in server.calls] == [sent]


@pytest.mark.parametrize("given", [[IDS[0]], [IDS[0], "--to", "much"], ["--to", "5"]])
def test_a_priority_is_a_number_for_one_or_all(
    command: Command, server: FakeServer, given: list[str]
) -> None:
    assert command("session", "priority", *given).exit_code == 2
    assert server.calls == []


def test_all_that_match_are_preempted(command: Command, server: FakeServer) -> None:
    server.on(PREEMPT, changes(change(0, "preempted"), refused(1)))
    line = ("preempt", "--all", "--status", "running", "--queue", "night", "--reason", "room")
    result = command("session", *line)
    assert (result.exit_code, result.stderr.strip()) == (0, "1 preempted, 1 refused")
    wanted = {"status": "running", "queue": "night"}
    sent = {"filter": wanted, "dry_run": False, "reason": "room"}
    assert [call.body for call in server.calls] == [sent]


def test_a_parked_chain_is_given_up(command: Command, server: FakeServer) -> None:
    state = {"state": "exhausted", "reason": "max_retries"}
    server.on(f"POST /sessions/{IDS[0]}/give-up/", Reply(answers.session(retry_state=state)))
    assert command("session", "give-up", IDS[0]).exit_code == 0


def test_all_parked_chains_that_match_are_given_up(command: Command, server: FakeServer) -> None:
    server.on("POST /sessions/bulk-give-up/", changes(change(0, "given_up"), refused(1)))
    line = ("give-up", "--all", "--retry-state", "parked", "--queue", "night")
    result = command("session", *line)
    assert (result.exit_code, result.stderr.strip()) == (0, "1 given up, 1 refused")
    sent = {"filter": {"retry_state": "parked", "queue": "night"}, "dry_run": False}
    assert [call.body for call in server.calls] == [sent]
    assert command("session", "give-up").exit_code == 2
    assert command("session", "give-up", IDS[0], "--queue", "night").exit_code == 2


@pytest.mark.parametrize(("dry_run", "calls"), [(True, 2), (False, 1)])
def test_giving_up_is_not_repeated(
    server: FakeServer, client: Client, dry_run: bool, calls: int
) -> None:
    path = "POST /sessions/bulk-give-up/"
    server.on(path, problem(503, "Busy"), Reply(changes(change(0, "given_up"))))
    if dry_run:
        assert client.sessions_give_up_bulk({}, dry_run=True).results[0].done
    else:
        with pytest.raises(ApiError, match="Busy"):
            client.sessions_give_up_bulk({})
    assert len(server.calls) == calls


@pytest.mark.parametrize(("answer", "calls"), [("n\n", 1), ("y\n", 2)])
def test_on_a_terminal_it_asks_first(
    command: Command,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    calls: int,
) -> None:
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    server.on(
        CANCEL,
        changes(change(0, "cancelled"), remaining=41),
        changes(change(0, "cancelled")),
    )
    result = command("session", "cancel", "--all", "--status", "running", stdin=answer)
    assert "Cancel 42 sessions?" in result.stderr
    assert [call.body["dry_run"] for call in server.calls] == [True, False][:calls]
    assert server.calls[0].body["limit"] == 1
