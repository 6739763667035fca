"""Schedules by the SDK and by the command, as in the docs, against the server itself."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from django.db.models import F
from reprise_client import ApiError, Client

from sessions_app.models import Project, Schedule, Session
from tests import factories
from tests.agent import agent
from tests.integration.test_sdk_tenants import Command, client, reprise

__all__ = ["client", "reprise"]
pytestmark = pytest.mark.django_db(transaction=True)
DOCS = Path(__file__).parents[2] / "docs" / "schedules.md"


ADDRESS = "schedule/acme/work/nightly-backup"


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("REPRISE_PROJECT", "acme/work")
    return factories.project("work")


def test_the_document_of_the_docs_is_applied(reprise: Command, work: Project) -> None:
    (document,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)

    def applied(text: str) -> str:
        return reprise("apply -f -", stdin=text).stdout

    assert applied(document) == f"{ADDRESS} created\n"
    Schedule.objects.update(paused_at=F("created_at"), paused_reason="because")
    moved = document.replace("overlap: skip", 'from: "2030-01-01T00:00:00Z"')
    assert applied(moved) == f"{ADDRESS} configured\n"
    assert Schedule.objects.get().paused_reason == "because"
    got = reprise("get schedule nightly-backup -o yaml").stdout
    assert yaml.safe_load(got)["spec"]["overlap"] == "allow"
    assert applied(got) == f"{ADDRESS} unchanged\n"
    assert reprise("describe schedule nightly-backup").stdout.count("T02:30:00") == 5


def test_the_next_times_are_shown_before_anything_is_saved(reprise: Command, work: Project) -> None:
    (document,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    shown = reprise("schedule times -f -", stdin=document).stdout
    assert shown.count("nightly-backup") == shown.count("T02:30:00") == 5
    (entry,) = json.loads(reprise("schedule times -f - --json", stdin=document).stdout)
    assert (entry["name"], len(entry["times"])) == ("nightly-backup", 5)
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("before", "after", "code", "words"),
    [
        ('"30 3 * * *"', '"30 25 * * *"', 5, "line 6, spec.cron:"),
        (
            "overlap: skip",
            'until: "2001-01-01T00:00:00Z"',
            5,
            "line 8, spec.until: no time is left",
        ),
        ("time_zone:", "timezone:", 2, "line 7, spec.timezone: is not a known field"),
        ("kind: Schedule", "kind: Queue", 2, "kind: must be Schedule: only schedules have times"),
    ],
)
def test_faults_of_documents_are_told_at_their_places(
    reprise: Command, work: Project, before: str, after: str, code: int, words: str
) -> None:
    (document,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert before in document
    wrong = document.replace(before, after)
    assert words in reprise("schedule times -f -", code=code, stdin=wrong).output


def test_sessions_are_made_by_hand(reprise: Command, work: Project) -> None:
    factories.schedule(
        work, factories.user(superuser=True), name="nightly-backup", cron="@daily", every=None
    )
    made = reprise("schedule trigger nightly-backup").stdout.strip()
    assert str(Session.objects.get().pk) == made
    assert reprise("schedule pause nightly-backup --reason moving").stdout.endswith("paused\n")
    assert Schedule.objects.get().paused_reason == "moving"
    span = "schedule backfill nightly-backup --from 2020-01-01 --to 2020-01-31"
    assert reprise(f"{span} --dry-run").output.count("would be made") == 31
    assert Session.objects.count() == 1
    assert "31 times; 31 sessions made" in reprise(span).output
    assert reprise("delete schedule nightly-backup --yes").stdout == f"{ADDRESS} deleted\n"
    reprise("schedule trigger nightly-backup", code=3)


def test_the_calls_of_the_sdk(client: Client) -> None:
    factories.project("work")
    agent().lease()
    client.project = "acme/work"
    begin = datetime(2100, 6, 1, tzinfo=UTC)
    assert [time.year for time in client.schedule_times(cron="@yearly", from_=begin)] == [
        2101, 2102, 2103, 2104, 2105,
    ]  # fmt: skip
    made = client.schedule_create("one", {"command": ["true"]}, every=60, from_=begin)
    assert (made.address, made.from_, made.next_at) == ("acme/work/one", begin, begin)
    assert client.schedule(made.id) == made
    assert [each.id for each in client.schedules(project="acme/work", paused=False)] == [made.id]
    assert client.schedule_change(made.id, jitter=7).jitter == 7
    whole = client.schedule_put(made.id, cron="@daily", template={"image": "a"})
    assert (whole.every, whole.jitter, whole.from_) == (None, 0, None)
    assert client.schedule_pause(made.id, "because").paused
    assert client.session(client.schedule_trigger(made.id)).image == "a"
    assert [run.status for run in client.schedule(made.id).recent] == ["PENDING"]
    assert not client.schedule_resume(made.id).paused
    span = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 3, tzinfo=UTC))
    done = client.schedule_backfill(made.id, *span, dry_run=True)
    assert [each.time.day for each in done.results] == [1, 2, 3]
    client.schedule_delete(made.id)
    with pytest.raises(ApiError) as refused:
        client.schedule(made.id)
    assert refused.value.status == 404
