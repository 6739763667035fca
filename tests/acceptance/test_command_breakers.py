"""Breakers and shared retry budgets as people type them, against a running server."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reprise_client import Client

from tests.acceptance.running import Standalone, clean_environ
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

REPRISE = str(Path(sys.executable).with_name("reprise"))
PROJECT = "default/default"
KEY = "a512280df4ee"
RULES = """\
apiVersion: reprise/v1
kind: Queue
metadata: {name: limited, domain: default, project: default}
spec:
  breaker: {chains: 5}
  retry_budget: {burst: 9}
---
apiVersion: reprise/v1
kind: RetryDefaults
metadata: {domain: default, project: default}
spec:
  settings: {breaker: {chains: 7}, retry_budget: {burst: 20, over: fail}}
"""
Run = subprocess.CompletedProcess[str]
Reprise = Callable[..., Run]


@pytest.fixture
def reprise(standalone: Standalone, tmp_path: Path) -> Reprise:
    credentials = standalone.credentials
    environ = clean_environ(
        REPRISE_CONFIG=str(tmp_path / "config.yaml"),
        REPRISE_URL=credentials["url"],
        REPRISE_TOKEN=credentials["token"],
    )

    def run(*arguments: str) -> Run:
        return subprocess.run(
            [REPRISE, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    return run


@pytest.fixture
def rules(reprise: Reprise, client: Client, tmp_path: Path) -> Iterator[str]:
    """A file with the rules of a queue and a project, applied while the test runs."""
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    done = reprise("apply", "-f", str(path))
    assert done.returncode == 0, done.stderr
    yield str(path)
    client.retry_settings_update(project=PROJECT, breaker=None, retry_budget=None)
    client.queue_delete(f"{PROJECT}/limited")


def test_documents_set_the_rules_of_a_queue_and_a_project(
    reprise: Reprise, client: Client, rules: str
) -> None:
    for found in (client.queue(f"{PROJECT}/limited"), client.retry_settings(project=PROJECT)):
        assert found.breaker is not None
        assert (found.breaker.window, found.breaker.probe_after) == (600, 60)
    again = reprise("apply", "-f", rules)
    assert again.returncode == 0, again.stderr
    assert all(line.endswith(" unchanged") for line in again.stdout.splitlines()), again.stdout
    described = reprise("describe", "queue", f"{PROJECT}/limited").stdout
    assert re.search(r"Breaker\s+opens when 5 chains fail alike within 10 min", described)
    assert re.search(r"Retry budget\s+9 retries and 0.2 for each first attempt", described)
    Path(rules).write_text(RULES.replace("chains: 5", "chains: 1"))
    refused = reprise("apply", "-f", rules)
    assert refused.returncode != 0
    assert "breaker.chains" in refused.stderr


def test_budgets_are_listed(reprise: Reprise, client: Client, rules: str) -> None:
    done = reprise("budget", "list", "--project", PROJECT, "-o", "json")
    found = {each["scope"]: each for each in json.loads(done.stdout)}
    assert {name: each["over"] for name, each in found.items()} == {
        PROJECT: "fail",
        f"{PROJECT}/limited": "postpone",
    }
    assert found[f"{PROJECT}/limited"]["allowed"] >= 9
    assert {each.scope for each in client.retry_budgets(project=PROJECT)} == {*found}
    table = reprise("budget", "list").stdout
    assert "FIRST ATTEMPTS" in table
    assert "chains end" in table


def test_a_breaker_is_opened_listed_closed_and_muted(reprise: Reprise, client: Client) -> None:
    typed = ("breaker", "open", KEY, "--project", PROJECT, "--reason", "the licence server is down")
    opened = re.fullmatch(r"breaker/(\S+) is open\n", reprise(*typed).stdout)
    assert opened is not None
    again = reprise(*typed)
    assert (again.returncode, again.stdout) == (5, "")
    assert f"the breaker of {KEY} is open already" in again.stderr
    listed = reprise("breaker", "list", "--state", "open", "--signature", KEY, "-o", "json")
    (found,) = json.loads(listed.stdout)
    assert (found["project"], found["reason"]) == (PROJECT, "the licence server is down")
    assert KEY in reprise("breaker", "list", "--project", PROJECT).stdout
    assert client.breaker(opened[1]).opened_by == found["opened_by"] != ""

    closed = reprise("breaker", "close", opened[1], "--reason", "it is up again", "--mute")
    assert closed.stdout == f"breaker/{opened[1]} is closed and muted\n"
    assert reprise("breaker", "list", "--state", "open", "-o", "json").stdout.strip() == "[]"
    (left,) = client.breakers(signature=KEY)
    assert (left.state, left.muted, left.reason) == ("closed", True, "it is up again")
    told = reprise("breaker", "events", opened[1], "-o", "json")
    assert [(each["type"], each["reason"]) for each in json.loads(told.stdout)] == [
        ("closed", "it is up again"),
        ("opened", "the licence server is down"),
    ]
    assert "the licence server is down" in reprise("breaker", "events", opened[1]).stdout
    heard = reprise("breaker", "unmute", opened[1])
    assert heard.stdout == f"breaker/{opened[1]} is no longer muted\n"
    assert not client.breaker(opened[1]).muted
    assert reprise("breaker", "mute", opened[1]).stdout == f"breaker/{opened[1]} is muted\n"
    assert client.breaker(opened[1]).muted
    assert not client.breaker_unmute(opened[1]).muted
    assert client.breaker_mute(opened[1]).muted
    for verb in ("close", "mute", "unmute"):
        unknown = reprise("breaker", verb, "00000000-0000-7000-8000-000000000000")
        assert (unknown.returncode, unknown.stdout) == (3, "")
