import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reprise_client import ApiError, Client
from reprise_client.cli.simulation_parts import Chains, Window, in_parts, summed
from reprise_client.models import Simulation, SimulationSummary

from tests.unit.client.conftest import Command
from tests.unit.client.server import FakeServer, problem

ROUTE = "POST /retry-policies/simulate/"
POLICY = """\
apiVersion: reprise/v1
kind: RetryPolicy
metadata: {name: draft}
spec:
  rules:
    - action: Retry
      onExitCodes: {operator: In, values: [300]}
"""
DEFAULTS = """\
---
apiVersion: reprise/v1
kind: RetryDefaults
metadata: {}
spec: {policy: {max_retries: 2}}
"""
CATEGORY = """\
---
apiVersion: reprise/v1
kind: FailureCategory
metadata: {name: cuda_error}
spec:
  matchers: [{onTerminationMessage: {pattern: CUDA error}}]
"""
ROOTS = [f"0197a3b0-1c00-7000-8000-{number:012}" for number in range(30)]


def changed(number: int) -> list[dict[str, str]]:
    return [{"root": root, "was": "exhausted", "would_be": "retrying"} for root in ROOTS[:number]]


def answer(**summary: Any) -> dict[str, Any]:
    sums = {
        "chains": 40,
        "retries": 1087,
        "by_cause": {"oom_killed": 87, "preempted": 1000},
        "by_rule": {"infra/gone": 1000, "ml/oom": 80},
        "by_reason": {"rule_retry": 1080, "inline_retry": 7, "rule_limit": 12, "rule_fail": 3},
        "changed": changed(2),
        "added_attempts": 45,
        "added_run_seconds": 12_000.4,
    }
    return {"chains": [], "summary": {**sums, **summary}}


@pytest.fixture
def draft(tmp_path: Path) -> str:
    path = tmp_path / "draft.yaml"
    path.write_text(POLICY + DEFAULTS + CATEGORY)
    return str(path)


def test_the_report(command: Command, server: FakeServer, draft: str) -> None:
    server.on(ROUTE, answer())
    result = command("simulate", "-f", draft, "--last", "12h")
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0].startswith("40 chains submitted since ")
    assert lines[0].endswith("; nothing was changed.")
    for line in (
        "Retries granted 1,087",
        "Out of retries 12",
        "Refused otherwise 3",
        "Added attempts +45",
        "Added run time +3 h 20 min",
        "preempted 1,000",
        "infra/gone 1,000",
        "rule_limit 12 the rule's retries are used up",
        "rule_retry 1,080 retried: a rule asks for it",
        "2 would have come to something else",
        "2 exhausted -> retrying",
        f"{ROOTS[1]} exhausted retrying",
    ):
        assert line in lines, line
    # The largest first.
    assert lines.index("preempted 1,000") < lines.index("oom_killed 87")


def test_the_draft_is_what_the_files_and_options_say(
    command: Command, server: FakeServer, draft: str
) -> None:
    server.on(ROUTE, answer())
    flags = ["--retries", "5", "--preemption-retries", "9", "--global-max-retries", "20"]
    result = command("simulate", "-f", draft, *flags, "--project", "research/vision")
    assert result.exit_code == 0, result.stderr
    (call,) = server.calls
    assert call.query == {"chains": "false"}
    history = call.body.pop("history")
    assert call.body == {
        "policies": [
            {
                "apiVersion": "reprise/v1",
                "kind": "RetryPolicy",
                "metadata": {"name": "draft"},
                "spec": {
                    "rules": [
                        {"action": "Retry", "onExitCodes": {"operator": "In", "values": [300]}}
                    ]
                },
            }
        ],
        "retry_policy": {"max_retries": 5, "max_preemption_retries": 9},
        "settings": {"global_max_retries": 20},
        "failure_categories": [
            {
                "name": "cuda_error",
                "matchers": [{"onTerminationMessage": {"pattern": "CUDA error"}}],
            }
        ],
    }
    assert (history["project"], history["until"]) == ("research/vision", None)
    age = datetime.now(UTC) - datetime.fromisoformat(history["since"])
    assert timedelta(days=30) <= age < timedelta(days=30, minutes=5)


