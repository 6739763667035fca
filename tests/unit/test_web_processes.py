"""How many web processes standalone has, and the messages that they pass on."""

import json
from io import StringIO
from typing import Any
from unittest.mock import patch

import pytest
from celery.app.task import Task

from base.loglines.context import binding, bound
from reprise import shared_metrics
from reprise.standalone.configuration import CONNECTIONS, PROCESS_CONNECTIONS, connections_wanted
from reprise.standalone.web_count import MOST, default_count, share_metrics
from reprise.worker import relay
from sessions_app.tasks import dispatch_due_retries


@pytest.mark.parametrize(
    ("cores", "count"), [(1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (64, 4)]
)
def test_half_of_the_cores_answer(cores: int, count: int) -> None:
    assert default_count(cores) == count


def test_postgresql_allows_what_the_processes_open() -> None:
    assert connections_wanted(1) == connections_wanted(MOST) == CONNECTIONS
    assert connections_wanted(MOST + 1) == CONNECTIONS + PROCESS_CONNECTIONS


@pytest.mark.parametrize(
    ("arguments", "shared"),
    [
        (["--web-processes", "2", "--data-dir", "x"], True),
        (["--data-dir", "x", "--web-processes=1"], False),
        (["--port", "0"], False),
    ],
)
def test_metrics_are_shared_by_several(arguments: list[str], shared: bool) -> None:
    with (
        patch.object(shared_metrics, "share") as share,
        patch("reprise.standalone.web_count.usable_cores", return_value=2),
    ):
        share_metrics(arguments)
    assert share.called is shared


def test_a_message_passes_through_a_pipe_with_its_origin() -> None:
    pipe = StringIO()
    with patch.object(relay, "_pipe", pipe), binding(request_id="abc"):
        dispatch_due_retries.apply_async(countdown=1.5, headers={"a": "b"}, queue="retry")
    (line,) = pipe.getvalue().splitlines()
    assert json.loads(line)["task"] == dispatch_due_retries.name

    seen = []

    def sent(*_arguments: Any, **given: Any) -> None:
        seen.append((bound("request_id"), given))

    with patch.object(Task, "apply_async", sent):
        relay.send(line)
    ((origin, given),) = seen
    assert origin == "abc"
    assert given["countdown"] == 2
    assert given["headers"] == {"a": "b"}
    assert given["queue"] == "retry"


def test_without_a_pipe_nothing_is_passed_on() -> None:
    assert relay.pass_on("some.task", None, None, {}) is False
