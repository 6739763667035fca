"""The account that runs PostgreSQL's programs: they refuse root, and must not outlive us."""

import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprise.standalone.death_signal import die_with
from reprise.standalone.interrupts import uninterrupted
from reprise.standalone.postgres_failure import PostgresError

# Root outside, an ordinary user inside: no account to create, and files keep their owner.
UNSHARE = ("unshare", "-U", "--map-user=1000", "--map-group=1000", "--")
NOBODY = 65534


@dataclass(frozen=True)
class Account:
    """The way to start a program so that it is not root.

    `prefix` goes in front of its command. `uid` and `gid` are set if the program has to run as
    another user than this process.
    """

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def start(
        self, command: Sequence[str], output: int, *, given: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own; it gets SIGINT when the calling thread ends.

        `output` is a file descriptor (or `subprocess.PIPE`) for both of its output streams, `given`
        one for its input.
        """
        with uninterrupted():
            return subprocess.Popen(
                [*self.prefix, *command],
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=environment(),
                start_new_session=True,
                preexec_fn=die_with(os.getpid(), signal.SIGINT),  # noqa: PLW1509  # see there
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.uid is None else [],
            )

    def run(self, command: Sequence[str], *, seconds: float, given: str = "") -> tuple[int, str]:
        """Run a program to its end, with `given` as its input. Return its exit code and output.

        Raises `TimeoutExpired` and `OSError`.
        """
        with self.start(command, subprocess.PIPE, given=subprocess.PIPE) as process:
            try:
                output, _ = process.communicate(given.encode(), timeout=seconds)
            except BaseException:
                process.kill()
                raise
        return process.returncode, output.decode(errors="replace")

    def own(self, path: Path) -> None:
        """Give a file tree to the account, if it belongs to another user.

        The top comes last, so that an interrupted walk is repeated.
        """
        if self.uid is None or path.stat().st_uid == self.uid:
            return
        for each in (*path.rglob("*"), path):
            os.chown(each, self.uid, self.gid or -1, follow_symlinks=False)

    def open_way(self, data_dir: Path) -> None:
        """Ensure that the account can reach the content of `data_dir` without root's privileges.

        A data directory of root is opened to the account's group, to pass through only. Nothing
        above it is changed.
        """
        if os.geteuid() != 0:
            return
        for directory in (*reversed(data_dir.parents), data_dir):
            if not self._may_walk(directory):
                self._open(directory, ours=directory == data_dir)

    def _may_walk(self, directory: Path) -> bool:
        found = directory.stat()
        if found.st_uid == (self.uid or 0):
            return bool(found.st_mode & 0o100)
        return bool(found.st_mode & (0o010 if found.st_gid == (self.gid or 0) else 0o001))

    def _open(self, directory: Path, *, ours: bool) -> None:
        if not ours or directory.stat().st_uid != 0 or self.gid is None:
            who = "root without its privileges" if self.uid is None else f"user {self.uid}"
            raise PostgresError(
                f"PostgreSQL runs as {who} and cannot enter {directory}: "
                "choose another data directory"
            )
        os.chown(directory, -1, self.gid)
        directory.chmod(directory.stat().st_mode & 0o7707 | 0o010)


def account_for(data_dir: Path, cluster: Path) -> Account:
    """Return our own account; for root, the owner of the data, a user namespace, or nobody."""
    if os.geteuid() != 0:
        return Account()
    owner = (cluster if cluster.exists() else data_dir).stat()
    if owner.st_uid != 0:
        return Account(uid=owner.st_uid, gid=owner.st_gid)
    if _namespaces_work():
        return Account(prefix=UNSHARE)
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return Account(uid=NOBODY, gid=NOBODY)
    return Account(uid=nobody.pw_uid, gid=nobody.pw_gid)


def _namespaces_work() -> bool:
    command = [*UNSHARE, "true"]
    try:
        tried = subprocess.run(command, capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def environment() -> dict[str, str]:
    """Return our environment without what would change PostgreSQL's settings or language."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return kept | {"LC_ALL": "C"}
