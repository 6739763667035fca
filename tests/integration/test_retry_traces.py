"""Traces stand beside their decisions; those that older releases wrote stand in them, as before."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from reprise.upkeep.retention import prune
from sessions_app.migrations._slices import run_once
from sessions_app.models import Project, RetryDecision, RetryTrace, Session
from sessions_app.models.tenants import Role
from sessions_app.selectors.peers import decisions_found
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from tests import factories
from tests.agent import Api
from tests.factories import policy, settle, start, submit, tip
from tests.graphs import Graph
from tests.invariants import check_all
from tests.prepared import ROOT, copy_database
from tests.racing import uncommitted

RETURN: Any = import_module("sessions_app.migrations.0034_traces_return")
# As the release before wrote and deleted decisions.
OLD_INSERT = """
    INSERT INTO sessions_app_retrydecision
        (session_id, state, action, reason, cause, rule, paid_by, used, "limit", delay, due_at,
         avoid_node, avoid_executor, termination, policy_revisions, trace, resources,
         preempted_at, decided_at, dispatched_by)
    SELECT session_id, 'final', action, reason, cause, rule, paid_by, used, "limit", delay, due_at,
         avoid_node, avoid_executor, termination, policy_revisions, %s, resources,
         preempted_at, decided_at, dispatched_by FROM before
"""
OLD_DELETE = "DELETE FROM sessions_app_retrydecision WHERE session_id = ANY(%s::uuid[])"


@pytest.fixture
def at() -> Project:
    return factories.project("work", domain="acme")


@pytest.fixture
def member(at: Project) -> Any:
    return factories.user(project=at, role=Role.MAINTAINER)


@pytest.fixture
def root(at: Project) -> Session:
    """A chain of three attempts: one that the engine retried, and one retried by hand, ended."""
    root = submit(at, retry_policy=policy(max_retries=1))
    settle(start(root), exit_code=3, node="node-1")
    retries_dispatch()
    second = settle(start(tip(root)), exit_code=4)
    session_retry(second.pk, root.pk, by="ada")
    settle(start(tip(root)), exit_code=5)
    return root


def write_as_before() -> None:
    """Write all decisions again as the release before did."""
    for decision in RetryDecision.objects.all():
        trace = connection.ops.adapt_json_value(decision.trace, None)
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE before ON COMMIT DROP AS "
                "SELECT * FROM sessions_app_retrydecision WHERE session_id = %s",
                [decision.pk],
            )
            cursor.execute(OLD_DELETE, [[decision.pk]])
            cursor.execute(OLD_INSERT, [trace])
            cursor.execute(
                "UPDATE sessions_app_retrydecision d SET state = b.state, "
                "next_session_id = b.next_session_id, dispatched_at = b.dispatched_at, "
                "dispatched_by = b.dispatched_by, requested_by = b.requested_by, paced = b.paced "
                "FROM before b WHERE b.session_id = d.session_id"
            )
            cursor.execute("DROP TABLE before")
    assert not RetryTrace.objects.exists()


@pytest.mark.django_db
def test_a_trace_stands_beside_its_decision(root: Session) -> None:
    decisions = list(RetryDecision.objects.select_related("written_trace"))
    assert len(decisions) == RetryTrace.objects.count() == 3
    assert all(each.own_trace == [] for each in decisions)
    with CaptureQueriesContext(connection) as queries:
        assert all(each.trace[-1]["step"] == "decision" for each in decisions)
    assert len(queries) == 0


@pytest.mark.django_db
def test_dispatch_does_not_write_it(root: Session) -> None:
    places = "SELECT ctid::text FROM sessions_app_retrytrace"
    again = submit(root.project, retry_policy=policy())
    settle(start(again))
    with connection.cursor() as cursor:
        cursor.execute(places)
        before = cursor.fetchall()
        assert retries_dispatch().dispatched == 1
        cursor.execute(places)
        assert cursor.fetchall() == before


@pytest.mark.django_db
def test_an_old_decision_reads_as_a_new_one(root: Session, member: Any) -> None:
    """Over REST, GraphQL, on the page, and in a simulation on the past."""
    api, client = Api(factories.token(member)), Client()
    client.force_login(member)
    graph = Graph(factories.token(member))

    def answers() -> list[Any]:
        paths = [f"sessions/{each.pk}/retry-decision/" for each in root_chain(root)]
        page = client.get(f"/sessions/{root.pk}/steps/").content.decode()
        query = "{ sessions(first: 5) { edges { node { retryDecision { trace explanation } } } } }"
        return [
            [api.read(path) for path in paths],
            page[page.index("<table") : page.index("</table>")],
            graph.ask(query),
            simulated(api),
        ]

    before = answers()
    assert all(each["trace"] for each in before[0])
    assert "node-1" in before[1]
    write_as_before()
    assert check_all() == []
    assert answers() == before


def root_chain(root: Session) -> list[Session]:
    return list(Session.objects.filter(root=root).order_by("retry_count"))


def simulated(api: Api) -> Any:
    window = {"project": "acme/work", "since": "2020-01-01T00:00:00Z"}
    answer = api.post("retry-policies/simulate/", {"history": window})
    return b"".join(answer) if answer.streaming else answer.content


@pytest.mark.django_db
@pytest.mark.parametrize("write", [lambda: None, write_as_before], ids=["new", "old"])
def test_an_archived_decision_keeps_its_trace(
    root: Session, member: Any, settings: Any, write: Callable[[], None]
) -> None:
    settings.REPRISE = {**settings.REPRISE, "session_retention": 1e-6, "event_retention": 0.0}
    api = Api(factories.token(member))
    path = f"sessions/{root.pk}/retry-decision/"
    write()
    before = api.read(path)
    assert prune().sessions == 3
    assert not RetryTrace.objects.exists()
    assert api.read(path) == before
    assert check_all() == []


@pytest.mark.django_db
def test_a_trace_goes_with_its_decision(root: Session) -> None:
    """Whoever deletes it: the ORM, or a server of the release before."""
    first, second, third = root_chain(root)
    RetryDecision.objects.filter(pk=third.pk).delete()
    assert set(RetryTrace.objects.values_list("pk", flat=True)) == {first.pk, second.pk}
    with connection.cursor() as cursor:
        cursor.execute(OLD_DELETE, [[first.pk, second.pk]])
    assert not RetryTrace.objects.exists()


@pytest.mark.django_db
def test_many_traces_are_read_in_one_statement(at: Project) -> None:
    sessions = [submit(at) for _ in range(5)]
    for each in sessions:
        settle(start(each))
    with CaptureQueriesContext(connection) as queries:
        assert all(each is not None and each.trace for each in decisions_found(sessions))
    assert len(queries) == 1


@pytest.mark.django_db(transaction=True)
def test_traces_return_in_slices(root: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else changes at that moment returns in a later pass."""
    monkeypatch.setattr(RETURN, "SLICE", 2)
    held = RetryDecision.objects.earliest("pk")
    traces = {each.pk: each.trace for each in RetryDecision.objects.all()}

    def change() -> None:
        RetryDecision.objects.filter(pk=held.pk).update(avoid_executor="changed")

    with connection.schema_editor(atomic=False) as editor:
        with uncommitted(change):
            run_once(editor.connection.cursor(), RETURN.RETURN, RETURN.SLICE)
            (left,) = RetryTrace.objects.all()
            assert left.pk == held.pk
        RETURN.traces_return(None, editor)
    assert not RetryTrace.objects.exists()
    assert {each.pk: each.own_trace for each in RetryDecision.objects.all()} == traces
    assert RetryDecision.objects.get(pk=held.pk).avoid_executor == "changed"
    assert check_all() == []