def test_limits_may_be_a_word(command: Command, server: FakeServer) -> None:
    server.on(ROUTE, answer())
    flags = ["--retries", "unlimited", "--global-max-retries", "unlimited"]
    result = command("simulate", *flags, "--project", "research/vision")
    assert result.exit_code == 0, result.stderr
    (call,) = server.calls
    assert call.body["retry_policy"] == {"max_retries": "unlimited"}
    assert call.body["settings"] == {"global_max_retries": None}
    wrong = command("simulate", "--retries", "-1", "--project", "research/vision")
    assert wrong.exit_code == 2
    assert "neither a number from 0 nor 'unlimited'" in " ".join(wrong.stderr.split())


STORM = {
    "breaker": {"chains": 3, "window": 600, "probe_after": 60},
    "retry_budget": {"ratio": 0.2, "burst": 20, "over": "postpone"},
}


def test_the_example_of_the_docs_tries_a_breaker_and_a_budget(
    command: Command, server: FakeServer, tmp_path: Path
) -> None:
    text = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text()
    example = tmp_path / "storm.yaml"
    example.write_text(text.partition("# storm.yaml\n")[2].partition("```")[0])
    held = {
        "held": {"breaker": 212, "shared_budget": 1},
        "held_seconds": {"breaker": 7_380.0, "shared_budget": 60.0},
        "spared_retries": 187,
        "breakers_opened": 4,
        "assumptions": ["A probe goes as that attempt went."],
    }
    server.on(ROUTE, answer(**held))
    result = command("simulate", "-f", str(example), "--global-max-retries", "9")
    assert result.exit_code == 0, result.stderr
    assert server.calls[0].body["settings"] == {**STORM, "global_max_retries": 9}
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in (
        "Held by a breaker 212 times, about 2 h 3 min in all",
        "Held by a budget 1 time, about 1 min in all",
        "Retries spared 187",
        "Breakers opened 4",
        "A probe goes as that attempt went.",
    ):
        assert line in lines, line


def test_a_wrong_breaker_is_named_at_its_place(
    command: Command, server: FakeServer, tmp_path: Path
) -> None:
    draft = tmp_path / "storm.yaml"
    draft.write_text(
        "apiVersion: reprise/v1\nkind: RetryDefaults\nmetadata: {}\n"
        "spec: {settings: {breaker: {chains: 1}}}\n"
    )
    errors = {"settings.breaker.chains": ["must be at least 2"]}
    server.on(ROUTE, problem(400, "Invalid input", errors=errors))
    result = command("simulate", "-f", str(draft))
    assert result.exit_code != 0
    assert "spec.settings.breaker.chains" in result.stderr


def test_a_window_by_its_ends(command: Command, server: FakeServer) -> None:
    server.on(ROUTE, answer())
    ends = ["--since", "2030-01-01T00:00:00Z", "--until", "2030-01-02T00:00:00+01:00"]
    assert command("simulate", "--retries", "1", *ends).exit_code == 0
    history = server.calls[0].body["history"]
    assert history["since"] == "2030-01-01T00:00:00+00:00"
    assert history["until"] == "2030-01-02T00:00:00+01:00"


def test_given_chains(command: Command, server: FakeServer, tmp_path: Path) -> None:
    chains = [
        {"terminations": [{"exit_code": 1}] * 2},
        {"terminations": [{"status": "terminated"}]},
    ]
    path = tmp_path / "chains.json"
    sums = {"chains": 2, "retries": 1, "by_reason": {"inline_retry": 1, "max_retries": 1}}
    decided = {"attempt": 0, "action": "retry", "reason": "inline_retry"}
    stopped = {"attempt": 1, "action": "fail", "reason": "max_retries"}
    server.on(
        ROUTE,
        {
            "chains": [
                {"outcome": "exhausted", "attempts": [decided, stopped]},
                {"outcome": "succeeded", "attempts": [{"attempt": 0, "action": None}]},
            ],
            "summary": {**sums, "by_cause": {}, "by_rule": {}, "changed": []},
        },
    )
    for content in (chains, {"chains": chains}):
        path.write_text(json.dumps(content))
        result = command("simulate", "--chains", str(path), "--retries", "1")
        assert result.exit_code == 0, result.stderr
        assert server.calls[-1].body == {"chains": chains, "retry_policy": {"max_retries": 1}}
        assert server.calls[-1].query == {}
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "1 exhausted 2 its retries are used up" in lines
    assert "2 succeeded 1" in lines
    assert not any("Added" in line for line in lines)


