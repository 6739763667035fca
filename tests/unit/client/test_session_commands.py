import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from reprise_client import RetryPolicy
from reprise_client.retry_policy_fields import OPTIONS

from retry.policies.inline import InlinePolicy
from tests.unit.client import answers
from tests.unit.client.answers import IDS
from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, Reply, problem


def at(attempt: int, rest: str = "") -> str:
    return f"GET /sessions/{IDS[attempt]}/{rest}"


def test_create_lays_options_over_a_file(
    command: Command, server: FakeServer, tmp_path: Path
) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    path = tmp_path / "body.yaml"
    path.write_text(
        "image: old\npriority: 5\nenviron: {A: '1', B: '2'}\nretry_policy: {max_retries: 1}\n"
    )
    flags = ["--env", "B=x=y", "--retries", "3", "--retry-delay", "1.5", "--memory", "1Gi"]
    flags += ["--resources", "gpu=1", "--resource", "ephemeral-storage=2Gi"]
    result = command(
        "session", "create", "-f", str(path), "busybox", *flags, "-o", "name", "--", "echo", "-n"
    )
    assert (result.exit_code, result.stdout) == (0, f"{IDS[0]}\n")
    body = server.calls[0].body
    assert body.pop("creation_id")
    assert body == {
        "image": "busybox",
        "priority": 5,
        "environ": {"A": "1", "B": "x=y"},
        "retry_policy": {"max_retries": 3, "retry_delay": 1.5},
        "resources": {"memory": "1Gi", "gpu": "1", "ephemeral-storage": "2Gi"},
        "command": ["echo", "-n"],
    }


