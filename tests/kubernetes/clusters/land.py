"""Reprise, two clusters, and executors beside them, each of which can be lost in its own way."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reprise_client import Attempt, Client

from tests.acceptance.running import ROOT, Program, Standalone, clean_environ
from tests.faults.proxy import Proxy
from tests.kubernetes.agent import path_of
from tests.kubernetes.apiserver import EXECUTOR, ApiServer
from tests.waiting import PATIENCE_SECONDS, until

NAMESPACE = "reprise-default--default"
PATCH = "application/strategic-merge-patch+json"
TIMES = {
    "REPRISE_LEASE_TTL": "15",
    "REPRISE_LEASE_GRACE": "4",
    "REPRISE_UNCONFIRMED_AFTER": "2",
    "REPRISE_EXECUTOR_STALE_AFTER": "6",
}
"""Seconds: leases that end within a test, though not before an agent on a busy machine renews."""
# As an operator may: what is lost is looked for every second.
HURRY = """
import django
django.setup()
from django_celery_beat.models import IntervalSchedule, PeriodicTask
second, _ = IntervalSchedule.objects.get_or_create(every=1, period=IntervalSchedule.SECONDS)
for task in PeriodicTask.objects.filter(name__in=["expire leases", "sweep due retries"]):
    task.interval = second
    task.save()
"""
BEATS = """
beat() {
    echo "$REPRISE_ROOT_SESSION_ID $REPRISE_ATTEMPT $REPRISE_RANK $(date +%s.%N)" >> "$STAMPS"
}
beats() { while :; do beat; sleep 0.2; done; }
"""
"""For scripts: a run that calls `beats` writes down all the time that it lives."""

Object = dict[str, Any]


class Site:
    """One executor: an agent beside `api`, and the network between it and the server."""

    def __init__(
        self, name: str, server: Standalone, api: ApiServer, directory: Path, *options: str
    ):
        self.name = name
        self.api = api
        self.proxy = Proxy([urlsplit(server.credentials["url"]).port or 0])
        self._token = server.client.executor_create(name).token
        server.client.executor_cordon(name, "not yet")
        api.grant_executor()
        api.namespace(NAMESPACE)
        self._command = [
            *(sys.executable, "-m", "executor", "--name", name, "--driver", "kubernetes"),
            *("--url", self.proxy.url, "--state-dir", str(directory / name)),
            *("--kubeconfig", str(api.kubeconfig(name, EXECUTOR)), "--relist-seconds", "2"),
            *("--max-sessions", "200", *options),
        ]
        self.agent: Program

    def start(self, **environ: str) -> None:
        self.agent = Program(self._command, REPRISE_EXECUTOR_TOKEN=self._token or "", **environ)

    def close(self) -> None:
        self.agent.kill()
        self.proxy.close()

    def pods(self, session: str = "") -> list[Object]:
        """Those of one session by rank, or all that it has made."""
        return [pod for pod in self._mine() if not session or _label(pod, "session") == session]

    def _mine(self) -> list[Object]:
        found = self.api.pods(NAMESPACE)
        mine = [pod for pod in found if _label(pod, "executor") == self.name]
        return sorted(mine, key=lambda pod: _label(pod, "rank"))

    def set_status(self, pod: Object, **status: Any) -> None:
        """As a kubelet or a controller would."""
        self.api.call("PATCH", f"{path_of(pod)}/status", {"status": status}, kind=PATCH)


class Land:
    """The server, the sites by name, and a file in which runs write down that they live."""

    def __init__(self, server: Standalone, directory: Path):
        self.server = server
        self.sites: dict[str, Site] = {}
        self._directory = directory
        self._stamps = directory / "stamps"
        self._stamps.touch()

    @property
    def client(self) -> Client:
        return self.server.client

    def add(self, name: str, api: ApiServer, *options: str) -> Site:
        """An executor that takes nothing yet, with its agent."""
        site = self.sites[name] = Site(name, self.server, api, self._directory, *options)
        site.start()
        until(lambda: self.client.executor(name).nodes, f"{name} tells of its nodes")
        return site

    @contextmanager
    def open(self, *names: str) -> Iterator[None]:
        """Only these take work."""
        for name in names:
            self.client.executor_uncordon(name)
        yield
        for name in names:
            self.client.executor_cordon(name, "closed")

    def submit(self, script: str, count: int = 1, **fields: Any) -> list[str]:
        """Sessions of shell scripts, which may call what `BEATS` defines; their ids."""
        policy = {"jitter": "none", "retry_delay": 0.2, **fields.pop("policy", {})}
        body = {
            "image": "any",
            "command": ["sh", "-c", BEATS + script],
            "environ": {"STAMPS": str(self._stamps)},
            "retry_policy": policy,
            **fields,
        }
        made = self.client.sessions_create([body] * count)
        assert not any(each.problem for each in made), made
        return [each.session_id for each in made if each.session_id]

    def wait_for_status(self, sessions: Sequence[str], *statuses: str) -> None:
        for each in sessions:
            until(
                partial(self._has_reached, each, statuses),
                f"{each} is one of {statuses}",
                2 * PATIENCE_SECONDS,  # several agents start on a busy machine
            )

    def _has_reached(self, session: str, statuses: Sequence[str]) -> bool:
        return self.client.session(session).status in statuses

    def tip(self, root: str) -> Attempt:
        """The last attempt of a chain."""
        return self.client.attempts(root)[-1]

    def lives(self, root: str) -> dict[int, tuple[float, float]]:
        """When the first and the last sign of each attempt of a chain was written."""
        text = [line.split() for line in self._stamps.read_text().splitlines()]
        signs = sorted((int(attempt), float(at)) for of, attempt, _, at in text if of == root)
        grouped = {n: [at for _, at in each] for n, each in groupby(signs, key=lambda one: one[0])}
        return {attempt: (min(each), max(each)) for attempt, each in grouped.items()}

    def lived_one_by_one(self, roots: Sequence[str], attempts: int) -> None:
        """Each chain had so many attempts, and no two of them lived at the same time."""
        for root in roots:
            lives = self.lives(root)
            assert sorted(lives) == list(range(attempts)), (root, lives)
            assert all(lives[n][1] < lives[n + 1][0] for n in range(attempts - 1)), (root, lives)

    def hurry(self) -> None:
        environ = clean_environ(
            DATABASE_URL=self.server.database_url, DJANGO_SETTINGS_MODULE="reprise.settings"
        )
        subprocess.run(
            [sys.executable, "-c", HURRY], cwd=ROOT, env=environ, check=True, capture_output=True
        )

    def close(self) -> None:
        for site in self.sites.values():
            site.close()


def disruption(reason: str) -> Object:
    """The condition by which a cluster says that it ends a pod."""
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": reason}


def _label(pod: Object, name: str) -> str:
    return str(pod["metadata"]["labels"].get(f"reprise.dev/{name}", ""))
