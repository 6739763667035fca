"""The embedded PostgreSQL with real processes, real signals and real disks."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import dj_database_url
import psycopg
import pytest

from reprise.standalone import postgres_previous
from reprise.standalone.postgres import LOG_LIMIT_BYTES, EmbeddedPostgres, PostgresError
from reprise.standalone.postgres_account import account_for
from reprise.standalone.postgres_binaries import find_binaries
from reprise.standalone.postgres_password import password_file
from reprise.standalone.postgres_socket import SOCKET, socket_dir
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534
SETPRIV = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
READ_ALL = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
SUPERVISOR = """
import sys
from pathlib import Path
from reprise.standalone.postgres import EmbeddedPostgres, PostgresError
server = EmbeddedPostgres(Path(sys.argv[1]))
try:
    url = server.start()
except PostgresError as error:
    sys.exit(str(error))
print(url, server.pid, flush=True)
sys.stdin.read()
server.stop()
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
Spawn = Callable[..., "Supervisor"]


def until(condition: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> bool:
    """Return whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def processes_in(directory: Path) -> list[int]:
    """Live processes that work inside a directory, as all of a PostgreSQL's do, or name it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            inside = (process / "cwd").readlink().is_relative_to(directory)
            named = os.fsencode(directory) in (process / "cmdline").read_bytes()
        except OSError:  # it has ended, or is a zombie
            continue
        if inside or (named and int(process.name) != os.getpid()):
            found.append(int(process.name))
    return found


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def remember(url: str, number: int) -> None:
    query(url, "CREATE TABLE IF NOT EXISTS kept (number int)")
    query(url, f"INSERT INTO kept VALUES ({number})")


def kept(url: str) -> list[object]:
    return [row[0] for row in query(url, "SELECT number FROM kept ORDER BY number")]


class Supervisor:
    """Another process that keeps an `EmbeddedPostgres`."""

    def __init__(
        self, data_dir: Path, *, before: tuple[str, ...] = (), path: str | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-W", "error", "-c", SUPERVISOR, str(data_dir)],
            cwd=ROOT,
            env=os.environ | ({} if path is None else {"PATH": path}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> tuple[str, int]:
        """The URL and the server's process id, as soon as it runs."""
        assert self.process.stdout
        assert self.process.stderr
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        url, pid = line.split()
        return url, int(pid)

    def refusal(self) -> str:
        """Return the reason why it did not start."""
        output, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert not output
        assert self.process.returncode == 1
        return errors.strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> None:
        _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert (self.process.returncode, errors) == (0, "")


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A directory that everybody may walk to; nothing may run there at the end."""
    directory = Path(tempfile.mkdtemp(prefix="reprise-test-"))
    directory.chmod(0o755)
    yield directory
    left = processes_in(directory) if not until(lambda: not processes_in(directory)) else []
    shutil.rmtree(directory)
    shutil.rmtree(socket_dir(directory), ignore_errors=True)  # its server may have been killed
    assert left == []


@pytest.fixture
def spawn(data_dir: Path) -> Iterator[Spawn]:
    started: list[Supervisor] = []

    def start(directory: Path = data_dir, **options: object) -> Supervisor:
        started.append(Supervisor(directory, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for supervisor in started:
        supervisor.kill()


@pytest.fixture(scope="module")
def as_nobody() -> tuple[str, ...]:
    """Return the words that make a command an ordinary user's, who may read all if root's home has
    Python."""
    probe = (sys.executable, "-c", "import reprise.standalone.postgres")
    for before in (SETPRIV, SETPRIV + READ_ALL):
        tried = subprocess.run(before + probe, cwd=ROOT, capture_output=True, check=False)
        if tried.returncode == 0:
            return before
    pytest.skip(f"an ordinary user cannot run {sys.executable}: install Python for everybody")


@contextmanager
def running(directory: Path) -> Iterator[tuple[EmbeddedPostgres, str]]:
    server = EmbeddedPostgres(directory)
    try:
        yield server, server.start()
    finally:
        server.stop()


def refusal(directory: Path) -> str:
    """The one line with which a start is refused, leaving nothing behind."""
    server = EmbeddedPostgres(directory)
    with pytest.raises(PostgresError) as refused:
        server.start()
    assert not server.alive()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_restart_keeps_what_was_written(data_dir: Path) -> None:
    with running(data_dir) as (server, url):
        remember(url, 1)
        assert server.alive()
        assert server.start() == url
        assert processes_in(data_dir / "postgres").count(server.pid or 0) == 1
    assert (server.pid, server.alive()) == (None, False)
    assert not processes_in(data_dir)
    assert not socket_dir(data_dir).exists()
    server.stop()
    with running(data_dir) as (_, url):
        assert kept(url) == [1]


def test_a_long_path_with_blanks_is_no_obstacle(data_dir: Path) -> None:
    directory = data_dir / "of some people's, with blanks" / ("long " * 40 + "é")
    with running(directory) as (_, url):
        found = dj_database_url.parse(url)
        host = Path(str(found["HOST"]))
        assert (found["NAME"], found["USER"]) == ("reprise", "reprise")
        assert len(os.fsencode(host / SOCKET)) <= 107
        assert host.stat().st_mode & 0o777 == 0o700
        assert (host / SOCKET).stat().st_mode & 0o777 == 0o700
        collation = "SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database"
        assert set(query(url, collation)) == {("C.UTF-8", "UTF8")}


def test_the_server_dies_with_its_parent(data_dir: Path, spawn: Spawn) -> None:
    supervisor = spawn()
    url, _ = supervisor.ready()
    remember(url, 1)
    supervisor.kill()
    assert until(lambda: not processes_in(data_dir))
    with running(data_dir) as (_, url):
        assert kept(url) == [1]


def test_a_first_start_that_was_killed_is_made_again(data_dir: Path, spawn: Spawn) -> None:
    supervisor = spawn()
    assert until(lambda: list(data_dir.glob("postgres.new-*/base")))
    supervisor.kill()
    assert not (data_dir / "postgres").exists()
    for _ in range(2):
        with running(data_dir) as (_, url):
            assert query(url, "SELECT 1") == [(1,)]
        assert until(lambda: not processes_in(data_dir))
    assert not list(data_dir.glob("postgres.new-*"))


def test_a_killed_server_starts_again_with_its_data(data_dir: Path) -> None:
    with running(data_dir) as (server, url):
        for number in range(3):
            remember(url, number)
            os.kill(server.pid or 0, signal.SIGKILL)
            assert until(lambda: not server.alive())
            assert server.start() == url
        assert kept(url) == [0, 1, 2]


def test_backends_of_a_killed_server_are_waited_for(data_dir: Path) -> None:
    log = data_dir / "postgres.log"
    with running(data_dir) as (server, url), closing(psycopg.connect(url)) as connection:
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        os.kill(server.pid or 0, signal.SIGKILL)
        assert until(lambda: not server.alive())

        def wake() -> None:
            until(lambda: "is still in use" in log.read_text())
            os.kill(backend, signal.SIGCONT)

        waker = threading.Thread(target=wake)
        waker.start()
        assert query(server.start(), "SELECT 1") == [(1,)]
        waker.join()
        assert "is still in use" in log.read_text()


def test_a_stubborn_server_is_stopped_in_time(data_dir: Path) -> None:
    with running(data_dir) as (server, _):
        os.kill(server.pid or 0, signal.SIGSTOP)
        begun = time.monotonic()
        server.stop(timeout=1.0)
        assert time.monotonic() - begun < 10.0


@contextmanager
def occupant(kind: str, data_dir: Path) -> Iterator[int]:
    """A live process that is not the server of `data_dir`."""
    if kind == "server":
        with running(data_dir / "other") as (server, _):
            yield server.pid or 0
            assert server.alive()
        return
    with subprocess.Popen(["sleep", "60" if kind == "stranger" else "0"]) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        if kind == "zombie":
            assert until(lambda: stat.read_text().split()[2] == "Z")
        try:
            yield process.pid
            assert kind == "zombie" or process.poll() is None
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["stranger", "zombie", "server"])
def test_a_stale_lock_harms_nobody(data_dir: Path, kind: str) -> None:
    with running(data_dir) as (server, url):
        remember(url, 1)
        lock = (data_dir / "postgres" / "postmaster.pid").read_text()
        old = str(server.pid)
    with occupant(kind, data_dir) as pid:
        stale = lock.replace(old, str(pid), 1)
        (data_dir / "postgres" / "postmaster.pid").write_text(stale)
        socket_dir(data_dir).mkdir(mode=0o700)
        (socket_dir(data_dir) / f"{SOCKET}.lock").write_text(stale)
        with running(data_dir) as (_, url):
            assert kept(url) == [1]


def test_a_torn_lock_is_cleared(data_dir: Path) -> None:
    with running(data_dir):
        pass
    for content in ("", "not a number\n", "0\n"):
        (data_dir / "postgres" / "postmaster.pid").write_text(content)
        with running(data_dir) as (server, _):
            assert server.alive()


@pytest.mark.slow
def test_a_server_of_an_earlier_life_is_stopped(
    data_dir: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its parent lives, so that it would not leave by itself.
    monkeypatch.setattr(postgres_previous, "LEAVE_SECONDS", 0.1)
    url, pid = spawn().ready()
    remember(url, 1)
    with running(data_dir) as (server, url):
        assert server.pid != pid
        assert pid not in processes_in(data_dir)
        assert kept(url) == [1]


def test_a_directory_that_is_no_cluster_is_left_alone(data_dir: Path) -> None:
    (data_dir / "postgres").mkdir()
    (data_dir / "postgres" / "PG_VERSION").write_text("18\n")
    assert "no complete PostgreSQL cluster" in refusal(data_dir)
    assert (data_dir / "postgres" / "PG_VERSION").read_text() == "18\n"


def test_a_file_is_not_a_data_directory(data_dir: Path) -> None:
    (data_dir / "file").touch()
    for place in ("file", "file/below"):
        problem = refusal(data_dir / place)
        assert str(data_dir / "file") in problem
        assert "not a directory" in problem


@pytest.mark.parametrize("planted", ["symlink", "open"])
def test_a_socket_directory_of_somebody_else_is_refused(data_dir: Path, planted: str) -> None:
    place = socket_dir(data_dir)
    if planted == "symlink":
        (data_dir / "private").mkdir(mode=0o700)
        place.symlink_to(data_dir / "private")
    else:
        place.mkdir(mode=0o755)
        (place / SOCKET).touch()
    try:
        assert str(place) in refusal(data_dir)
    finally:
        place.unlink() if planted == "symlink" else shutil.rmtree(place)


def test_a_cluster_of_another_version_finds_its_programs(data_dir: Path) -> None:
    account = account_for(data_dir, data_dir / "postgres")
    other = find_binaries(account, 16)
    command = f"{other.program('initdb')} -D {data_dir / 'postgres'} -A trust -E UTF8 -U reprise"
    assert account.run(command.split(), seconds=60)[0] == 0
    with running(data_dir) as (_, url):
        assert query(url, "SELECT current_setting('server_version_num')::int / 10000") == [(16,)]
    (data_dir / "postgres" / "PG_VERSION").write_text("9\n")
    assert "written by PostgreSQL 9" in refusal(data_dir)


def test_a_large_log_is_cut_at_the_start(data_dir: Path) -> None:
    log = data_dir / "postgres.log"
    with log.open("wb") as file:
        file.truncate(LOG_LIMIT_BYTES + 1)
    with running(data_dir):
        assert 0 < log.stat().st_size < 100_000


def test_why_a_server_gave_up_is_told(data_dir: Path) -> None:
    with running(data_dir):
        pass
    (data_dir / "postgres" / "postgresql.conf").write_text("work_mem = plenty\n")
    problem = refusal(data_dir)
    assert str(data_dir) in problem
    assert "errors" in problem


def _let_in(url: str, password: str = "") -> bool:
    """Return whether somebody gets in who knows the socket's directory."""
    address = (
        f"postgres://reprise:{password}@/reprise?passfile=/nonexistent&connect_timeout=5&host="
    )
    try:
        psycopg.connect(address + str(dj_database_url.parse(url)["HOST"])).close()
    except psycopg.OperationalError:
        return False
    return True


def test_nobody_gets_in_without_the_password(data_dir: Path) -> None:
    with running(data_dir) as (_, url):
        file = password_file(data_dir)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        password = file.read_text().strip().rpartition(":")[2]
        assert len(password) == 64
        assert password not in url
        assert not _let_in(url)
        assert not _let_in(url, "guessed")
        assert _let_in(url, password)
        assert password not in (data_dir / "postgres.log").read_text()


def test_a_cluster_that_trusted_everybody_asks_from_now_on(data_dir: Path) -> None:
    with running(data_dir) as (server, url):
        remember(url, 1)
    # As it was made before, and by somebody who logs all that is said.
    (data_dir / "postgres" / "pg_hba.conf").write_text("local all all trust\n")
    (data_dir / "postgres" / "postgresql.conf").write_text("log_statement = all\n")
    password_file(data_dir).unlink()
    with running(data_dir) as (server, url):
        assert not _let_in(url)
        assert kept(url) == [1]
        password = password_file(data_dir).read_text().strip().rpartition(":")[2]
        os.kill(server.pid or 0, signal.SIGKILL)
        assert until(lambda: not server.alive())
        server.start()
        assert password in password_file(data_dir).read_text()  # once set, it stays
        assert not _let_in(url)
        assert password not in (data_dir / "postgres.log").read_text()


def test_a_password_that_is_lost_or_open_is_no_obstacle(data_dir: Path) -> None:
    with running(data_dir) as (_, url):
        remember(url, 1)
    file = password_file(data_dir)
    file.chmod(0o644)  # libpq ignores such a file
    with running(data_dir) as (_, url):
        assert kept(url) == [1]
    file.unlink()
    with running(data_dir) as (_, url):
        assert kept(url) == [1]
    file.write_text("*:*:*:*:another\n")
    assert "remove the file postgres.pgpass" in refusal(data_dir)


@as_root
def test_an_ordinary_user_needs_nothing_else(
    data_dir: Path, spawn: Spawn, as_nobody: tuple[str, ...]
) -> None:
    os.chown(data_dir, NOBODY, NOBODY)
    for _ in range(2):
        supervisor = spawn(before=as_nobody)
        _, pid = supervisor.ready()
        assert Path(f"/proc/{pid}").stat().st_uid == NOBODY
        supervisor.finish()
        assert not processes_in(data_dir)
    with running(data_dir) as (server, _):  # root goes on as the owner
        assert Path(f"/proc/{server.pid}").stat().st_uid == NOBODY


@as_root
def test_a_directory_that_may_not_be_written(
    data_dir: Path, spawn: Spawn, as_nobody: tuple[str, ...]
) -> None:
    for place in (data_dir, data_dir / "new"):
        problem = spawn(place, before=as_nobody).refusal()
        assert str(place) in problem
        assert "may not use it" in problem
        assert "\n" not in problem


@as_root
def test_root_without_user_namespaces(data_dir: Path, spawn: Spawn) -> None:
    directory = data_dir / "private"
    directory.mkdir(mode=0o700)
    for _ in range(2):
        supervisor = spawn(directory, path="/nonexistent")
        url, pid = supervisor.ready()
        assert Path(f"/proc/{pid}").stat().st_uid != 0
        assert query(url, "SELECT 1") == [(1,)]
        supervisor.finish()
        assert not processes_in(directory)
    assert directory.stat().st_mode & 0o777 == 0o710


@as_root
def test_a_closed_parent_is_named(data_dir: Path, spawn: Spawn) -> None:
    (data_dir / "closed").mkdir(mode=0o700)
    problem = spawn(data_dir / "closed" / "below", path="/nonexistent").refusal()
    assert f"cannot enter {data_dir / 'closed'}:" in problem
    assert (data_dir / "closed").stat().st_mode & 0o777 == 0o700


@pytest.fixture
def small_disk(data_dir: Path) -> Iterator[Callable[[int], Path]]:
    mounted = data_dir / "disk"
    mounted.mkdir()

    def mount(megabytes: int) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(mounted)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            pytest.skip("a small file system cannot be mounted here: run as root")
        return mounted

    yield mount
    if mounted.is_mount():
        assert until(lambda: not processes_in(mounted))
        subprocess.run(["umount", str(mounted)], check=True)


def test_a_disk_too_small_for_a_cluster(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(12)
    problem = refusal(disk)
    assert str(disk) in problem
    assert "disk is full" in problem
    assert not list(disk.glob("postgres*/*"))


def test_a_disk_that_became_full(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(120)
    with running(disk) as (_, url):
        remember(url, 1)
    os.truncate(disk / "postgres.log", 64 * 1024)  # no page with room for a last word
    filler = disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(120 * 1024 * 1024))
    assert "disk is full" in refusal(disk)
    filler.unlink()
    with running(disk) as (_, url):
        assert kept(url) == [1]