def test_create_tells_on_standard_error_what_the_server_warns_of(
    command: Command, server: FakeServer
) -> None:
    why = "it fits on no executor: one: cpu, of which it needs 16 and the largest node has 4"
    server.on("POST /sessions/", Reply({**answers.session("PENDING"), "warnings": [why]}, 201))
    result = command("session", "create", "busybox", "-o", "name")
    assert (result.exit_code, result.stdout) == (0, f"{IDS[0]}\n")
    assert why in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--env", "novalue"], "--env takes KEY=VALUE"),
        (["-f", "/nowhere/body.yaml"], "cannot read /nowhere/body.yaml"),
        (["--retries", "many"], "--retries"),
    ],
)
def test_wrong_usage_is_2(command: Command, args: list[str], message: str) -> None:
    result = command("session", "create", "busybox", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_body_from_standard_input_has_to_be_a_mapping(command: Command) -> None:
    result = command("session", "create", "-f", "-", stdin="[1, 2]")
    assert result.exit_code == 2
    assert "not a mapping" in result.stderr


def test_a_date_in_a_file_is_text(command: Command, server: FakeServer, tmp_path: Path) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    path = tmp_path / "body.yaml"
    path.write_text("labels: {due: 2026-01-31}\nenviron: {AT: 2026-01-31 10:00:00}\n")
    assert command("session", "create", "-f", str(path), "busybox").exit_code == 0
    assert server.calls[0].body["labels"] == {"due": "2026-01-31"}
    assert server.calls[0].body["environ"] == {"AT": "2026-01-31 10:00:00"}


@pytest.mark.parametrize("value", [".nan", "!!set {a, b}", "!!binary aGk=", "&a [*a]", "[" * 9999])
def test_values_without_json_are_refused(command: Command, tmp_path: Path, value: str) -> None:
    path = tmp_path / "body.yaml"
    path.write_text(f"labels: {value}")
    result = command("session", "create", "-f", str(path), "busybox")
    assert result.exit_code == 2
    assert str(path) in result.stderr


def test_a_repeated_key_in_a_file_is_refused(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "body.yaml"
    path.write_text("environ:\n  A: first\n  A: second\n")
    result = command("session", "create", "-f", str(path), "busybox")
    assert result.exit_code == 2
    assert "the key 'A' is repeated" in " ".join(result.stderr.split())


def test_list_shows_attempts_and_what_waits(command: Command, server: FakeServer) -> None:
    server.on(
        "GET /sessions/",
        answers.page(answers.failed(1, state="exhausted", reason="max_retries"), answers.session()),
    )
    result = command("session", "list", "--status", "error", "--tip", "--limit", "2")
    head, first, second = result.stdout.splitlines()
    assert head.split()[:4] == ["ID", "NAME", "STATUS", "ATTEMPT"]
    assert first.split()[:6] == [
        IDS[1],
        "train",
        "ERROR",
        "2",
        "kernel_nonzero_exit",
        "exhausted",
    ]
    assert second.startswith(IDS[0])
    assert server.calls[0].query == {"status": "error", "tip": "true", "page_size": "2"}


def test_list_stops_at_its_limit(command: Command, server: FakeServer) -> None:
    server.on("GET /sessions/", answers.page(answers.session(), following="http://x/?cursor=a"))
    result = command("session", "list", "--limit", "3", "-o", "name")
    assert result.stdout.split() == [IDS[0]] * 3
    assert len(server.calls) == 3


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_get_what_the_server_said(command: Command, server: FakeServer, form: str) -> None:
    sent = answers.failed(1, due_at="2026-03-02T14:03:10Z") | {"novelty": [1]}
    server.on(at(1), sent)
    text = command("session", "info", IDS[1], "-o", form).stdout
    got = json.loads(text) if form == "json" else yaml.safe_load(text)
    assert got["novelty"] == [1]
    assert got["retry_state"] == sent["retry_state"]
    assert set(got) == set(sent)


def test_info_tells_the_place_in_the_chain_and_what_comes_next(
    command: Command, server: FakeServer
) -> None:
    server.on(at(1), answers.failed(1, due_at="2999-01-01T00:00:00Z"))
    server.on(at(1, "retry-decision/"), answers.decision())
    lines = dict(
        line.split(maxsplit=1) for line in command("session", "info", IDS[1]).stdout.splitlines()
    )
    assert lines["Attempt"].strip() == "attempt 2; 1 of 3 retries for failures used"
    assert lines["Parent"].strip() == IDS[0]
    assert lines["Next"].startswith("attempt 3 in ")
    assert lines["Next"].strip().endswith("because kernel_nonzero_exit; pays inline/failure 2 of 3")
    assert "exit code 3" in lines["Status"]


def test_info_tells_rule_budgets_and_what_the_next_attempt_gets(
    command: Command, server: FakeServer
) -> None:
    budgets = [
        {"name": "ml/oom", "used": 1, "limit": 3},
        {"name": "inline/failure", "used": 0, "limit": 2},
    ]
    failed = answers.failed(1, due_at="2999-01-01T00:00:00Z", rule="ml/oom", budgets=budgets)
    server.on(at(1), failed | {"failure_category": "cuda_error", "failure_signature": "0a1b"})
    more = {"resources": {"memory": "1536Mi"}, "policy_revisions": {"ml": 3}, "rule": "ml/oom"}
    server.on(at(1, "retry-decision/"), answers.decision(**more, paced=True))
    text = command("session", "info", IDS[1]).stdout
    assert "category cuda_error, signature 0a1b" in text
    assert "is postponed by the storm limit to 2999-01-01" in text
    lines = {line[:12].strip(): line[12:].strip() for line in text.splitlines()}
    assert lines["By rule"] == "ml/oom"
    assert lines["Will get"] == "memory 1Gi -> 1536Mi"
    assert lines["Will avoid"] == "node node-a"
    assert lines["Budgets"] == "ml/oom: 1 of 3 used"
    assert lines[""] == "inline/failure: 0 of 2 used"
    text = command("session", "explain", IDS[1]).stdout
    assert "ml revision 3" in text
    assert "postponed it to a later slot" in text


def test_info_shows_no_budget_with_a_window_as_spent(command: Command, server: FakeServer) -> None:
    paid = {"name": "inline/failure", "used": 4, "limit": 2, "window": 3600.0}
    unused = [{"name": f"ml/{n}", "used": 0, "limit": 5, "window": 60.0} for n in range(100)]
    server.on(at(0), answers.session(retry_state={"budgets": [paid, *unused]}))
    text = command("session", "info", IDS[0]).stdout
    assert "inline/failure: 4 used, at most 2 in 1 h" in text
    assert "unused: ml/0 (at most 5 in 1 min), " in " ".join(text.split())


def test_info_does_not_list_a_hundred_budgets(command: Command, server: FakeServer) -> None:
    budgets = [{"name": f"ml/{n}", "used": n == 7, "limit": 5} for n in range(100)]
    server.on(at(0), answers.session(retry_state={"budgets": budgets}))
    text = command("session", "info", IDS[0]).stdout
    assert ["Budgets", "ml/7:", "1", "of", "5", "used"] in [
        row.split() for row in text.splitlines()
    ]
    assert "unused: ml/0 (of 5), ml/1 (of 5)" in text
    assert "ml/5 (of 5) and 93 more" in text
    budgets = [{**each, "limit": None} for each in budgets]
    server.on(at(0), answers.session(retry_state={"budgets": budgets}))
    text = command("session", "info", IDS[0]).stdout
    assert "unused: ml/0 (no limit), ml/1 (no limit)" in text


def test_info_tells_for_whom_it_made_room(command: Command, server: FakeServer) -> None:
    server.on(at(0), answers.session(made_room_for=IDS[1]), answers.session(made_room_for=None))
    text = command("session", "info", IDS[0]).stdout
    assert ["Gave", "way", "to", IDS[1]] in [row.split() for row in text.splitlines()]
    assert "Gave way to" not in command("session", "info", IDS[0]).stdout


def test_info_tells_which_switch_holds_a_retry(command: Command, server: FakeServer) -> None:
    server.on(at(1), answers.failed(1, state="held"))
    settings = "GET /retry-settings/projects/default/default/"
    server.on(settings, {"mode": "on", "effective_mode": "off"}, problem(403, "Not permitted"))
    assert "held while retries are switched off" in command("session", "info", IDS[1]).stdout
    assert "held while retries are paused or switched" in command("session", "info", IDS[1]).stdout


@pytest.mark.parametrize(
    ("given", "sent"),
    [("2026-03-02T14:00:00Z", "2026-03-02T14:00:00"), ("2026-03-02", "2026-03-02T00:00:00")],
)
def test_sessions_of_a_time(command: Command, server: FakeServer, given: str, sent: str) -> None:
    server.on("GET /sessions/", answers.page())
    assert command("session", "list", "--until", given, "--type", "batch").exit_code == 0
    query = server.calls[0].query
    assert query["session_type"] == "batch"
    assert query["created_before"].startswith(sent)


@pytest.mark.parametrize("age", ["0s", "1.5h", "7d"])
def test_sessions_of_an_age(command: Command, server: FakeServer, age: str) -> None:
    server.on("GET /sessions/", answers.page())
    assert command("session", "list", "--since", age).exit_code == 0
    sent = datetime.fromisoformat(server.calls[0].query["created_after"])
    hours = {"0s": 0.0, "1.5h": 1.5, "7d": 168.0}[age]
    age_in_hours = (datetime.now(UTC) - sent).total_seconds() / 3600
    assert age_in_hours == pytest.approx(hours, abs=0.01)


@pytest.mark.parametrize("text", ["yesterday", "2w", "999999999999d", "-1h"])
def test_a_wrong_time_is_refused(command: Command, server: FakeServer, text: str) -> None:
    result = command("session", "list", f"--since={text}")
    assert result.exit_code == 2
    assert "--since takes an age" in result.stderr
    assert server.calls == []


def test_info_goes_on_until_the_chain_is_over(command: Command, server: FakeServer) -> None:
    server.on(at(0), answers.succeeded())
    result = command("session", "info", IDS[0], "--watch")
    assert result.exit_code == 0
    assert "nothing, it succeeded" in result.stdout
    assert command("session", "info", IDS[0], "--watch", "-o", "json").exit_code == 2


def test_attempts(command: Command, server: FakeServer) -> None:
    chain = [
        {"id": IDS[0], "attempt": 0, "status": "ERROR", "cause": "oom_killed", "exit_code": 137,
         "decision": "retry in 60 s"},
        {"id": IDS[1], "attempt": 1, "status": "RUNNING", "cause": None},
    ]  # fmt: skip
    server.on(at(1, "attempts/"), chain)
    first, second = command("session", "attempts", IDS[1]).stdout.splitlines()[1:]
    assert " ".join(first.split()) == f"1 {IDS[0]} ERROR oom_killed 137 retry in 60 s"
    assert second.split() == ["2", IDS[1], "RUNNING"]
    day = "2030-01-31T12:00:00Z"
    told = {"step": 5, "of": 10, "note": "", "best_step": 5, "rate": None, "checkpoint": None,
            "checkpoint_step": None, "made_progress": None, "updated_at": day}  # fmt: skip
    server.on(at(1, "attempts/"), [chain[0], {**chain[1], "progress": told}])
    head, first, second = command("session", "attempts", IDS[1]).stdout.splitlines()
    assert "PROGRESS" in head
    assert "5 of 10" in second
    assert "5 of 10" not in first


def test_attempts_show_which_failed_alike(command: Command, server: FakeServer) -> None:
    """The column is there once two attempts have failed."""
    keys = ("a512280df4ee", "a512280df4ee", None)
    chain = [
        {"id": id_, "attempt": number, "status": "ERROR", "failure_signature": key}
        for number, (id_, key) in enumerate(zip(IDS, keys, strict=False))
    ]
    server.on(at(0, "attempts/"), chain[:1])
    assert "SIGNATURE" not in command("session", "attempts", IDS[0]).stdout
    server.on(at(0, "attempts/"), chain)
    head, *rows = command("session", "attempts", IDS[0]).stdout.splitlines()
    assert head.split()[3:6] == ["CAUSE", "EXIT", "SIGNATURE"]
    assert ["a512280df4ee" in row for row in rows] == [True, True, False]


def test_logs_of_one_and_of_all_attempts(command: Command, server: FakeServer) -> None:
    server.on(at(0, "logs/"), answers.log(b"first\n"))
    server.on(at(1, "logs/"), answers.log(b"second \xff\n"))
    server.on(
        at(1, "attempts/"),
        [{"id": IDS[0], "status": "ERROR"}, {"id": IDS[1], "attempt": 1, "status": "RUNNING"}],
    )
    one = command("session", "logs", IDS[1], "--tail", "1")
    assert one.stdout_bytes == b"second \xff\n"
    assert server.calls[0].query == {"tail": "1"}
    both = command("session", "logs", IDS[1], "--all-attempts")
    assert both.stdout_bytes == b"first\nsecond \xff\n"
    assert f"--- attempt 2, session {IDS[1]}" in both.stderr


def test_events_list_and_follow(command: Command, server: FakeServer) -> None:
    event = {"id": 7, "type": "session.running", "time": "2026-03-02T14:00:00Z", "data": {"a": 1}}
    server.on(at(0), answers.succeeded())
    server.on(at(0, "events/"), answers.page(event))
    assert "session.running" in command("session", "events", IDS[0], "--after", "6").stdout
    assert server.calls[0].query == {"after": "6"}
    stream = f"data: {json.dumps(event)}\n\n".encode()
    server.on(at(0, "events/"), Reply(stream, kind="text/event-stream"))
    followed = command("session", "events", IDS[0], "-f", "-o", "json")
    assert [json.loads(line)["id"] for line in followed.stdout.splitlines()] == [7]


def test_explain_prints_sentences_and_trace(command: Command, server: FakeServer) -> None:
    server.on(at(1, "retry-decision/"), answers.decision())
    text = command("session", "explain", IDS[1]).stdout
    assert text.startswith("The session exited with code 3.\nThe inline policy retries that.\n")
    assert "  1. budget: retry (name=inline/failure, used=1)" in text
    whole = json.loads(command("session", "explain", IDS[1], "-o", "json").stdout)
    assert whole == answers.decision()


def test_explain_of_a_success_tells_what_led_to_it(command: Command, server: FakeServer) -> None:
    sentence = "retry, because the inline policy retries kernel_nonzero_exit"
    chain = [
        {"id": IDS[0], "attempt": 0, "status": "ERROR", "exit_code": 3, "decision": sentence},
        {"id": IDS[1], "attempt": 1, "status": "TERMINATED", "exit_code": 0, "decision": None},
    ]
    server.on(at(1, "retry-decision/"), problem(404, "Not found", "it succeeded"))
    server.on(at(1), answers.succeeded(1))
    server.on(at(1, "attempts/"), chain)
    result = command("session", "explain", IDS[1])
    assert result.exit_code == 0
    assert result.stdout.startswith("Attempt 2 succeeded; the one before it failed, and came back")
    assert sentence in result.stdout
    whole = json.loads(command("session", "explain", IDS[1], "--json").stdout)
    assert [each["id"] for each in whole["chain"]] == IDS[:2]
    server.on(at(1), answers.session(attempt=1))
    assert command("session", "explain", IDS[1]).exit_code == 3


def test_json_is_asked_for_in_either_way(command: Command, server: FakeServer) -> None:
    server.on("GET /sessions/", answers.page(answers.session()))
    server.on("GET /retry-policies/ml/", answers.policy())
    for line in ("session list", "get policy ml --domain d"):
        short = command(*line.split(), "--json")
        assert short.exit_code == 0, short.output
        assert short.stdout == command(*line.split(), "-o", "json").stdout
    assert command("session", "list", "-o", "yaml", "--json").exit_code == 2
    # What stands behind the dashes is the session's own.
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    assert command("session", "create", "any", "--", "x", "--json").exit_code == 0
    assert server.calls[-1].body["command"] == ["x", "--json"]


def test_the_options_of_the_inline_policy_are_its_fields(
    command: Command, server: FakeServer
) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    typed = (
        "--retries 3 --preemption-retries 9 --retry-delay 1.5 --backoff exponential "
        "--backoff-multiplier 3 --max-retry-delay 60 --jitter none --jitter-ratio 0.5 "
        "--eligible-cause oom_killed --eligible-cause preempted --retry-on-exit-code 75 "
        "--retry-on-exit-code 76 --no-retry-on-exit-code 2 --max-chain-duration 3600 "
        "--no-emit-retry-events"
    )
    for line in ("session create any", "run any --detach"):
        assert command(*line.split(), *typed.split()).exit_code == 0
        policy = server.calls[-1].body["retry_policy"]
        assert policy == {
            "max_retries": 3,
            "max_preemption_retries": 9,
            "retry_delay": 1.5,
            "backoff": "exponential",
            "backoff_multiplier": 3.0,
            "max_retry_delay": 60.0,
            "jitter": "none",
            "jitter_ratio": 0.5,
            "eligible_causes": ["oom_killed", "preempted"],
            "retry_on_exit_codes": [75, 76],
            "no_retry_on_exit_codes": [2],
            "max_chain_duration": 3600.0,
            "emit_retry_events": False,
        }


def test_limits_of_retries_are_numbers_or_a_word(command: Command, server: FakeServer) -> None:
    server.on("POST /sessions/", Reply(answers.session(), 201))
    flags = ["--retries", "unlimited", "--preemption-retries", "7"]
    made = command("session", "create", "busybox", *flags, "--project", "a/b", "--", "true")
    assert made.exit_code == 0, made.stderr
    policy = server.calls[-1].body["retry_policy"]
    assert policy == {"max_retries": "unlimited", "max_preemption_retries": 7}
    wrong = command("session", "create", "busybox", "--retries", "often", "--", "true")
    assert wrong.exit_code == 2
    assert "unlimited" in wrong.stderr


def test_every_field_of_the_inline_policy_is_an_option(command: Command) -> None:
    assert OPTIONS.keys() == RetryPolicy.model_fields.keys() == InlinePolicy.model_fields.keys()
    for line in ("session create --help", "run --help"):
        printed = command(*line.split()).output.split()
        assert {f"--{option}" for option, _ in OPTIONS.values()} <= {*printed}
    assert RetryPolicy().model_dump(mode="json") == InlinePolicy().model_dump(mode="json")


def test_the_lines_of_a_command_are_lines(command: Command, server: FakeServer) -> None:
    script = "set -e\necho 'one'\nexit 3\n"
    server.on(at(0), answers.session(command=["sh", "-c", script]))
    table = command("session", "info", IDS[0]).stdout
    shown = [line.strip() for line in table.splitlines()]
    first = next(number for number, line in enumerate(shown) if line.startswith("Command"))
    assert shown[first].endswith("sh -c 'set -e")
    assert shown[first + 2] == "exit 3"
    as_yaml = command("session", "info", IDS[0], "-o", "yaml").stdout
    assert "- |\n  set -e\n  echo 'one'\n  exit 3\n" in as_yaml
    assert yaml.safe_load(as_yaml)["command"][2] == script


def test_a_trace_leaves_out_what_nobody_reads(command: Command, server: FakeServer) -> None:
    step = {"step": "delay", "result": 2.243687488218388, "cap": 3600.0, "reason": "", "found": []}
    server.on(at(1, "retry-decision/"), {**answers.decision(), "trace": [step]})
    text = command("session", "explain", IDS[1]).stdout
    assert text.splitlines()[-1] == "  1. delay: 2.24369 (cap=3600)"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (answers.succeeded(), 0),
        (answers.failed(state="exhausted"), 3),
        (answers.failed(state="not_retried", exit_code=None), 1),
        (answers.failed(state="not_retried", exit_code=-9), 1),
        (answers.session("CANCELLED", retry_state={"state": "cancelled"}), 1),
    ],
)
def test_wait_exits_as_the_last_attempt_did(
    command: Command, server: FakeServer, end: dict[str, object], code: int
) -> None:
    server.on(at(0), answers.session(), end)
    result = command("session", "wait", IDS[0])
    assert result.exit_code == code
    assert result.stdout == ""
    assert "attempt 1 " in result.stderr


