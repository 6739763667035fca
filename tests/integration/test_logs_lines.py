"""The lines of the log: one object each, with the ids of what they are about, without secrets."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery import signals
from django.db import IntegrityError, transaction
from reprise_client import Client as SdkClient

from base.loglines.context import binding, bound, clear
from base.loglines.lines import FIELDS, configuration, formatter, wanted_format
from base.variables.reading import read
from executor.environment import Agent
from executor.run_lines import RunLines
from reprise.environment import Environment
from reprise.worker.task_log import DUE, ORIGIN
from sessions_app.models import Project, Queue, SessionEvent
from sessions_app.wakeups import SWEEP, Publisher
from tests import factories
from tests.agent import Api
from tests.observability import ROOT
from tests.streaming import served

ALWAYS = {"timestamp", "level", "logger", "event"}
SECRET = "hunter2-planted"


class Lines(logging.Handler):
    """The lines that would have been written."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(formatter("json"))
        self.text: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(self.format(record))

    def listen(self) -> None:
        """To everything, down to DEBUG; a server that is set up makes all loggers anew."""
        logging.getLogger().addHandler(self)
        logging.getLogger().setLevel(logging.DEBUG)

    def of(self, logger: str) -> list[dict[str, Any]]:
        """The lines of one logger."""
        return [parsed for each in self.text if (parsed := json.loads(each))["logger"] == logger]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """All that is logged in this process."""
    handler, root = Lines(), logging.getLogger()
    level = root.level
    handler.listen()
    yield handler
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.django_db(transaction=True)
def test_a_call_is_a_line_with_its_ids(at: Project, lines: Lines) -> None:
    session = factories.submit(at)
    owner = factories.user("ada", superuser=True)
    door = Api(factories.token(owner))
    answer = door.get(f"sessions/{session.pk}/?q=x", headers=given(door, "from-the-proxy.1"))
    assert answer.headers["X-Request-ID"] == "from-the-proxy.1"
    (line,) = lines.of("reprise.requests")
    assert line.keys() >= ALWAYS
    assert (line["event"], line["level"], line["request_id"]) == (
        "request",
        "info",
        "from-the-proxy.1",
    )
    assert (line["actor"], line["token"]) == ("ada", door.token and door.token[:12])
    assert (line["door"], line["route"]) == ("rest", "api/v2/sessions/<uuid:session_id>/")
    assert (line["method"], line["status"]) == ("GET", 200)
    assert line["session_id"] == str(session.pk)
    assert line["duration_ms"] > 0
    # The thread goes on with other calls, which are others'.
    assert bound("request_id") == bound("actor") == ""


