"""The examples of docs/retries.md, by the command and over REST, against the server itself."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from reprise_client.cli.main import app
from typer.testing import CliRunner

from retry.evidence.termination import Termination
from retry.policies.inline import InlinePolicy
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from tests import factories
from tests.agent import Api, agent
from tests.factories import decision, reread, settle, start, tip
from tests.integration.test_sdk_tenants import Command, client, reprise
from tests.invariants import check_all

__all__ = ["client", "reprise"]
pytestmark = pytest.mark.django_db(transaction=True)
TEXT = (Path(__file__).parents[2] / "docs" / "retries.md").read_text()
Shell = Callable[..., str]


def part(heading: str) -> str:
    """The text below a heading."""
    return TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def lines(text: str) -> list[str]:
    """The calls in the shell's blocks of a text, one each."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    return blocks.replace("\\\n", " ").splitlines()


def policies(text: str) -> list[dict[str, Any]]:
    """The inline policies of the examples in a text, with retries at once."""
    bodies = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    return [factories.policy(**each["retry_policy"]) for each in bodies]


@pytest.fixture
def at() -> Project:
    return factories.project("default", domain="default")


@pytest.fixture
def shell(at: Project, reprise: Command, tmp_path: Path, monkeypatch: Any) -> Shell:
    """Run a call of the docs, with `names` in place of words such as ID. Return what it prints."""
    del reprise  # it sets the command's environment
    monkeypatch.setenv("REPRISE_PROJECT", at.address)
    monkeypatch.chdir(tmp_path)

    def run(line: str, **names: Any) -> str:
        for name, value in names.items():
            line = re.sub(rf"\b{name}\b", str(value), line)
        program, *words = shlex.split(line, comments=True)
        if program == "curl":
            return called(words)
        result = CliRunner().invoke(app, words, prog_name=program)
        assert result.exit_code == 0, result.output
        return result.output

    return run


def called(words: list[str]) -> str:
    """What REST answers to a call by curl."""
    given: dict[str, list[str]] = {"": [], "-X": [], "-H": [], "-d": []}
    rest: Iterator[str] = iter(words)
    for word in rest:
        given[word if word in given else ""].append(next(rest) if word in given else word)
    assert given["-H"] == ["$AUTH", "$JSON"]
    ((address,), (method,), (body,)) = (given[name] for name in ("", "-X", "-d"))
    api = Api(factories.token(factories.user(superuser=True)))
    answer = api.call(method, address.removeprefix("$API/"), json.loads(body))
    assert answer.status_code in {200, 201}, answer.content
    return str(answer.content.decode())


def failed(session: Session, **facts: Any) -> Session:
    """The newest attempt of a chain, after it has failed."""
    return settle(start(tip(session)), **facts)


def parked(at: Project, **facts: Any) -> Session:
    """A chain of the example that is parked: its newest attempt."""
    (policy,) = policies(part("Parked chains"))
    root = factories.submit(at, retry_policy=policy, resources={"memory": "8Gi"})
    for _ in range(policy["max_retries"]):
        failed(root, **facts)
        assert retries_dispatch().dispatched == 1
    last = failed(root, **facts)
    assert (last.retry_count, last.retry_state) == (3, "parked")
    return last