def test_wait_gives_up_in_time(command: Command, server: FakeServer) -> None:
    server.on(at(0), answers.session())
    result = command("session", "wait", IDS[0], "--timeout", "0.1")
    assert result.exit_code == 124
    assert "has not ended after 0.1 s" in result.stderr


def test_cancel_and_retry(command: Command, server: FakeServer) -> None:
    path = f"/sessions/{IDS[0]}/"
    server.on(f"POST {path}cancel/", answers.session("CANCELLED"))
    server.on(f"POST {path}retry/", problem(409, "Conflict", "The session still runs."))
    assert "CANCELLED" in command("session", "cancel", IDS[0]).stdout
    refused = command("session", "retry", IDS[0])
    assert refused.exit_code == 5
    assert refused.stderr.startswith("reprise: Conflict: The session still runs. (")


def test_the_beginning_of_an_id_is_enough(command: Command, server: FakeServer) -> None:
    other = answers.session() | {"id": "ffffff00-0000-7000-8000-000000000000", "name": IDS[0][:8]}
    server.on("GET /sessions/", answers.page(answers.session(), other))
    server.on(at(0), answers.session())
    assert command("session", "info", IDS[0][:8].upper(), "-o", "name").stdout == f"{IDS[0]}\n"
    assert server.calls[0].query["search"] == IDS[0][:8]


