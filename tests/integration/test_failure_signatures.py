"""Sessions keep the signature of their failure, and lists find them by it."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Agent, Api
from tests.factories import reread
from tests.invariants import check_all

TRACEBACK = """Traceback (most recent call last):
  File "/app/train.py", line {line}, in main
ValueError: row {row} is bad
"""


def failed(project: Project, log_tail: str = "", message: str = "", **fields: Any) -> Session:
    session = factories.start(factories.submit(project, **fields))
    end = End(Termination(exit_code=1, message=message), log_tail=log_tail)
    assert sessions_settle({session.pk: end}) == [session.pk]
    return reread(session)


def test_failures_of_one_kind_have_one_signature(at: Project) -> None:
    first = failed(at, TRACEBACK.format(line=3, row=17))
    second = failed(at, TRACEBACK.format(line=4, row=18))
    other = failed(at, message="no such table: runs")
    assert len(first.failure_signature) == 12
    assert first.failure_signature == second.failure_signature != other.failure_signature
    event = SessionEvent.objects.get(session_id=first.pk, type="session.error")
    assert event.data["failure_signature"] == first.failure_signature
    assert "ValueError" not in str(event.data)
    assert check_all() == []


def test_a_success_and_a_cancel_have_none(at: Project) -> None:
    succeeded = factories.settle(factories.start(factories.submit(at)), status="terminated")
    cancelled = factories.submit(at)
    chain_cancel(cancelled.pk, by="ann")
    assert {reread(each).failure_signature for each in (succeeded, cancelled)} == {""}


def test_a_generic_failure_is_of_its_image_and_command(at: Project) -> None:
    one, same = (failed(at, "Killed\n", image=f"busybox:{tag}") for tag in (1, 2))
    image = failed(at, "Killed\n", image="alpine:1")
    command = failed(at, "Killed\n", image="busybox:1", command=["other"])
    keys = [each.failure_signature for each in (one, same, image, command)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    ("exit_code", "log_tail", "statements"),
    [(1, "", 1), (1, "error: bad row\n", 0), (137, "step 3\n", 1), (137, "error: bad row\n", 0)],
)
def test_only_failures_that_no_text_tells_read_images(
    at: Project, exit_code: int, log_tail: str, statements: int
) -> None:
    session = factories.start(factories.submit(at))
    with CaptureQueriesContext(connection) as queries:
        sessions_settle({session.pk: End(Termination(exit_code=exit_code), log_tail=log_tail)})
    reads = [each["sql"] for each in queries if "c.image, c.command" in each["sql"]]
    assert len(reads) == statements


def test_reports_bring_the_end_of_the_output(at: Project, played: Agent) -> None:
    sessions = [factories.submit(at) for _ in range(3)]
    played.lease()
    tails = [
        {"log_tail": TRACEBACK.format(line=3, row=1)},
        {"log_tail": "x" * 100_000 + TRACEBACK.format(line=9, row=2)},
        {},  # as older agents say it
    ]
    for session, tail in zip(sessions, tails, strict=True):
        assert played.report(session.pk, "ERROR", exit_code=1, **tail) == "applied"
    keys = [reread(session).failure_signature for session in sessions]
    assert keys[0] == keys[1] != keys[2]
    assert "" not in keys


def test_lists_find_the_failures_of_a_signature(at: Project) -> None:
    found = [failed(at, "error: disk is full\n") for _ in range(2)]
    failed(at, "error: bad row\n")
    api = Api(factories.token(factories.user("ann", project=at)))
    key = found[0].failure_signature
    listed = api.read(f"sessions/?signature={key}")["results"]
    assert {each["id"] for each in listed} == {str(each.pk) for each in found}
    assert {each["failure_signature"] for each in listed} == {key}
