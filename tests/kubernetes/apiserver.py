"""etcd and kube-apiserver as child processes, on free ports, with certificates of their own."""

import base64
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tests.kubernetes.manifests import EXECUTOR_RBAC, documents
from tests.ports import free_port

ADMIN, EXECUTOR = "admin-token", "executor-token"
PATIENCE_SECONDS = 180.0

RBAC = "/apis/rbac.authorization.k8s.io/v1"
EXECUTOR_USER = "system:serviceaccount:reprise-executor:reprise-executor"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "users": [EXECUTOR_USER]}, {"level": "None"}],
}

Object = dict[str, Any]


def binaries() -> Path | None:
    """Return the directory with etcd and kube-apiserver, as envtest has it."""
    named = os.environ.get("KUBEBUILDER_ASSETS")
    found = Path(named) if named else None
    return found if found and (found / "kube-apiserver").exists() else None


class ApiServer:
    """One cluster without nodes. `ADMIN` may do everything; `EXECUTOR` is the token of the service
    account that deploy/kubernetes gives rights. What it does is in the file `audit`."""

    def __init__(self, directory: Path, assets: Path, *more: str):
        """`more` are further flags of the API server."""
        self._assets = assets
        self._more = more
        self.directory = directory
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self._etcd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / "server.crt"
        self.audit = directory / "audit.log"
        make_certificate(directory, "server")
        (directory / "tokens.csv").write_text(
            f'{ADMIN},admin,1,"system:masters"\n{EXECUTOR},{EXECUTOR_USER},2,""\n'
        )
        (directory / "audit.json").write_text(json.dumps(AUDIT_POLICY))
        self.audit.touch()
        self._context = ssl.create_default_context(cafile=str(self.certificate))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def pids(self) -> dict[str, int]:
        """Of the processes that run."""
        found = {"etcd": self._etcd, "kube-apiserver": self._server}
        return {name: process.pid for name, process in found.items() if process is not None}

    def start(self) -> None:
        if self._etcd is None:
            self._etcd = self._spawn("etcd", *self._etcd_flags())
        self._server = self._spawn("kube-apiserver", *self._server_flags())
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._ready():
            assert self._server.poll() is None, self._log("kube-apiserver")
            assert time.monotonic() < deadline, self._log("kube-apiserver")
            time.sleep(0.1)

    def stop_server(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Only the API server goes; etcd keeps what there is. `start` brings it back."""
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait()
            self._server = None

    def stop(self) -> None:
        self.stop_server()
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
            self._etcd = None

    def kubeconfig(self, name: str, token: str, server: str = "") -> Path:
        """A kubeconfig whose token is in a file of its own, so that it can be rotated."""
        token_file = self.directory / f"{name}.token"
        token_file.write_text(token)
        return self._kubeconfig(name, {"tokenFile": str(token_file)}, server)

    def _kubeconfig(self, name: str, user: Mapping[str, str], server: str) -> Path:
        authority = base64.b64encode(self.certificate.read_bytes()).decode()
        path = self.directory / f"{name}.kubeconfig"
        cluster = {"server": server or self.url, "certificate-authority-data": authority}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "test",
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": "test", "user": dict(user)}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                }
            )
        )
        return path

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "") -> Object:
        """One request as the admin; the answer. Raises `urllib.error.HTTPError`."""
        kind = kind or "application/json"
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
            parsed: Object = json.load(answer)
        return parsed

    def ensure(self, path: str, body: Object) -> None:
        """Creates what is not there yet."""
        try:
            self.call("POST", path, body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def namespace(self, name: str) -> None:
        """A namespace in which the executor may make pods."""
        self.ensure("/api/v1/namespaces", {"metadata": {"name": name}})
        (binding,) = documents("project/rbac.yaml")
        body = {**binding, "metadata": {"name": binding["metadata"]["name"]}}
        self.ensure(f"{RBAC}/namespaces/{name}/rolebindings", body)

    def grant_executor(self, manifest: str = EXECUTOR_RBAC) -> None:
        """The rights of a file of deploy/kubernetes in all namespaces, as it says them."""
        for path, body in _cluster_wide(manifest):
            self.ensure(path, body)

    def revoke_executor(self, manifest: str = EXECUTOR_RBAC) -> None:
        for path, body in _cluster_wide(manifest):
            self.call("DELETE", f"{path}/{body['metadata']['name']}")

    def pods(self, namespace: str = "") -> list[Object]:
        where = f"/namespaces/{namespace}" if namespace else ""
        items: list[Object] = self.call("GET", f"/api/v1{where}/pods")["items"]
        return items

    def compact(self) -> None:
        """Makes etcd forget the past, so that a watch from there is a 410."""
        revision = self._ask_etcd("maintenance/status", {})["header"]["revision"]
        self._ask_etcd("kv/compaction", {"revision": revision, "physical": True})

    def _ask_etcd(self, verb: str, body: Object) -> Object:
        url = f"http://127.0.0.1:{self._etcd_port}/v3/{verb}"
        request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            parsed: Object = json.load(answer)
        return parsed

    def _ready(self) -> bool:
        try:
            self.call("GET", "/api/v1/namespaces/default")
            # Without it a session that names no priority class is refused.
            self.call("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical")
        except OSError:
            return False
        return True

    def _spawn(self, program: str, *flags: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{program}.log").open("ab") as log:
            return subprocess.Popen(
                [self._assets / program, *flags], stdout=log, stderr=log, cwd=self.directory
            )

    def _log(self, program: str) -> str:
        return (self.directory / f"{program}.log").read_text(errors="replace")[-4000:]

    def _etcd_flags(self) -> list[str]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        return [
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def _server_flags(self) -> list[str]:
        key = self.directory / "server.key"
        return [
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory}",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={key}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            f"--audit-policy-file={self.directory / 'audit.json'}",
            f"--audit-log-path={self.audit}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--kubelet-preferred-address-types=InternalIP",
            *self._more,
        ]


def make_certificate(directory: Path, name: str) -> Path:
    """One that signs itself, and its key beside it."""
    certificate = directory / f"{name}.crt"
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
        *("-keyout", str(certificate.with_suffix(".key")), "-out", str(certificate)),
        *("-subj", "/CN=reprise-test", "-addext", "subjectAltName=IP:127.0.0.1"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return certificate


def _cluster_wide(manifest: str) -> Iterator[tuple[str, Object]]:
    for body in documents(manifest):
        if body["kind"].startswith("ClusterRole"):
            yield f"{RBAC}/{body['kind'].lower()}s", body


def free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)