def test_an_ambiguous_beginning_lists_the_candidates(command: Command, server: FakeServer) -> None:
    server.on("GET /sessions/", answers.page(answers.session(), answers.session(attempt=1)))
    result = command("session", "info", IDS[0][:8])
    assert result.exit_code == 2
    assert IDS[0] in result.stderr
    assert IDS[1] in result.stderr


@pytest.mark.parametrize(("typed", "code"), [("abcdef", 3), ("abc", 2), ("my-job", 2)])
def test_a_wrong_id_is_refused(command: Command, server: FakeServer, typed: str, code: int) -> None:
    server.on("GET /sessions/", answers.page())
    assert command("session", "info", typed).exit_code == code


def test_create_takes_what_is_behind_the_dashes_for_the_command(
    command: Command, server: FakeServer
) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    for before in ([], ["-o", "name"]):
        assert command("session", "create", *before, "--", "sh", "-c", "x -- y").exit_code == 0
        body = server.calls[-1].body
        assert body["command"] == ["sh", "-c", "x -- y"]
        assert not body.get("image")


def test_preempt_sends_the_reason(command: Command, server: FakeServer) -> None:
    server.on(f"POST /sessions/{IDS[0]}/preempt/", answers.session("TERMINATING"))
    assert "TERMINATING" in command("session", "preempt", IDS[0], "--reason", "room").stdout
    assert server.calls[-1].body == {"reason": "room"}