def given(door: Api, request_id: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {door.token}", "X-Request-ID": request_id}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("bad", ["", "x" * 129, "a b", "é", "a\tb", '"}{"', "-x", "a;b"])
def test_an_id_that_is_none_is_replaced(client: Any, bad: str) -> None:
    got = client.get("/healthz", headers={"X-Request-ID": bad}).headers["X-Request-ID"]
    assert got != bad
    assert len(got) == 32
    assert client.get("/healthz").headers["X-Request-ID"] != got


@pytest.mark.django_db(transaction=True)
def test_probes_are_logged_at_debug(client: Any, lines: Lines) -> None:
    client.get("/healthz")
    client.get("/no/such/place/" + SECRET)
    first, second = lines.of("reprise.requests")
    assert (first["level"], second["level"]) == ("debug", "info")
    assert second["route"] == "none"
    assert not any(SECRET in each for each in lines.text)


@pytest.mark.django_db(transaction=True)
def test_ends_of_sessions_are_logged_with_the_chain(at: Project, lines: Lines) -> None:
    policy = factories.policy(max_retries=1, retry_delay=3600)
    with binding(request_id="r1"):
        session = factories.settle(factories.start(factories.submit(at, retry_policy=policy)))
    events = lines.of("sessions_app.events")
    kept = SessionEvent.objects.filter(session_id=session.pk).order_by("seq")
    assert [each["change"] for each in events] == list(kept.values_list("type", flat=True))
    assert {each["root_session_id"] for each in events} == {str(session.root_id)}
    assert {(each["attempt"], each["request_id"]) for each in events} == {(0, "r1")}


@pytest.mark.django_db(transaction=True)
def test_no_secret_is_written(at: Project, lines: Lines) -> None:
    """Not of headers, bodies, environments or addresses; also when something is refused."""
    door = Api(factories.token(factories.user(superuser=True)))
    body = {"command": ["echo", SECRET], "environ": {"PASSWORD": SECRET}, "project": at.address}
    assert door.post("sessions/", body).status_code == 201
    assert door.post("sessions/", {**body, "nonsense": SECRET}).status_code == 400
    assert door.post("sessions/", f'{{"{SECRET}'.encode()).status_code == 400
    assert door.get(f"sessions/?password={SECRET}").status_code == 400
    assert Api(SECRET).get("sessions/").status_code == 401
    hook = {"url": f"https://user:{SECRET}@example.org/", "project": at.address}
    assert door.post("webhooks/", hook).status_code < 500
    made = door.post("tokens/", {"name": "another"}).json()["token"]
    door.http.post("/login/", {"username": "ada", "password": SECRET})
    for secret in (SECRET, str(door.token), made):
        assert [each for each in lines.text if secret in each] == []
    assert all(json.loads(each).keys() <= ALWAYS | {*FIELDS, "exception"} for each in lines.text)


@pytest.mark.django_db
def test_an_error_of_the_database_tells_no_row(at: Project, lines: Lines) -> None:
    secret = f"{SECRET})\nthe second line"
    with pytest.raises(IntegrityError, match=SECRET) as caught, transaction.atomic():
        Queue.objects.filter(project=at).update(cordon_reason=secret, cordoned=None)
    here = logging.getLogger("here")
    here.error("it failed", exc_info=caught.value)
    here.error("the task raised %r", caught.value)
    logged = lines.of("here")
    assert len(logged) == 2
    assert SECRET not in str(logged)
    assert "second line" not in str(logged)
    assert str(logged).count("Failing row contains (...).") >= 2
    assert logged[0]["exception"].rstrip().endswith("(...).")


@pytest.mark.django_db(transaction=True)
def test_the_sdk_brings_an_id_with_each_call(lines: Lines) -> None:
    token = factories.token(factories.user(superuser=True))
    with served() as url, SdkClient(url.removesuffix("/api/v2/"), token, None) as client:
        lines.listen()
        client.whoami()
        client.whoami()
    ids = [each["request_id"] for each in lines.of("reprise.requests")]
    assert len(set(ids)) == 2
    assert all(len(each) == 32 for each in ids)


def test_a_hint_brings_the_request_and_its_time_along() -> None:
    """The message's arguments stay empty: it says when and for whom, never what."""
    sent: list[dict[str, Any]] = []
    came = threading.Event()

    def catch(sender: str, headers: dict[str, Any], body: Any, **_kwargs: Any) -> None:
        if sender == SWEEP:
            sent.append({**headers, "body": body})
            came.set()

    signals.after_task_publish.connect(catch)
    publisher = Publisher()
    with binding(request_id="r2"):
        publisher.hint(1e9, SWEEP)
    assert came.wait(30)
    (hook,) = sent
    assert hook[ORIGIN] == "r2"
    assert isinstance(hook[DUE], float)
    assert hook["body"][:2] == ((), {})
    signals.after_task_publish.disconnect(catch)


@pytest.mark.django_db(transaction=True)
def test_lines_of_a_task_name_it(lines: Lines) -> None:
    from celery import shared_task

    @shared_task(name="tests.says")
    def says() -> None:
        logging.getLogger("tests").info("in it")

    says.apply(task_id="t1")
    (line,) = lines.of("tests")
    assert (line["task"], line["task_id"]) == ("tests.says", "t1")
    assert bound("task") == ""
    clear()


# --- whole processes

BROKEN = """
import logging, sys, threading, warnings
from base.loglines.lines import configuration, configure
configure(configuration("json", "INFO"))
warnings.warn("beware\\nof this")
logging.getLogger("a").error("two\\nlines", extra={"status": 1, "password": "hunter2-planted"})
thread = threading.Thread(target=lambda: 1 / 0, name="one")
thread.start()
thread.join()
raise ValueError("the end")
"""


def test_messages_of_python_itself_are_objects_too() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True)
    warned, logged, thread, end = [json.loads(each) for each in done.stderr.splitlines()]
    assert "beware" in warned["event"]
    assert (logged["event"], logged["status"]) == ("two\nlines", 1)
    assert "password" not in logged
    assert thread["event"] == "the thread one died"
    assert "ZeroDivisionError" in thread["exception"]
    assert (end["level"], end["exception"].splitlines()[-1]) == ("critical", "ValueError: the end")
    assert done.returncode == 1