# Sessions are not asked for: their tables stay as they are.
MANY = """
    SET session_replication_role = replica;
    INSERT INTO sessions_app_retrydecision
        (session_id, state, action, reason, cause, rule, paid_by, avoid_node, avoid_executor,
         termination, policy_revisions, decided_at, dispatched_by)
    SELECT gen_random_uuid(), 'final', 'fail', '', '', '', '', '', '', '{}', '{}', now(), ''
    FROM generate_series(1, 1300);
    INSERT INTO sessions_app_retrytrace (session_id, steps)
    SELECT session_id, jsonb_build_array(session_id) FROM sessions_app_retrydecision;
"""
TRACED = """
    SELECT count(*) FROM sessions_app_retrydecision WHERE trace = jsonb_build_array(session_id)
"""
OLD_UPDATE = """
    UPDATE sessions_app_retrydecision SET used = coalesce(used, 0) + 1 WHERE session_id IN
        (SELECT session_id FROM sessions_app_retrydecision ORDER BY random() LIMIT 20)
"""


def test_migrating_back_loses_nothing(prepared: Path, tmp_path: Path) -> None:
    """Servers of the release before go on changing decisions meanwhile."""
    server = EmbeddedPostgres(copy_database(prepared, tmp_path))
    with patch.dict(SETTINGS, fsync="off"):
        url = server.start()
    try:
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(MANY)
            changed = while_changing(url, lambda: migrate(url, "sessions_app", BEFORE))
            assert other.execute(TRACED).fetchone() == (1300,)
            used = other.execute("SELECT sum(used) FROM sessions_app_retrydecision").fetchone()
            assert used == (20 * changed,)
            assert changed > 5
            migrate(url)
            assert other.execute(TRACED).fetchone() == (1300,)
    finally:
        server.stop()


BEFORE = "0032_resting_indexes"
"""The migration before the one that makes the table of traces."""


def migrate(url: str, *arguments: str) -> None:
    command = [sys.executable, "manage.py", "migrate", "--noinput", *arguments]
    environ = {**os.environ, "DATABASE_URL": url}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def while_changing(url: str, work: Callable[[], None]) -> int:
    """Do `work` while another connection changes decisions. Return the number of its statements."""
    over, errors, changed = threading.Event(), [], 0

    def change() -> None:
        nonlocal changed
        with psycopg.connect(url, autocommit=True) as old:
            while not over.wait(0.02):
                try:
                    old.execute(OLD_UPDATE)
                    changed += 1
                except psycopg.Error as error:
                    errors.append(str(error))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        work()
    finally:
        over.set()
        thread.join()
    assert errors == []
    return changed