def test_create_names_what_it_waits_for(command: Command, server: FakeServer) -> None:
    server.on("POST /sessions/", Reply(answers.session("PENDING"), 201))
    flags = ["--depends-on", "a=b", "--depends-on", "ended=c", "--on-dependency-failure", "run"]
    result = command("session", "create", "busybox", *flags, "-o", "name")
    assert result.exit_code == 0
    body = server.calls[0].body
    assert body["depends_on"] == [
        {"session": "a=b", "when": "succeeded"},
        {"session": "c", "when": "ended"},
    ]
    assert body["on_dependency_failure"] == "run"


def test_graph_shows_who_waits_for_whom(command: Command, server: FakeServer) -> None:
    def node(number: int, **fields: object) -> dict[str, object]:
        own = {"session_id": IDS[number], "tip_session_id": IDS[number], "creation_id": IDS[number]}
        return {**own, "name": "", "status": "RUNNING", "retry_state": "none", **fields}

    nodes = [node(0, name="prepare"), node(1, status="PENDING"), node(2, status=None)]
    edges = [
        {"session_id": IDS[1], "depends_on": IDS[0], "when": "ended", "outcome": None, "met": None},
        {
            "session_id": IDS[1],
            "depends_on": IDS[2],
            "when": "failed",
            "outcome": "succeeded",
            "met": False,
        },
    ]
    graph = {"session_id": IDS[1], "nodes": nodes, "edges": edges, "truncated": False}
    server.on(at(1, "graph/"), Reply(graph))
    result = command("session", "graph", IDS[1])
    assert result.exit_code == 0
    assert "prepare (not yet ended)" in result.stdout
    assert f"{IDS[2]} (succeeded, not failed)" in result.stdout
    assert "archived" in result.stdout


