"""What a report reads from the sessions: how much of whom, by which indexes; when it refuses."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from sessions_app.core.errors import TooLarge
from sessions_app.locks import database_now
from sessions_app.models import Project, Session
from sessions_app.models.tenants import Role
from sessions_app.selectors import ended_chains
from sessions_app.selectors.reports import Report, ReportWanted, retry_report
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api
from tests.factories import tip
from tests.integration.test_retry_reports import chain, check_report, ended
from tests.told_log import failures_count

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "reports/retries/?project=acme/work&by=cause&queue=default"
MANY = 1_000
# Copies of a chain of one attempt, in its project and in another one.
_MANY = """
    INSERT INTO sessions_app_session
    SELECT (jsonb_populate_record(s, jsonb_build_object('id', g.id, 'root_id', g.id,
        'creation_id', g.id, 'project_id', q.project_id, 'queue_id', q.id))).*
    FROM sessions_app_session s CROSS JOIN sessions_app_queue q,
        LATERAL (
            SELECT overlay(gen_random_uuid()::text PLACING left(s.id::text, 15) FROM 1)::uuid AS id
            FROM generate_series(1, %s) WHERE q.id > 0
        ) g
    WHERE s.id = %s
"""


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("vic", project=at, role=Role.VIEWER)))


def report(at: Project, by: str = "cause", **asked: Any) -> Report:
    return retry_report([at.pk], ReportWanted.of(database_now(), by=by, **asked))


def test_chains_of_other_projects_are_no_reason_to_refuse(
    at: Project, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = factories.project("elsewhere")
    for text in "abc":
        chain(elsewhere, f"error: {text}\n")
    chain(at, "error: no\n")
    monkeypatch.setattr(ended_chains, "MOST", 2)
    monkeypatch.setattr(ended_chains, "LOOKED_AT", 2)
    assert api.read(PATH)["total"]["attempts"] == 2


def test_chains_that_succeed_at_once_are_counted_and_are_no_reason_to_refuse(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = factories.user("ann", project=at)
    for image in ("a:1", "b:1", "a:1", "a:1"):
        chain(at, image=image, owner=ann)
    cancelled = factories.submit(at, owner=ann, image="a:1")
    chain_cancel(cancelled.pk, by="bob")
    chain(at, "error: no\n", owner=ann)
    monkeypatch.setattr(ended_chains, "MOST", 5)
    found = report(at, "image", owner="ann", queue="default")
    shown = {row.value: (row.worth.chains, row.worth.cancelled) for row in found.rows}
    assert shown == {"a:1": (4, 1), "b:1": (1, 0), "busybox:1": (1, 0)}
    assert (found.total.worth.chains, found.total.worth.attempts) == (6, 7)
    failures_count()
    check_report(at, owner="ann", queue="default")
    check_report(at, image="a:1", node="a/node-1")


def test_a_chain_without_failures_that_goes_on_by_hand_is_one_chain(at: Project) -> None:
    ann = factories.user("ann", project=at)
    root = factories.submit(at, owner=ann)
    chain_cancel(root.pk, by="ann")
    session_retry(root.pk, root.pk, by="bob")
    asked = {"owner": "ann", "queue": "default"}
    assert report(at, **asked).total.worth.chains == 0
    ended(tip(root), "", exit_code=0, status="terminated")
    failures_count()
    check_report(at, **asked)
    total = report(at, **asked).total.worth
    assert (total.chains, total.attempts, total.recovered) == (1, 2, 1)


def test_a_refusal_names_the_filters_the_limit_and_what_helps(
    at: Project, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = factories.project("elsewhere")
    for project in (at, elsewhere):
        for text in "abc":
            chain(project, f"error: {text}\n")
    failures_count()
    monkeypatch.setattr(ended_chains, "MOST", 5)
    answer = api.get(PATH)
    assert answer.status_code == 413
    assert answer.json()["detail"] == (
        "a report by cause with the filter queue is read from the sessions, and more than 5 "
        "attempts are in it: ask for fewer days, for one cause, too, or for it by queue or by day"
    )
    monkeypatch.setattr(ended_chains, "MOST", 2)
    with pytest.raises(TooLarge, match="more than 2 chains or values are in it: "):
        report(at, queue="default")
    monkeypatch.undo()
    monkeypatch.setattr(ended_chains, "LOOKED_AT", 2)
    for having, what in {
        ("signature",): "failures with the signature",
        ("cause", "queue"): "failures with the cause",
        ("rule",): "failed attempts",
        ("policy", "owner"): "failed attempts",
        ("node",): "attempts on the node",
        ("queue", "owner"): "attempts of the owner",
        ("image",): "attempts of the queues",
    }.items():
        check_refusal(at, having, what)
    wanted = ReportWanted.of(database_now(), by="image", cause="kernel_nonzero_exit", queue="x")
    with pytest.raises(TooLarge, match="for one project, or for one filter alone, by it or by day"):
        retry_report([at.pk, elsewhere.pk], wanted)
    # From the figures of days, whatever there is.
    assert api.read("reports/retries/?by=day&queue=default")["total"]["chains"] == 3
    assert api.read("reports/retries/?by=queue&queue=default")["total"]["chains"] == 3


def check_refusal(at: Project, names: tuple[str, ...], what: str) -> None:
    """Fail unless a report with these filters tells what it would have to look at."""
    owner = factories.user()
    Session.objects.filter(project=at).update(owner=owner, failure_signature="a" * 12)
    values = {
        "signature": "a" * 12,
        "cause": "kernel_nonzero_exit",
        "rule": "a/b",
        "policy": "a",
        "node": "node-1",
        "owner": owner.username,
        "queue": "default",
        "image": "busybox:1",
    }
    by = "day" if names[1:] else "queue"
    with pytest.raises(TooLarge) as refused:
        report(at, by, **{name: values[name] for name in names})
    assert f"more than 2 {what} were made in this time: ask for fewer days" in str(refused.value)
    assert f"filter{'s' if names[1:] else ''} {' and '.join(names)} is read" in str(refused.value)


def test_chains_that_ran_long_are_found_by_attempts_from_before_the_time(
    at: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = chain(at, "error: no\n", image="a:1")
    chain(at, image="a:1")
    later = database_now() + timedelta(days=20)
    last = tip(root)
    Session.objects.filter(pk=last.pk).update(finished_at=later)

    def found(days: int, **having: str) -> tuple[int, int]:
        wanted = {"since": later - timedelta(days=days), "until": later + timedelta(days=1)}
        total = report(at, "node", **wanted, **having).total.worth
        return total.chains, total.attempts

    assert found(2, image="a:1") == (1, 2)
    assert found(2, cause="kernel_nonzero_exit") == (1, 1)
    assert found(25, image="a:1") == (2, 3)
    # The newest of them are looked at, and more of them are no reason to refuse.
    monkeypatch.setattr(ended_chains, "LOOKED_BACK", 1)
    assert found(2, cause="kernel_nonzero_exit") == (1, 1)
    assert found(2, image="a:1") == (0, 0)
    monkeypatch.undo()
    monkeypatch.setattr(ended_chains, "BEFORE", timedelta(days=10))
    assert found(2, cause="kernel_nonzero_exit") == (0, 0)


def test_no_report_looks_through_many_sessions_of_others(at: Project) -> None:
    """One test: the sessions take longer to make than all reports to read."""
    elsewhere = factories.project("elsewhere")
    ann = factories.user("ann", project=at)
    failed = chain(at, "error: no\n", owner=ann)
    Session.objects.filter(root=failed.pk).update(node="node-9")
    one = chain(at)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_MANY, [MANY, one.pk])
        cursor.execute("ANALYZE sessions_app_session")
        # A thousand rows may be read at once: it is the way through a million that is looked at.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        assert Session.objects.filter(project=elsewhere).count() == MANY
        for name, value in {
            "signature": failed.failure_signature,
            "cause": "kernel_nonzero_exit",
            "rule": "a/b",
            "policy": "a",
            "node": "a/node-9",
            "owner": "ann",
        }.items():
            read = sessions_read(at, **{name: value})
            assert sum(read.values()) <= 12, (name, read)
        read = sessions_read(at, image="busybox:1")
    # Those of its queue, once.
    assert read["session_by_queue"] == MANY + 3, read
    assert sum(read.values()) <= MANY + 12, read


def sessions_read(at: Project, **having: str) -> dict[str, int]:
    """Return the sessions that a report reads and passes over, by the index."""
    by = "image" if "queue" in having else "queue"
    with CaptureQueriesContext(connection) as queries:
        report(at, by, **having)
    listed = [each["sql"] for each in queries if "sessions_app_session" in each["sql"]]
    assert len(listed) == 2
    read: dict[str, int] = {}
    for sql in listed:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
            (explained,) = cursor.fetchone()
        plan = json.loads(explained) if isinstance(explained, str) else explained
        for index, rows in _read(plan[0]["Plan"]):
            read[index] = read.get(index, 0) + rows
    return read


def _read(node: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if node.get("Relation Name") == "sessions_app_session":
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield node.get("Index Name", node["Node Type"]), round(rows * node["Actual Loops"])
    for each in node.get("Plans", []):
        yield from _read(each)