def test_for_programs(command: Command, server: FakeServer, draft: str) -> None:
    server.on(ROUTE, answer())
    result = command("simulate", "-f", draft, "-o", "json")
    assert json.loads(result.stdout) == answer()
    assert command("simulate", "-f", draft, "-o", "name").stdout.split() == ROOTS[:2]
    assert command("simulate", "-f", draft, "-o", "json", "--decisions").exit_code == 0
    assert [call.query for call in server.calls] == [{"chains": "false"}] * 2 + [{}]


def test_many_changed_chains(command: Command, server: FakeServer, draft: str) -> None:
    server.on(ROUTE, answer(changed=changed(30)))
    output = command("simulate", "-f", draft).stdout
    assert ROOTS[19] in output
    assert ROOTS[20] not in output
    assert "and 10 more: -o json" in output
    server.on(ROUTE, answer(changed=changed(25) * 40))
    assert (
        "1,000 or more would have come to something else" in command("simulate", "-f", draft).stdout
    )


def test_what_is_assumed_is_told_without_breakers_too(
    command: Command, server: FakeServer, draft: str
) -> None:
    server.on(ROUTE, answer(assumptions=["Suspect nodes are left out."]))
    output = command("simulate", "-f", draft).stdout
    assert "Suspect nodes are left out." in output.partition("Assumed")[2]
    assert "spared" not in output


def test_nothing_would_change(command: Command, server: FakeServer, draft: str) -> None:
    server.on(ROUTE, answer(changed=[], added_attempts=0, added_run_seconds=0))
    output = command("simulate", "-f", draft).stdout
    assert "Every chain would have come to what it did." in output
    assert "+" not in output


