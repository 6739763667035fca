"""deploy/kubernetes: what it says is what the code, docker-compose and the manual say."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from django.urls import resolve

from base.variables.reading import declared, read
from executor import config
from executor.state import StateDir
from reprise.environment import Environment
from reprise.production import problems
from tests.acceptance.compose import instructions, interpolated
from tests.acceptance.running import Program
from tests.conftest import unavailable
from tests.kubernetes.apiserver import free_ports
from tests.kubernetes.manifests import (
    EXECUTOR_RBAC,
    MANIFESTS,
    ROOT,
    Object,
    documents,
    granted,
    kustomizations,
    objects,
    pods_of,
    rendered,
)
from tests.kubernetes.pod_security import restricted_problems
from tests.waiting import until

OURS = ("executor", "server")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
PARTS = ("migrate", "web", "front", "worker", "worker-background", "beat", "ingress")
README = (MANIFESTS / "README.md").read_text()


def pod(name: str) -> Object:
    """The pod of one of the workloads."""
    found = {each["metadata"]["name"]: each for path in OURS for each in pods_of(rendered(path))}
    return found[name]


def main(name: str) -> Object:
    (container,) = pod(name)["spec"]["containers"]
    return dict(container)


def settings(path: str, name: str) -> dict[str, str]:
    """Return the data of the ConfigMap of this name, whatever hash its name ends with."""
    found = objects(path, "ConfigMap")
    (full,) = (each for each in found if each.rpartition("-")[0] == name)
    return dict(found[full]["data"])


@pytest.mark.parametrize("path", kustomizations())
def test_every_object_has_a_place_and_no_secret(path: str) -> None:
    names = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in rendered(path)
    ]
    assert len(set(names)) == len(names)
    for kind, namespace, name in names:
        assert kind != "Secret"
        assert (namespace is None) == (kind in {"Namespace", "ClusterRole", "ClusterRoleBinding"})
        assert namespace or name.startswith("reprise")


@pytest.mark.parametrize("name", ["executor", *PARTS])
def test_our_pods_may_do_little(name: str) -> None:
    spec = pod(name)["spec"]
    assert restricted_problems(spec) == []
    assert spec["automountServiceAccountToken"] is (name == "executor")
    assert spec["enableServiceLinks"] is False
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
    for volume in spec["volumes"]:
        assert volume.get("emptyDir", {"sizeLimit": "0"}).keys() == {"sizeLimit"}


@pytest.mark.parametrize("path", OURS)
def test_namespaces_enforce_that(path: str) -> None:
    (namespace,) = objects(path, "Namespace").values()
    labels = namespace["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for each in rendered(path):
        assert each["metadata"].get("namespace") in {None, namespace["metadata"]["name"]}


@pytest.mark.parametrize("name", ["executor", *PARTS])
def test_all_that_stays_says_how_it_is(name: str) -> None:
    container = main(name)
    assert ("readinessProbe" in container) is (name != "migrate")
    assert ("livenessProbe" in container) is (name != "migrate")
    # As docker-compose has it, and the time before the signal on top.
    stop = int(COMPOSE[name].get("stop_grace_period", "0s")[:-1])
    grace = pod(name)["spec"].get("terminationGracePeriodSeconds", 30)
    before = container.get("lifecycle", {}).get("preStop", {"exec": {"command": ["sleep", "0"]}})
    assert grace >= stop + int(before["exec"]["command"][1])


@pytest.mark.parametrize("name", PARTS)
def test_commands_are_those_of_compose(name: str) -> None:
    assert main(name)["command"] == COMPOSE[name]["command"]
    given = {each["name"]: each.get("value") for each in main(name).get("env", ())}
    assert given.get("PGOPTIONS") == COMPOSE[name]["environment"].get("PGOPTIONS")


@pytest.mark.parametrize("name", PARTS)
def test_memory_is_limited_as_by_compose(name: str) -> None:
    limit = main(name)["resources"]["limits"]["memory"]
    assert limit.lower().removesuffix("i") == interpolated(COMPOSE[name]["mem_limit"], {})


@pytest.mark.parametrize("name", [name for name in PARTS if name not in {"migrate", "ingress"}])
def test_nothing_starts_before_the_migrations(name: str) -> None:
    (first,) = pod(name)["spec"]["initContainers"]
    assert "manage.py migrate --check;" in first["command"][-1]
    assert (first["image"], first["envFrom"]) == (main(name)["image"], main(name)["envFrom"])


@pytest.mark.parametrize("name", ["worker", "worker-background", "beat"])
def test_heartbeats_are_asked_as_by_compose(name: str) -> None:
    _, *check = interpolated(COMPOSE[name]["healthcheck"]["test"], {})
    command = main(name)["readinessProbe"]["exec"]["command"]
    assert command == (check if len(check) > 1 else ["sh", "-c", *check])
    assert main(name)["livenessProbe"]["exec"]["command"] == command


@pytest.mark.parametrize("name", ["web", "front"])
def test_health_is_asked_where_it_is_told(name: str) -> None:
    container = main(name)
    (port,) = container["ports"]
    assert str(port["containerPort"]) in " ".join(container["command"]).replace(":", " ").split()
    allowed = settings("server", "settings")["REPRISE_ALLOWED_HOSTS"].split(",")
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        asked = container[probe]["httpGet"]
        assert resolve(asked["path"].split("?")[0]).route == path[1:]
        assert asked["path"].startswith(path)
        assert asked["port"] == port["name"]
        (host,) = asked["httpHeaders"]
        assert host["name"] == "Host"
        assert host["value"] in allowed
    (service,) = (objects("server", "Service")[name]["spec"],)
    assert service["ports"][0]["port"] == port["containerPort"]
    assert f"{name}:{port['containerPort']}" in settings("server", "caddyfile")["Caddyfile"]


def test_every_setting_exists() -> None:
    known = {each.name for each in declared(Environment)}
    caddy = set(re.findall(r"\{\$(\w+)", settings("server", "caddyfile")["Caddyfile"]))
    given = settings("server", "settings")
    assert given.keys() <= known | caddy
    assert read(Environment, given)[1] == []
    env = {each["name"] for each in main("ingress")["env"]}
    assert env - caddy == {"GOMEMLIMIT", "XDG_DATA_HOME", "XDG_CONFIG_HOME"}
    assert caddy - env == {"HEALTH_PORT"}


def test_the_documented_secret_is_all_that_is_missing() -> None:
    """As made by the commands of the README."""
    block = next(each for each in _blocks() if "REPRISE_SECRET_KEY" in each)
    keys = re.findall(r"^ *echo \"?([A-Z_]+)=", block, re.MULTILINE)
    assert "create secret generic reprise " in block
    filled = {
        **dict.fromkeys(keys, "x" * 40),
        "BROKER_URL": "amqp://x",
        **settings("server", "settings"),
    }
    assert problems(filled) == []
    for key in keys:
        assert problems({**filled, key: ""}) != []


def _blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


def test_the_executor_understands_its_options(tmp_path: Path) -> None:
    container = main("executor")
    given = settings("executor", "executor")
    args = [
        re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], word) for word in container["args"]
    ]
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    (tmp_path / "token").write_text("secret")
    local = [word.replace(mounted["token"], str(tmp_path)) for word in args]
    parsed = config.parse(local, {})
    assert parsed.name == given["EXECUTOR_NAME"]
    assert parsed.token == "secret"
    assert parsed.pods.in_cluster
    assert str(parsed.state_dir) == mounted["state"]
    assert container["command"] == ["python", "-m", "executor"]

    with_namespaces = next(
        each["value"]
        for patch in documents("components/create-namespaces/kustomization.yaml")[0]["patches"]
        for each in yaml.safe_load(patch["patch"])
    )
    assert config.parse([*local, with_namespaces], {}).pods.create_namespaces


def test_the_executors_probes_look_where_it_writes(tmp_path: Path) -> None:
    container = main("executor")
    state = StateDir(tmp_path)
    probes = {
        "livenessProbe": (state.note_turn, "turned"),
        "readinessProbe": (state.note_answer, "answered"),
    }
    for name, (write, file) in probes.items():
        command = [
            word.replace("/var/lib/reprise/executor", str(tmp_path))
            for word in container[name]["exec"]["command"]
        ]
        assert subprocess.run(command, capture_output=True).returncode != 0
        write()
        assert subprocess.run(command, capture_output=True).returncode == 0
        os.utime(tmp_path / file, (0, 0))
        assert subprocess.run(command, capture_output=True).returncode != 0
    state._lock.close()


def test_there_is_one_executor_at_a_time() -> None:
    for path, name in (("executor", "executor"), ("server", "beat")):
        spec = objects(path, "Deployment")[name]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_manual_has_the_executors_rights() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    table = text[text.index("## What it needs") :].split("\n## ")[0]
    documented = {
        (place, resource, verb)
        for resource, verbs, place in re.findall(
            r"^\| `(.+?)` \| (.+?) \| (.+?) \|", table, re.MULTILINE
        )
        for verb in verbs.split(", ")
    }
    places = {"reprise-executor": "all", "reprise-executor-sessions": "projects"}
    assert documented == {(places[role], *right) for role, *right in granted(EXECUTOR_RBAC)}


def test_pods_named_in_a_rule_exist() -> None:
    """Components and ports of the network policies are those of pods."""
    ports = {
        (each["metadata"]["labels"]["app.kubernetes.io/component"], port["containerPort"])
        for each in pods_of(rendered("server"))
        for container in each["spec"]["containers"]
        for port in container.get("ports", ())
    }
    opened = set()
    for policy in objects("server", "NetworkPolicy").values():
        component = policy["spec"]["podSelector"].get("matchLabels", {}).values()
        for rule in policy["spec"].get("ingress", ()):
            opened |= {(*component, port["port"]) for port in rule["ports"]}
    assert opened == ports


def _may(path: str, way: str, labels: dict[str, str], other: tuple[str, str], port: int) -> bool:
    """Return whether the network policies of a kustomization let a pod with these labels talk this
    way (`ingress` or `egress`) with pods of a namespace and a component, on a port of a pod."""
    namespace, component = other
    for policy in objects(path, "NetworkPolicy").values():
        selector = policy["spec"]["podSelector"].get("matchLabels", {})
        if not selector.items() <= labels.items():
            continue
        for rule in policy["spec"].get(way, ()):
            ports = {each["port"] for each in rule.get("ports", ())}
            peers = rule.get("from" if way == "ingress" else "to", [{}])
            named = [
                not each
                or (
                    each.get("namespaceSelector", {}).get("matchLabels", {})
                    == {"kubernetes.io/metadata.name": namespace}
                    and each["podSelector"]["matchLabels"].get(COMPONENT) == component
                )
                for each in peers
            ]
            if any(named) and (not ports or port in ports):
                return True
    return False


COMPONENT = "app.kubernetes.io/component"


def test_server_and_executor_of_one_cluster_may_talk() -> None:
    url = settings("example/one-cluster/executor", "executor")["REPRISE_URL"]
    assert url == "http://ingress.reprise.svc"
    (service,) = (each for name, each in objects("server", "Service").items() if name == "ingress")
    (port,) = service["spec"]["ports"]
    assert port["port"] == 80
    (pods,) = (each for each in main("ingress")["ports"] if each["name"] == port["targetPort"])
    number = pods["containerPort"]
    executor, ingress = {COMPONENT: "executor"}, {COMPONENT: "ingress"}
    for path, may in (("example/executor", False), ("example/one-cluster/executor", True)):
        assert _may(path, "egress", executor, ("reprise", "ingress"), number) is may
        assert not _may(path, "egress", executor, ("reprise", "web"), 8000)
        assert _may(path, "egress", executor, ("kube-system", "dns"), 53)
    server = "example/one-cluster/server"
    assert _may(server, "ingress", ingress, ("reprise-executor", "executor"), number)
    allowed = settings(server, "settings")["REPRISE_ALLOWED_HOSTS"].split(",")
    assert {"reprise.example.org", "ingress.reprise.svc"} <= {*allowed}


@pytest.mark.parametrize("proxy", ["example/one-cluster/server"], indirect=True)
def test_the_proxy_answers_executors_of_the_same_cluster(proxy: str) -> None:
    assert _answer(proxy, Host="ingress.reprise.svc") == b"http"


@pytest.fixture
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The proxy as the manifests start it, before something that answers with the scheme that it
    was told; its address. The parameter is the path of a kustomization."""
    path = getattr(request, "param", "server")
    caddy = Path(sys.executable).with_name("caddy")
    if not caddy.exists():
        unavailable("no caddy for this machine in the development tools")
    echo = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    Thread(target=echo.serve_forever, daemon=True).start()
    ports = [str(each) for each in free_ports(3)]
    data = settings("server", "caddyfile")["Caddyfile"]
    (tmp_path / "Caddyfile").write_text(data.replace("web:8000", f"127.0.0.1:{echo.server_port}"))
    (container,) = (
        each["spec"]["containers"][0]
        for each in pods_of(rendered(path))
        if each["metadata"]["labels"][COMPONENT] == "ingress"
    )
    given = {each["name"]: each.get("value") for each in container["env"]}
    hosts = str(given["REPRISE_HOST"] or "reprise.example.org")
    given["REPRISE_HOST"] = hosts.replace("$(PUBLIC_HOST)", "reprise.example.org")
    given |= {"XDG_DATA_HOME": str(tmp_path)}
    given |= {"XDG_CONFIG_HOME": str(tmp_path)}
    given |= dict(zip(("HTTP_PORT", "HTTPS_PORT", "HEALTH_PORT"), ports, strict=True))
    words = [word.replace("/etc/caddy", str(tmp_path)) for word in container["command"]]
    assert words.pop(0) == "caddy"
    program = Program([str(caddy), *words], **{key: str(value) for key, value in given.items()})
    url = f"http://127.0.0.1:{ports[0]}/healthz"
    until(lambda: _answer(url) is not None or not program.alive)
    yield url
    program.kill()
    echo.shutdown()
    echo.server_close()