def test_an_executor_says_everything_in_objects(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET)
    # Nobody answers at this address.
    command = ["-m", "executor", "--name", "one", "--url", "http://127.0.0.1:9"]
    options = ["--token-file", str(token), "--state-dir", str(tmp_path / "state")]
    environ = {**os.environ, "REPRISE_LOG_FORMAT": "json", "REPRISE_ISOLATE_RUNS": "off"}
    with subprocess.Popen(
        [sys.executable, *command, *options], env=environ, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        logged: list[dict[str, Any]] = []
        while not logged or "trying again" not in logged[-1]["event"]:
            logged.append(json.loads(program.stderr.readline()))
        program.terminate()
        logged += [json.loads(each) for each in program.stderr]
    assert program.returncode == 0
    refused = next(each for each in logged if "trying again" in each["event"])
    assert (refused["logger"], refused["level"]) == ("executor.connection", "warning")
    assert len(refused["request_id"]) == 32
    assert logged[-1]["event"] == "stopped"
    assert SECRET not in json.dumps(logged)


def test_a_line_about_a_run_has_its_chain() -> None:
    from reprise_client.wire import LeaseKey

    key, filtered = LeaseKey("s1", 7), RunLines()
    filtered.remember(key, {"environ": {"REPRISE_ROOT_SESSION_ID": "s0"}})  # type: ignore[typeddict-item]
    record = logging.LogRecord("x", logging.INFO, "", 0, "session %s", (key,), None)
    assert filtered.filter(record)
    parsed = json.loads(formatter("json").format(record))
    assert (parsed["session_id"], parsed["root_session_id"], parsed["fencing_token"]) == (
        "s1",
        "s0",
        7,
    )
    filtered.forget(key)
    other = logging.LogRecord("x", logging.INFO, "", 0, "session %s", (key,), None)
    assert filtered.filter(other)
    assert "root_session_id" not in json.loads(formatter("json").format(other))


def test_people_read_a_line() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "gone for %d s", (3,), None)
    record.route = "x/"
    text = formatter("console").format(record)
    assert text.endswith(" WARNING a.b: gone for 3 s route=x/")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "console"),
        ({"REPRISE_PRODUCTION": "1"}, "json"),
        ({"REPRISE_PRODUCTION": "1", "REPRISE_LOG_FORMAT": "console"}, "console"),
        ({"REPRISE_LOG_FORMAT": "json"}, "json"),
    ],
)
def test_the_environment_chooses_the_format(environ: dict[str, str], expected: str) -> None:
    for given, wrong in (read(Environment, environ), read(Agent, environ)):
        assert wanted_format(given.log_format, production=given.production) == expected
        assert wrong == []
    assert configuration(expected, "INFO")["root"]["level"] == "INFO"


def test_another_format_is_refused_in_one_line() -> None:
    environ = {**os.environ, "REPRISE_LOG_FORMAT": "xml", "DATABASE_URL": "none"}
    for command in (["manage.py", "check"], ["-m", "executor", "--help"]):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environ, capture_output=True, text=True
        )
        if "executor" in command:
            assert done.returncode == 0  # to be asked for help it needs no log
        else:
            assert done.stderr == "REPRISE_LOG_FORMAT: 'xml' is not one of json, console\n"


def test_the_manual_names_every_field() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    table = text[text.index("## Logs") :].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name.strip(" `") for row in rows for name in row.split(",")}
    assert documented == ALWAYS | {*FIELDS, "exception"}
