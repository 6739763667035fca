"""A RabbitMQ for tests: a virtual host on a server that is there, or a node of their own."""

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from kombu import Connection
from kombu.exceptions import OperationalError

from tests.conftest import unavailable
from tests.ports import free_port

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672//"
NODE_PROGRAMS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
"""Debian's own program on the path would run the node as another user, in one place for all."""
NODE_SECONDS = 150.0
DELAY_LEVELS = 28
"""Celery's native delayed delivery has one queue for each bit of a delay in seconds."""


@contextmanager
def private_broker(queues: tuple[str, ...]) -> Iterator[str]:
    """The URL of a broker that nobody else uses; what was made there is removed again.

    `rabbitmqctl` makes a virtual host. Where it cannot be used, the one that `BROKER_URL` names
    is taken to be for these tests, and `queues` and those of delayed delivery are deleted.
    """
    url = os.environ.get("BROKER_URL") or DEFAULT_URL
    if not _answers(url):
        unavailable(
            f"no RabbitMQ answers at {url}: start one (apt-get install rabbitmq-server, or "
            "docker run -p 5672:5672 rabbitmq) or set BROKER_URL"
        )
    name = f"reprise-test-{uuid.uuid4().hex[:12]}"
    user = urlsplit(url).username or "guest"
    if _control("add_vhost", name) and _control("set_permissions", "-p", name, user, *[".*"] * 3):
        try:
            yield urlsplit(url)._replace(path=f"/{quote(name)}").geturl()
        finally:
            _control("delete_vhost", name)
        return
    try:
        yield url
    finally:
        _delete(url, [*queues, *delay_queues()])


def delay_queues() -> list[str]:
    return [f"celery_delayed_{level}" for level in range(DELAY_LEVELS)]


def wipe(url: str, queues: tuple[str, ...]) -> int:
    """Drop every message, also those that wait for their time; how many there were."""
    dropped = 0
    with Connection(url) as connection:
        for queue in (*queues, *delay_queues()):
            with suppress(*connection.channel_errors), connection.channel() as channel:
                dropped += channel.queue_purge(queue) or 0  # type: ignore[attr-defined]
    return dropped


def _answers(url: str) -> bool:
    try:
        with Connection(url, connect_timeout=3) as connection:
            connection.ensure_connection(max_retries=1, timeout=3)
    except (OSError, OperationalError):
        return False
    return True


def _control(*arguments: str) -> bool:
    program = shutil.which("rabbitmqctl")
    if program is None:
        return False
    return subprocess.run([program, "-q", *arguments], capture_output=True).returncode == 0


def _delete(url: str, queues: list[str]) -> None:
    with Connection(url) as connection:
        for queue in queues:
            with suppress(*connection.channel_errors), connection.channel() as channel:
                channel.queue_delete(queue)  # type: ignore[attr-defined]


class PrivateNode:
    """A RabbitMQ of one test's own, which may be stopped, killed and wiped."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.port, self._distribution_port = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._had_epmd = _epmd("-names")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start it on what it kept, and wait until it answers."""
        program = next(filter(None, map(shutil.which, NODE_PROGRAMS)), None)
        if program is None:
            unavailable("no rabbitmq-server: apt-get install rabbitmq-server")
        self._directory.mkdir(exist_ok=True)
        output = (self._directory / "output").open("ab")
        self._process = subprocess.Popen(
            [str(program)],
            env={
                **os.environ,
                "HOME": str(self._directory),
                "RABBITMQ_NODENAME": f"reprise-test-{self.port}@localhost",
                "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": str(self.port),
                "RABBITMQ_DIST_PORT": str(self._distribution_port),
                "RABBITMQ_MNESIA_BASE": str(self._directory / "mnesia"),
                "RABBITMQ_LOG_BASE": str(self._directory / "log"),
                "RABBITMQ_CONFIG_FILE": str(self._directory / "none"),
                "RABBITMQ_CONF_ENV_FILE": str(self._directory / "none"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._directory / "plugins"),
            },
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        output.close()
        deadline = time.monotonic() + NODE_SECONDS
        while not _answers(self.url):
            assert self._process.poll() is None, (self._directory / "output").read_text()
            assert time.monotonic() < deadline, (self._directory / "output").read_text()

    def ensure(self) -> None:
        """Start it unless it runs."""
        if self._process is None:
            self.start()

    def stop(self) -> None:
        """Let it end in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._end(signal.SIGKILL)

    def wipe(self) -> None:
        """Take all that it kept; it must not run."""
        assert self._process is None
        shutil.rmtree(self._directory / "mnesia", ignore_errors=True)

    def close(self) -> None:
        if self._process is not None:
            self.kill()
        if not self._had_epmd:
            _epmd("-kill")

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)
        try:
            self._process.wait(NODE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            raise
        self._process = None


def _epmd(command: str) -> bool:
    # Erlang's directory of nodes, which a node starts and leaves running.
    program = shutil.which("epmd")
    if program is None:
        return False
    return subprocess.run([program, command], capture_output=True).returncode == 0