class _Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["X-Forwarded-Proto"].encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def _answer(url: str, **headers: str) -> bytes | None:
    try:
        asked = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return bytes(answer.read())
    except OSError:
        return None


@pytest.mark.parametrize("proxy", ["server", "example/one-cluster/server"], indirect=True)
def test_the_proxy_believes_the_clusters_entrance(proxy: str) -> None:
    """And answers probes by itself, which ask by the address of the pod."""
    assert _answer(proxy) == b""
    come_by = {"Host": "reprise.example.org", "X-Forwarded-Proto": "https"}
    assert _answer(proxy, **come_by) == b"https"
    for probe in ("livenessProbe", "readinessProbe"):
        assert main("ingress")[probe]["httpGet"] == {"path": "/healthz", "port": "http"}


def test_the_example_names_one_host() -> None:
    given = settings("example/server", "settings")
    host = given["REPRISE_HOST"]
    assert given["REPRISE_ALLOWED_HOSTS"].split(",")[0] == host
    (ingress,) = objects("example/server", "Ingress").values()
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert rule["host"] == host == ingress["spec"]["tls"][0]["hosts"][0]
    assert path["backend"]["service"]["name"] in objects("example/server", "Service")
    assert settings("example/executor", "executor")["REPRISE_URL"] == f"https://{host}"


def test_the_image_is_the_user_that_the_pods_are() -> None:
    steps = instructions((ROOT / "Dockerfile").read_text())
    made = next(rest for name, rest in steps if "useradd" in rest)
    for name in ("executor", "web", "migrate"):
        context = pod(name)["spec"]["securityContext"]
        assert f"--uid {context['runAsUser']} --gid {context['runAsGroup']}" in made
        assert ("USER", str(context["runAsUser"])) in steps
