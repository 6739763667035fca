"""`/metrics` of a server that has done some of everything, and whoever relies on what it says."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.urls import get_resolver
from prometheus_client.parser import text_string_to_metric_families

from reprise.beat.periodic import run_log
from reprise.models import Heartbeat
from reprise.standalone.workers import Worker
from sessions_app.instruments import TASK_RUNS, registry
from sessions_app.models import Project
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.tasks import sweep_webhooks
from sessions_app.webhooks.endpoints import webhook_create
from sessions_app.webhooks.url_guard import Guard
from tests import factories, observability
from tests.agent import agent
from tests.observability import DASHBOARD, ROOT, RULES, Exposed, expressions, faults
from tests.receiver import receiving
from tests.streaming import EventReader, served
from tests.waiting import PATIENCE_SECONDS

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


def value(name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


SOON = {"jitter": "none", "retry_delay": 1e-6}


def chains(at: Project) -> None:
    """One that ends well after a retry, one that uses its budget up."""
    rule = {"name": "oom", "action": "Retry", "onConditions": ["OOMKilled"]}
    factories.named_policy("careful", rules=[rule], retryLimit=1)
    for last in (0, 137):
        first = factories.start(factories.submit(at, retry_policies=["careful"], retry_policy=SOON))
        factories.settle(first, reason="OOMKilled", exit_code=137)
        while retries_dispatch().dispatched == 0:
            pass
        child = factories.start(factories.tip(first))
        if last:
            factories.settle(child, reason="OOMKilled", exit_code=137)
        else:
            factories.settle(child, status="terminated", exit_code=0)


CALLS = {"door": "rest", "route": "api/v2/sessions/<uuid:session_id>/", "method": "GET"}


@pytest.fixture
def scrape(at: Project, transactional_db: None, settings: Any) -> str:
    """Return what a server exposes after a bit of each kind of work."""
    settings.WEBHOOK_GUARD = Guard.of(["127.0.0.0/8"], [], http=True)
    chains(at)
    agent("one").lease()
    run_log.record("sweep", time.time(), 0.1, error="as an example")
    token = factories.token(factories.user(superuser=True))
    session = factories.submit(at, job_set="night")
    with served() as url, receiving() as receiver:
        webhook_create(project=at, url=receiver.url, event_types=(), description="", by="root")
        factories.settle(factories.start(factories.submit(at)))
        worker = Worker()
        worker.start()
        sweep_webhooks.delay()
        reader = EventReader(f"{url}job-sets/night/events/?project={at.address}", token)
        assert reader.begun.wait(PATIENCE_SECONDS)
        with httpx.Client(
            headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
        ) as client:
            assert client.get(f"{url}sessions/{session.pk}/").status_code == 200
            door = url.replace("/api/v2/", "/graphql/")
            assert client.post(door, json={"query": "{ no }"}).status_code == 400
            deadline = time.monotonic() + 60
            while not (
                Heartbeat.objects.filter(part="worker").exists()
                and value("reprise_webhook_attempts_total", outcome="delivered")
                and value(
                    "reprise_task_runs_total",
                    task="sessions_app.tasks.sweep_webhooks",
                    outcome="succeeded",
                )
            ):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            answer = client.get(url.replace("/api/v2/", "/metrics"))
        worker.stop()
        reader.leave()
    assert answer.status_code == 200
    return str(answer.text)


@pytest.mark.django_db(transaction=True)
def test_documented_metrics_are_exposed(scrape: str) -> None:
    there = observability.exposed(scrape)
    wrong = {place: faults(each, there) for place, each in expressions().items()}
    assert {place: found for place, found in wrong.items() if found} == {}
    # The manual's table is what there is, no more and no less.
    documented = {
        name: (kind, set(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in re.findall(
            r"^\| `(reprise_\w+)` \| (\w+) \|(.*?)\| (?:database|process) \|",
            OPERATIONS,
            re.MULTILINE,
        )
    }
    assert documented == dict(described(scrape))


def described(text: str) -> Iterator[tuple[str, tuple[str, set[str]]]]:
    """Each family as the manual tells of it."""
    for family in text_string_to_metric_families(text):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        yield name, (family.type, labels)


@pytest.mark.django_db(transaction=True)
def test_retries_are_told_by_the_names_of_the_contract(scrape: str) -> None:
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
        if "_session_retry_" in sample.name
    }
    cause = ("cause", "oom_killed")
    assert found[("reprise_session_retry_scheduled_total", cause)] == 2
    assert found[("reprise_session_retry_exhausted_total", cause)] == 1
    assert found[("reprise_session_retry_succeeded_total",)] == 1
    by_rule = ("policy", "careful"), ("reason", "rule_retry"), ("rule", "oom")
    assert found[("reprise_session_retry_decisions_total", *by_rule)] == 2, found


def test_a_missing_metric_is_noticed() -> None:
    there: Exposed = {"a_total": {"x"}}
    assert faults("sum by (x) (rate(a_total{x=~'1'}[5m]))", there) == []
    assert faults("max(b_total) / max(a_total)", there) == ["there is no b_total"]
    assert faults("a_total{y='1'} unless on (x) a_total", there) == ["a_total has no y"]
    assert faults("histogram_quantile(0.9, sum by (z) (a_total))", there) == ["no metric has z"]
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        faults("sum(rate(a_total[5m])", there)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_each_alarm_says_what_to_do_and_where_it_is_told(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    annotations = rule["annotations"]
    assert annotations["summary"]
    assert annotations["description"].endswith(".")
    file, _, anchor = annotations["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / file).read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
    assert not anchor or anchor in anchors, annotations["runbook"]
    assert f"`{rule['alert']}`" in OPERATIONS


def test_the_dashboard_can_be_imported() -> None:
    assert [each["name"] for each in DASHBOARD["__inputs"]] == ["DS_PROMETHEUS"]
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in DASHBOARD["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${DS_PROMETHEUS}"


def test_the_dashboard_shows_what_alarms_look_at() -> None:
    of_alarms: set[str] = set()
    of_panels: set[str] = set()
    for place, expression in expressions().items():
        names = set(re.findall(r"\breprise_\w+", expression))
        if place.startswith("rule "):
            of_alarms |= names
        elif place.startswith("panel "):
            of_panels |= names
    assert len(of_alarms) > 20
    assert of_alarms - of_panels == set()


def test_no_panel_covers_another() -> None:
    covered: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        rows = range(at["y"], at["y"] + at["h"])
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in rows}
        assert not covered & cells, panel["title"]
        covered |= cells


# --- calls


@pytest.mark.django_db(transaction=True)
def test_calls_are_counted_by_the_template_of_their_address(client: Any, at: Project) -> None:
    token = factories.token(factories.user(superuser=True))
    headers = {"Authorization": f"Bearer {token}"}
    session = factories.submit(at)
    cases = [
        ("GET", f"/api/v2/sessions/{session.pk}/", headers, CALLS, "200"),
        ("GET", f"/api/v2/sessions/{session.pk}/", {}, CALLS, "401"),
        ("GET", "/api/v2/no/such/place/", headers, place("none", "none"), "404"),
        ("GET", "/\x00x", headers, place("none", "none"), "404"),
        ("BREW", "/api/v2/sessions/", headers, place("rest", "api/v2/sessions/", "other"), "405"),
        ("GET", "/admin/", {}, place("admin", "admin/"), "302"),
        ("GET", "/login/", {}, place("web", "login/"), "200"),
        ("GET", "/healthz", {"Host": "10.1.2.3:8000"}, place("operations", "healthz"), "200"),
        ("GET", "/static/reprise/favicon.svg", {}, place("static", "static"), "200"),
    ]
    for method, path, sent, labels, status in cases:
        before = value("reprise_http_requests_total", status=status, **labels)
        timed = value("reprise_http_request_duration_seconds_count", **labels)
        answer = client.generic(method, path, headers=sent)
        assert str(answer.status_code) == status, (path, answer)
        assert value("reprise_http_requests_total", status=status, **labels) == before + 1, path
        assert value("reprise_http_request_duration_seconds_count", **labels) == timed + 1
        answer.close()


def place(door: str, route: str, method: str = "GET") -> dict[str, str]:
    return {"door": door, "route": route, "method": method}


@pytest.mark.django_db(transaction=True)
def test_no_other_name_is_answered(client: Any) -> None:
    """Only what asks processes by their address is told whatever name it uses."""
    for path, status in (("/metrics", 401), ("/login/", 400), ("/api/v2/sessions/", 400)):
        assert client.get(path, headers={"Host": "10.1.2.3"}).status_code == status


def test_routes_are_a_bounded_set() -> None:
    """The labels are known beforehand, whatever is asked for."""
    routes = [str(each.pattern) for each in get_resolver().url_patterns]
    assert len(routes) < 50
    assert not any("%" in each for each in routes)


@pytest.mark.django_db(transaction=True)
def test_a_stream_is_one_call_and_lasts_until_its_beginning(at: Project) -> None:
    token = factories.token(factories.user(superuser=True))
    session = factories.submit(at)
    labels = {**CALLS, "route": "api/v2/sessions/<uuid:session_id>/events/"}
    before = value("reprise_http_requests_total", status="200", **labels)
    held = value("reprise_http_held", kind="events")
    with served() as url:
        reader = EventReader(f"{url}sessions/{session.pk}/events/", token)
        reader.wait(lambda each: len(each.events) > 0)
        assert value("reprise_http_requests_total", status="200", **labels) == before + 1
        assert value("reprise_http_held", kind="events") == held + 1
        factories.settle(factories.start(session))
        assert reader.ended.wait(PATIENCE_SECONDS)
    assert value("reprise_http_held", kind="events") == held


# --- several processes

FAMILY = """
import os, signal, sys, urllib.error, urllib.request
from reprise import shared_metrics
shared_metrics.share()
from sessions_app.instruments import HELD, REQUESTS, TASK_SECONDS_TAKEN
from reprise.worker.metrics_port import serve