def test_retry_takes_along_what_is_downstream(command: Command, server: FakeServer) -> None:
    made = {**answers.session("PENDING"), "downstream": [IDS[2]]}
    server.on(f"POST /sessions/{IDS[0]}/retry/", Reply(made, 201))
    result = command("session", "retry", IDS[0], "--downstream", "--dry-run")
    assert result.exit_code == 0
    assert server.calls[-1].body == {"downstream": True, "dry_run": True}
    assert f"1 downstream would be retried: {IDS[2]}" in result.stderr


def test_retry_of_all_takes_along_what_is_downstream(command: Command, server: FakeServer) -> None:
    outcome = {"session_id": IDS[0], "outcome": "retried", "next_session_id": IDS[1]}
    page = {"dry_run": False, "results": [outcome], "remaining": 1}
    more = {**page, "remaining": 0, "next": None, "downstream": [IDS[3]]}
    pages = Reply({**page, "next": IDS[0], "downstream": [IDS[2]]}), Reply(more)
    server.on("POST /sessions/bulk-retry/", *pages)
    result = command("session", "retry", "--all", "--downstream", "--yes")
    assert result.exit_code == 0
    assert [call.body["downstream"] for call in server.calls] == [True, True]
    assert f"2 downstream retried: {IDS[2]}, {IDS[3]}" in " ".join(result.stderr.split())