def test_faults_are_told_at_their_place(command: Command, server: FakeServer, draft: str) -> None:
    values = "spec.rules[0].onExitCodes.values[0]"
    errors = {
        f"policies[0].{values}": ["must be between 1 and 255"],
        "retry_policy.max_retries": ["is too many"],
        "failure_categories[0].matchers": ["is odd"],
        "history.project": ["no project"],
    }
    server.on(ROUTE, problem(400, "Invalid", errors=errors))
    result = command("simulate", "-f", draft)
    assert result.exit_code == 5
    assert result.stderr.splitlines() == [
        f"reprise: {draft}, document 1, line 7, {values}: must be between 1 and 255",
        f"reprise: {draft}, document 2, line 12, spec.policy.max_retries: is too many",
        f"reprise: {draft}, document 3, line 18, spec.matchers: is odd",
        "reprise: history.project: no project",
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give what to simulate"),
        (["--retries", "1", "--last", "30"], "--last takes a number of s, m, h, d or w"),
        (["--retries", "1", "--last", "1d", "--since", "2030-01-01T00:00:00Z"], "not both"),
        (["--retries", "1", "--last", "999999999d"], "--last is too long"),
        (["--chains", "-", "--last", "1d"], "--chains replaces the history"),
        (["--chains", "/nowhere"], "cannot read /nowhere"),
        (["-f", "/nowhere"], "cannot read /nowhere"),
    ],
)
def test_wrong_usage_is_2(command: Command, args: list[str], message: str) -> None:
    result = command("simulate", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_queue_is_not_simulated(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text("kind: Queue\n")
    result = command("simulate", "-f", str(path))
    assert result.exit_code == 2
    assert "queues are not simulated" in result.stderr


def test_a_past_that_is_too_long_is_asked_for_in_parts(
    command: Command, server: FakeServer, draft: str
) -> None:
    server.on(ROUTE, problem(413, "Too large", "narrow it"), answer(), answer(changed=[]))
    result = command("simulate", "-f", draft, "--last", "90d", "-o", "json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)["summary"]
    assert (summary["chains"], summary["by_cause"]["preempted"]) == (80, 2000)
    assert (summary["added_attempts"], len(summary["changed"])) == (90, 2)
    whole, first, second = (call.body["history"] for call in server.calls)
    assert first["since"] == whole["since"]
    assert first["until"] == second["since"]
    assert second["until"] is None
    middle = datetime.fromisoformat(first["until"]) - datetime.fromisoformat(whole["since"])
    assert timedelta(days=45) - middle < timedelta(minutes=5)


def test_a_policy_that_cannot_be_divided_is_refused(command: Command, server: FakeServer) -> None:
    server.on(ROUTE, problem(413, "Too large", "narrow it"))
    result = command("simulate", "--retries", "1", "--last", "90s")
    assert result.exit_code == 5
    assert "narrow it" in result.stderr
    assert len(server.calls) == 2


def test_the_clients_project_and_patience(server: FakeServer) -> None:
    server.on(ROUTE, answer())
    with Client(server.url, "rpr_test", "research/vision") as client:
        found = client.simulate_history(datetime(2030, 1, 1, tzinfo=UTC), draft={})
    assert found.summary.retries == 1087
    assert server.calls[0].body == {
        "history": {
            "project": "research/vision", "since": "2030-01-01T00:00:00+00:00", "until": None,
        }
    }  # fmt: skip


Sizes = st.lists(st.integers(0, 5), max_size=20)


@given(sizes=Sizes, most=st.integers(5, 30))
def test_parts_come_to_the_whole(sizes: list[int], most: int) -> None:
    asked: list[list[int]] = []

    def ask(part: Chains) -> Simulation:
        if sum(part.items) > most:
            raise ApiError(413, {})
        asked.append(list(part.items))
        return Simulation(
            summary=SimulationSummary(chains=len(part.items), retries=sum(part.items))
        )

    found = in_parts(ask, Chains(sizes))
    assert (found.summary.chains, found.summary.retries) == (len(sizes), sum(sizes))
    assert [each for part in asked for each in part] == sizes


def test_windows_meet() -> None:
    now = datetime(2030, 1, 2, tzinfo=UTC)
    window = Window(now - timedelta(days=1), None, now)
    halves = window.halves()
    assert halves is not None
    assert halves[0].until == halves[1].since == now - timedelta(hours=12)
    assert Window(now - timedelta(seconds=59), None, now).halves() is None
    assert Window(now, now + timedelta(days=1), now).halves() is not None


def test_other_errors_are_not_divided() -> None:
    def ask(_part: Chains) -> Simulation:
        raise ApiError(400, {})

    with pytest.raises(ApiError):
        in_parts(ask, Chains([1, 2]))
    assert summed([]).summary.chains == 0


def test_what_was_held_is_added_up() -> None:
    parts = [
        Simulation(
            summary=SimulationSummary(
                held={"breaker": 2},
                held_seconds={"breaker": 1.5},
                spared_retries=1,
                breakers_opened=1,
                assumptions=["a"],
            )
        ),
        Simulation(summary=SimulationSummary(held={"breaker": 1, "shared_budget": 4})),
    ]
    found = summed(parts).summary
    assert found.held == {"breaker": 3, "shared_budget": 4}
    assert (found.held_seconds, found.spared_retries) == ({"breaker": 1.5}, 1)
    assert (found.breakers_opened, found.assumptions) == (1, ["a"])
    plain = Simulation(summary=SimulationSummary(assumptions=["a"]))
    more = Simulation(summary=SimulationSummary(assumptions=["a", "b"]))
    found = summed([plain, more, plain]).summary
    assert (found.assumptions, found.held_seconds) == (["a", "b"], None)
