"""The PostgreSQL of standalone: a child process on a cluster in the data directory.

Only PostgreSQL's programs come from elsewhere; this module starts, watches and stops them. Linux
only, since a parent-death signal ties the server's life to ours.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from reprise.standalone.postgres_account import Account, account_for
from reprise.standalone.postgres_binaries import Binaries, find_binaries
from reprise.standalone.postgres_cluster import (
    SUPERUSER,
    clear_unfinished,
    cluster_major,
    make_cluster,
)
from reprise.standalone.postgres_failure import PostgresError, failure, named_errors
from reprise.standalone.postgres_password import ensure_password, password_file
from reprise.standalone.postgres_previous import end_previous
from reprise.standalone.postgres_socket import PORT, ensure_socket_dir, socket_dir

__all__ = ["EmbeddedPostgres", "PostgresError"]

DATABASE = "reprise"
START_SECONDS = 60.0
RETRY_SECONDS = 10.0
LOG_LIMIT_BYTES = 10 * 1024 * 1024
_POLL_SECONDS = 0.02
_RETRY_PAUSE_SECONDS = 0.2
_LOG_TAIL_BYTES = 64 * 1024

# Given at each start, so that an old cluster gets today's settings. They suit a small machine with
# one server and no replica: replication is off.
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "min_wal_size": "32MB",
    "jit": "off",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_min_messages": "warning",
}
# Messages of a server that met remains of a killed one; these problems pass by themselves.
_PASSING = re.compile(r'is still in use|lock file ".*" already exists')
# Messages to clients that will never be let in; other errors pass with time.
_REFUSED = re.compile("FATAL: ++(?!the database system is )")
# Signals of a fast, an immediate and a hard stop, and their shares of the stopping time.
_STOPS = ((signal.SIGINT, 0.6), (signal.SIGQUIT, 0.25), (signal.SIGKILL, 0.15))


class EmbeddedPostgres:
    """A PostgreSQL on `data_dir`/postgres that lives at most as long as this process.

    The caller ensures one supervisor for a data directory at a time. Call `start` from a thread
    that lives as long as the process: the kernel stops the server when the thread that started it
    ends. `connections` replaces the maximum number of connections in `SETTINGS`.
    """

    def __init__(self, data_dir: Path, *, connections: int | None = None) -> None:
        self._connections = connections
        self._data_dir = data_dir.resolve()
        self._cluster = self._data_dir / "postgres"
        self._log = self._data_dir / "postgres.log"
        self._password = password_file(self._data_dir)
        self._socket_dir = socket_dir(self._data_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_size = 0

    @property
    def pid(self) -> int | None:
        """Return the process id of the server that was started last; None before and after."""
        return self._process.pid if self._process is not None else None

    @property
    def url(self) -> str:
        """Return the `DATABASE_URL` of the server's database, through the socket.

        It names the password's file instead of the password, since it may appear in a command line.
        """
        place, file = (quote(str(path), safe="") for path in (self._socket_dir, self._password))
        return f"postgres://{SUPERUSER}@{place}:{PORT}/{DATABASE}?passfile={file}"

    def alive(self) -> bool:
        """Return whether the server's process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> str:
        """Create the cluster if there is none, start the server, and return its `DATABASE_URL`.

        Returns when the database answers; does nothing if the server runs already. Raises
        `PostgresError`, after which no server is left running.
        """
        if self.alive():
            return self.url
        if sys.platform != "linux":
            raise PostgresError("the embedded PostgreSQL runs on Linux only: set DATABASE_URL")
        with named_errors(self._data_dir):
            try:
                self._start_server(*self._prepare())
                self._ensure_database()
            except BaseException:
                self.stop()
                raise
        return self.url

    def failure(self, error: Exception) -> PostgresError:
        """Return the error for a server that failed after its start, with details from its log."""
        return failure(self._data_dir, f"ERROR: {error}\n{self._logged_since(self._log_size)}")

    def stop(self, timeout: float = 8.0) -> None:
        """Stop the server within `timeout` seconds: fast, then immediate, then by SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            _end(process, timeout)
        with suppress(OSError):  # not there yet, or a killed server left its socket there
            self._socket_dir.rmdir()

    def _prepare(self) -> tuple[Binaries, Account]:
        """Create everything that the server needs to run."""
        self._data_dir.mkdir(parents=True, exist_ok=True)
        self._trim_log()
        clear_unfinished(self._data_dir)
        account = account_for(self._data_dir, self._cluster)
        account.open_way(self._data_dir)
        major = cluster_major(self._cluster)
        binaries = find_binaries(account, major)
        ensure_socket_dir(self._socket_dir, account)
        if major is None:
            make_cluster(self._cluster, binaries, account)
        account.own(self._cluster)
        return binaries, account

    def _trim_log(self) -> None:
        descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(descriptor).st_size > LOG_LIMIT_BYTES:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _start_server(self, binaries: Binaries, account: Account) -> None:
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            end_previous(self._cluster, self._socket_dir)
            self._log_size = self._log.stat().st_size
            if self._asks_for_password(binaries, account):
                self._spawn(binaries, account)
                if self._wait_until_ready():
                    return
            output = self._logged_since(self._log_size)
            if not _PASSING.search(output) or time.monotonic() > deadline:
                raise failure(self._data_dir, output)
            time.sleep(_RETRY_PAUSE_SECONDS)

    def _asks_for_password(self, binaries: Binaries, account: Account) -> bool:
        """Ensure that the server will ask for a password; False, with a log entry, if not."""
        trouble = ensure_password(self._data_dir, self._cluster, binaries, account)
        with self._log.open("a") as log:
            log.write(trouble)
        return not trouble

    def _spawn(self, binaries: Binaries, account: Account) -> None:
        # The setting is a list of directories: in quotes, a comma is part of a name.
        sockets = '"' + str(self._socket_dir).replace('"', '""') + '"'
        settings = {**SETTINGS, "port": str(PORT), "unix_socket_directories": sockets}
        if self._connections is not None:
            settings["max_connections"] = str(self._connections)
        command = [binaries.program("postgres"), "-D", str(self._cluster)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._process = account.start(command, log.fileno())

    def _wait_until_ready(self) -> bool:
        """Return True as soon as a query is answered, False if the server gave up."""
        deadline = time.monotonic() + START_SECONDS
        while self.alive():
            try:
                with self._connect() as connection:
                    connection.execute("SELECT 1")
                return True
            except psycopg.OperationalError as error:
                if _REFUSED.search(str(error)):
                    raise self.failure(error) from error
            if time.monotonic() > deadline:
                raise PostgresError(
                    f"PostgreSQL in {self._data_dir} does not answer after {START_SECONDS:.0f} s: "
                    f"see {self._log}"
                )
            time.sleep(_POLL_SECONDS)
        return False

    def _ensure_database(self) -> None:
        try:
            with self._connect() as connection:
                known = "SELECT 1 FROM pg_database WHERE datname = %s"
                if connection.execute(known, (DATABASE,)).fetchone() is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.Error as error:
            raise failure(self._data_dir, f"ERROR: {error}") from error

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self._socket_dir),
            port=PORT,
            user=SUPERUSER,
            dbname="postgres",
            passfile=str(self._password),
            connect_timeout=5,
            autocommit=True,
        )

    def _logged_since(self, size: int) -> str:
        with self._log.open("rb") as log:
            log.seek(max(size, self._log.stat().st_size - _LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")


def _end(process: subprocess.Popen[bytes], timeout: float) -> None:
    for number, part in _STOPS:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout * part)
            return
