"""The file of a backup: a zip of a database dump and the secrets that belong to it.

Zip, because its directory comes last and every member has a checksum: a file that was cut short
or damaged is known before anything is done with it, and `unzip` can look into it.
"""

import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import error as StructError  # noqa: N812  # an exception with a function's name
from tempfile import mkstemp
from typing import IO
from zipfile import BadZipFile, ZipFile

from reprise.standalone.errors import StandaloneError
from reprise.standalone.private_file import sync_directory

FORMAT = 1
MANIFEST = "manifest.json"
DUMP = "database.dump"
SECRETS = ("secret_key", "credentials.json", "executor.token")
KEYS = "encryption_keys"
"""Is not there where the environment says them, and in backups of before there were any."""
CHUNK = 1024 * 1024
_DAMAGE = (
    BadZipFile,
    EOFError,
    KeyError,
    OSError,  # a place in the file that cannot be
    RuntimeError,
    StructError,
    TypeError,
    ValueError,
    zlib.error,
)


@dataclass(frozen=True)
class Manifest:
    """What has to fit before a backup can be restored.

    `postgres` is the major version that wrote the dump, `migrations` are (application, name).
    """

    made_at: str
    postgres: int
    migrations: frozenset[tuple[str, str]]

    def to_json(self) -> str:
        """One JSON object; the inverse of `from_json`."""
        fields = {
            "format": FORMAT,
            "made_at": self.made_at,
            "postgres": self.postgres,
            "migrations": sorted(self.migrations),
        }
        return json.dumps(fields, indent=2) + "\n"

    @staticmethod
    def from_json(text: bytes) -> "Manifest":
        """Raises `StandaloneError` for a format that is unknown here."""
        said = json.loads(text)
        if said["format"] != FORMAT:
            raise StandaloneError(
                f"its format is {said['format']} and this Reprise knows only {FORMAT}: restore it "
                "with the Reprise that made it or a newer one"
            )
        migrations = frozenset((str(app), str(name)) for app, name in said["migrations"])
        return Manifest(str(said["made_at"]), int(said["postgres"]), migrations)


@contextmanager
def writing(path: Path) -> Iterator[ZipFile]:
    """A new backup that only its owner can read, at `path` when the block ends without error."""
    descriptor, name = mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with ZipFile(file, "w") as archive:
                yield archive
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


class Backup:
    """A backup that was read through once and found whole."""

    def __init__(self, archive: ZipFile):
        self._archive = archive
        self.manifest = Manifest.from_json(archive.read(MANIFEST))

    def secrets(self) -> Iterator[tuple[str, str]]:
        """The files beside the database: name and content."""
        there = self._archive.namelist()
        for name in (*SECRETS, *({KEYS} & {*there})):
            yield name, self._archive.read(name).decode()

    def dump(self) -> IO[bytes]:
        """The dump, to be read from its beginning to its end."""
        return self._archive.open(DUMP)


@contextmanager
def reading(path: Path) -> Iterator[Backup]:
    """The backup at `path`. Raises `StandaloneError` if it is not whole or of another format."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise StandaloneError(f"cannot read the backup {path}: {error.strerror}") from error
    with file:
        try:
            archive = ZipFile(file)
            _check(archive)
            backup = Backup(archive)
        except StandaloneError as error:
            raise StandaloneError(f"the backup {path} cannot be used: {error}") from error
        except _DAMAGE as error:
            raise StandaloneError(
                f"{path} is no complete backup: it was cut short, damaged or is something else "
                f"({error})"
            ) from error
        yield backup


def _check(archive: ZipFile) -> None:
    damaged = archive.testzip()
    if damaged is not None:
        raise BadZipFile(f"the checksum of {damaged} is wrong")
    missing = {MANIFEST, DUMP, *SECRETS} - set(archive.namelist())
    if missing:
        raise BadZipFile(f"{', '.join(sorted(missing))} is missing")