def count(times):
    REQUESTS.labels("rest", "r", "GET", "200").inc(times)
    TASK_SECONDS_TAKEN.labels("t").observe(0.2)
    HELD.labels("log").inc(times)

count(1)
server = serve(0, "a token")
url = f"http://127.0.0.1:{server.server_port}"
ready, go = os.pipe(), os.pipe()
children = []
for times in (10, 100):
    if (child := os.fork()) == 0:
        count(times)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    children.append(child)
for _ in children:
    os.read(ready[0], 1)

def ask(path="/metrics", token="a token"):
    wanted = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {token}"})
    try:
        return urllib.request.urlopen(wanted, timeout=50).read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)

def say():
    lines = [line for line in ask().splitlines() if line.startswith("reprise")]
    print([line.rpartition(" ")[2] for line in sorted(lines)
           if "requests_total" in line or "seconds_count" in line or "held" in line])

say()
os.kill(children[1], signal.SIGKILL)
os.waitpid(children[1], 0)
say()
print(ask(token="another"), ask("/elsewhere"))
os.write(go[1], b"x")
os.waitpid(children[0], 0)
shared_metrics.share()  # as gunicorn does at SIGHUP
say()
"""


@pytest.mark.parametrize("named", [True, False])
def test_a_family_counts_together_and_its_dead_stay_counted(tmp_path: Path, named: bool) -> None:
    old = tmp_path / "counter_1.db"
    old.write_bytes(b"of a life before")
    environ = {"TMPDIR": str(tmp_path)} | ({"REPRISE_METRICS_DIR": str(tmp_path)} if named else {})
    done = subprocess.run(
        [sys.executable, "-c", FAMILY],
        env={**os.environ, "DATABASE_URL": "none", **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.splitlines() == [
        "['111.0', '111.0', '3.0']",
        "['11.0', '111.0', '3.0']",
        "401 404",
        "['1.0', '111.0', '3.0']",
    ], done.stderr
    # A directory of its own goes with it.
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []
    assert old.exists() is not named


@pytest.mark.django_db(transaction=True)
def test_a_task_that_fails_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from celery import shared_task

    import reprise.worker.task_log  # noqa: F401  # a worker imports it

    @shared_task(name="tests.fails")
    def fails() -> None:
        raise RuntimeError("as an example")

    before = TASK_RUNS.labels("tests.fails", "failed")._value.get()
    fails.apply()
    assert TASK_RUNS.labels("tests.fails", "failed")._value.get() == before + 1
    assert value("reprise_task_duration_seconds_count", task="tests.fails") >= 1
