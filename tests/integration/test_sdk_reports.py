"""Reports by the SDK and by the command, as in the docs, against the server itself."""

import csv
import io
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from reprise_client import ApiError, Client

from sessions_app.locks import database_now
from sessions_app.models import Project, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.retry_advice import retries_advise
from tests import factories
from tests.factories import policy, tip
from tests.integration.test_sdk_tenants import Command, client, reprise
from tests.told_log import failures_count

__all__ = ["client", "reprise"]
pytestmark = pytest.mark.django_db(transaction=True)
TEXT = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()
FACTS: dict[str, dict[str, Any]] = {
    "`oom_killed`": {"exit_code": 137, "reason": "OOMKilled"},
    "`preempted`": {"conditions": ("Preempted",)},
    "success": {"exit_code": 0, "status": "terminated"},
}


def table(head: str) -> list[dict[str, str]]:
    """The rows of the table of the docs whose first column has this name."""
    (found,) = re.findall(rf"^(\| {head} \|.*?)\n\n", TEXT, re.DOTALL | re.MULTILINE)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("REPRISE_PROJECT", "acme/work")
    return factories.project("work")


@pytest.fixture
def chain(work: Project) -> Session:
    """The chain of the docs."""
    begin = database_now().replace(hour=0, minute=0, second=0) - timedelta(days=1)
    root = factories.submit(work, image="busybox:1", retry_policy=policy(max_preemption_retries=3))
    for row in table("attempt"):
        session = factories.start(tip(root))
        factories.settle(session, node=row["node"], **FACTS[row["how it ended"]])
        Session.objects.filter(pk=session.pk).update(
            started_at=begin + timedelta(seconds=float(row["started"])),
            finished_at=begin + timedelta(seconds=float(row["ended"])),
        )
        retries_dispatch()
    failures_count()
    return root


def test_the_chain_of_the_docs_has_the_figures_of_the_docs(client: Client, chain: Session) -> None:
    causes = [row["how it ended"].strip("`") for row in table("attempt")[:2]]
    assert [row.value for row in client.retry_report().results] == causes
    found = client.retry_report(by="node")
    shown = {row.value: row for row in found.results} | {"all": found.total}
    expected = table("node")
    assert shown.keys() == {row.pop("node") for row in table("node")}
    for row in expected:
        figures = shown[row.pop("node")]
        assert {name: float(getattr(figures, name)) for name in row} == {
            name: float(value) for name, value in row.items()
        }
    (took,) = re.findall(r"It took (\d+) s", TEXT)
    assert found.total.recovery_seconds_median == pytest.approx(float(took), rel=0.12)
    assert found.total.recovery_seconds_p95 == found.total.recovery_seconds_median


def test_the_commands_of_the_docs_work(client: Client, reprise: Command, chain: Session) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    whole = "".join(blocks).splitlines()
    lines = [line.partition("#")[0].partition(">")[0] for line in whole]
    commands = [line.removeprefix("reprise ").strip() for line in lines if "reprise" in line]
    printed = [reprise(command).stdout for command in commands]
    assert len(printed) == 6
    for text in ("oom_killed", "preempted", "1 h 14 min of run time", "CAUSE", "1 chain"):
        assert text in printed[0]
    assert retries_advise() == 1
    assert "In a replay of 1 chain of the last 30 days" in (said := reprise("report").stdout)
    assert re.search(r"Advised +\S+ m?s ago", said)
    advised = client.retry_report().advice_computed_at
    assert advised is not None
    assert database_now() - advised < timedelta(minutes=1)
    assert "RULE" in printed[1]
    days = json.loads(printed[2])["results"]
    assert [row["chains"] for row in days] == [0, 0, 0, 0, 0, 0, 1, 0]
    assert "POLICY" in printed[3]
    (row,) = csv.DictReader(io.StringIO(printed[4]))
    assert (row["value"], row["recovered_chains"]) == ("busybox:1", "1")
    assert "node-a" in printed[5]
    assert "node-b" not in printed[5]


def test_a_report_can_be_wrong(client: Client, reprise: Command, work: Project) -> None:
    with pytest.raises(ApiError, match="by"):
        client.retry_report_csv(by="colour")
    refused = reprise("report --csv -o json", 2)
    assert "not both" in refused.stderr