def test_another_try_with_something_changed(at: Project, shell: Shell, tmp_path: Path) -> None:
    text = part("Another try with something changed")
    by_options, by_file, by_curl, diff = lines(text)
    asked: dict[str, Any] = {
        "image": "train:1",
        "environ": {"DEBUG": "1"},
        "resources": {"memory": "1Gi"},
    }
    root = factories.submit(at, **asked)
    shell(by_options, ID=failed(root).pk)
    second = tip(root)
    assert (second.spec.image, second.spec.environ) == ("train:2", {"DEBUG": "1", "MODE": "safe"})
    assert second.changes == {
        "image": "train:2",
        "environ": ["MODE"],
        "reason": "the new image is fixed",
    }
    words = text.partition("`changes` may have ")[2].partition(" replace those of")[0]
    fields: dict[str, Any] = {
        "image": "train:3",
        "command": ["python", "train.py"],
        "environ": {"MODE": None},
        "secret_environ": {"KEY": "x"},
        "resources": {"memory": "4Gi"},
        "priority": 7,
        "batch_timeout": 60,
        "pod_spec": {"hostNetwork": False},
        "retry_policy": {"retry_delay": 5},
    }
    assert set(re.findall(r"`(\w+)`", words)) == fields.keys()
    (tmp_path / "changes.yaml").write_text(yaml.safe_dump(fields))
    shell(by_file, ID=failed(root).pk)
    third = tip(root)
    assert third.changes is not None
    assert third.changes.keys() == fields.keys()
    assert (third.spec.image, third.spec.environ, third.priority) == ("train:3", {"DEBUG": "1"}, 7)
    answer = json.loads(shell(by_curl, ID=failed(root).pk))
    last = tip(root)
    assert (answer["id"], last.spec.image) == (str(last.pk), "train:2")
    assert (last.spec.environ, (last.changes or {})["reason"]) == ({"MODE": "safe"}, "fixed")
    printed = shell(diff, ID=root.pk, OTHER=last.pk)
    assert "train:1" in printed
    assert "train:2" in printed
    assert check_all() == []


def test_what_people_do_with_parked_chains(at: Project, shell: Shell) -> None:
    listed, retry, give_up, cancel, retry_many, give_up_many = lines(part("Parked chains"))
    chains = [parked(at) for _ in range(3)]
    waits = decision(chains[0])
    assert waits.due_at is not None
    assert waits.due_at - waits.decided_at == timedelta(seconds=604_800)
    printed = shell(listed)
    assert all(str(each.pk) in printed for each in chains)
    shell(retry, ID=chains[0].pk)
    assert tip(chains[0]).retry_counters["manual"] == 1
    shell(give_up, ID=chains[1].pk)
    assert reread(chains[1]).retry_state == "exhausted"
    shell(cancel, ID=chains[2].pk)
    assert reread(chains[2]).retry_state == "cancelled"
    big = parked(at, reason="OOMKilled", exit_code=137)
    first, second = parked(at), parked(at)
    shell(retry_many)
    assert tip(big).spec.resources == {"memory": "16Gi"}
    assert "no session matches" in shell(give_up_many)  # none is a week old
    printed = shell(give_up_many.replace("--until 7d", "--until 0s"))
    assert all(str(each.pk) in printed for each in (first, second))
    assert {reread(each).retry_state for each in (first, second)} == {"parked"}
    assert check_all() == []


def test_the_shared_budget_is_set_and_listed(at: Project, shell: Shell) -> None:
    change, listed = lines(part("A budget that chains share"))
    stored = json.loads(shell(change))["retry_budget"]
    assert (stored["ratio"], stored["burst"], stored["over"]) == (0.1, 20, "postpone")
    (row,) = shell(listed).splitlines()[1:]
    assert row.split()[:5] == ["project", at.address, "0", "of", "20"]


def test_a_session_without_a_limit(at: Project, shell: Shell) -> None:
    limited, unlimited = lines(part("Your own policy"))
    agent("one").lease()
    for line in (limited, unlimited):
        head, _, command = line.partition(" -- ")
        assert "warn" not in shell(f"{head} --detach -- {command}").lower()
    first, second = Session.objects.order_by("created_at")
    asked = InlinePolicy.model_validate(first.retry_policy)
    assert (asked.max_retries, asked.retry_delay) == (3, 60)
    assert second.retry_policy["max_retries"] == "unlimited"
    assert second.retry_policy["max_chain_duration"] == 2_592_000
    failed(second)
    assert reread(second).retry_state == "scheduled"
    assert first.project == at


def test_progress_resets_the_limits_of_the_example(at: Project) -> None:
    (policy,) = (each for each in policies(TEXT) if each.get("reset_on_progress"))
    root = factories.submit(at, retry_policy=policy)
    used = []
    for step in (1, None, None, 5, None, None, None):
        attempt = start(tip(root))
        told = {"step": step, "of": None, "note": "", "best": step, "rate": None}
        end = End(Termination(exit_code=1), progress=told if step is not None else None)
        sessions_settle({attempt.pk: end})
        used.append(decision(attempt).used)
        retries_dispatch()
    assert used == [0, 1, 2, 0, 1, 2, 3]
    assert decision(attempt).reason == "max_retries"
    assert check_all() == []