def test_retry_brings_secrets_and_says_which_are_dropped(
    command: Command, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "of-the-lead")
    made = {**answers.session("PENDING"), "secrets_dropped": ["KEY", "PASSWORD"]}
    server.on(f"POST /sessions/{IDS[0]}/retry/", Reply(made, 201), Reply(made))
    retry = ("session", "retry", IDS[0], "--image", "a:2", "--secret-env", "TOKEN")
    result = command(*retry)
    assert result.exit_code == 0
    changes = {"image": "a:2", "secret_environ": {"TOKEN": "of-the-lead"}}
    assert server.calls[-1].body == {"changes": changes}
    told = " ".join(result.stderr.split())
    assert "it does not get the secrets KEY, PASSWORD: somebody else gave them" in told
    assert "of-the-lead" not in result.stdout + result.stderr
    result = command(*retry, "--dry-run")
    assert server.calls[-1].body == {"changes": changes, "dry_run": True}
    told = " ".join(result.stderr.split())
    assert "a dry run, nothing was changed" in told
    assert "it would not get the secrets KEY, PASSWORD" in told


def test_retry_of_all_says_which_secrets_are_dropped(command: Command, server: FakeServer) -> None:
    outcome = {"session_id": IDS[0], "outcome": "retried", "secrets_dropped": ["KEY"]}
    page = {"dry_run": True, "results": [outcome], "remaining": 0, "next": None}
    server.on("POST /sessions/bulk-retry/", Reply(page))
    result = command("session", "retry", "--all", "--image", "a:2", "--dry-run")
    assert result.exit_code == 0
    assert "without the secrets KEY: somebody else gave them" in " ".join(result.stdout.split())
