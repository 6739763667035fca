"""The file of a backup: a zip of a database dump and its secrets.

In a zip the directory comes last and every member has a checksum. So a truncated or damaged file is
detected before it is used, and `unzip` can read it.
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
"""Missing if the environment holds the keys, and in backups older than the keys."""
CHUNK = 1024 * 1024
_DAMAGE = (
    BadZipFile,
    EOFError,
    KeyError,
    OSError,  # an impossible position in the file
    RuntimeError,
    StructError,
    TypeError,
    ValueError,
    zlib.error,
)


@dataclass(frozen=True)
class Manifest:
    """The conditions for restoring a backup.

    `postgres` is the major version that wrote the dump, `migrations` are (application, name).
    """

    made_at: str
    postgres: int
    migrations: frozenset[tuple[str, str]]

    def to_json(self) -> str:
        """Return the manifest as one JSON object; the inverse of `from_json`."""
        fields = {
            "format": FORMAT,
            "made_at": self.made_at,
            "postgres": self.postgres,
            "migrations": sorted(self.migrations),
        }
        return json.dumps(fields, indent=2) + "\n"

    @staticmethod
    def from_json(text: bytes) -> "Manifest":
        """Return the manifest in a JSON text. Raises `StandaloneError` for an unknown format."""
        manifest = json.loads(text)
        if manifest["format"] != FORMAT:
            raise StandaloneError(
                f"its format is {manifest['format']} and this Reprise knows only {FORMAT}: "
                "restore it with the Reprise that made it or a newer one"
            )
        migrations = frozenset((str(app), str(name)) for app, name in manifest["migrations"])
        return Manifest(str(manifest["made_at"]), int(manifest["postgres"]), migrations)


@contextmanager
def writing(path: Path) -> Iterator[ZipFile]:
    """Yield a new backup for its owner only; it appears at `path` if the block succeeds."""
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
    """A backup that was read once and found complete."""

    def __init__(self, archive: ZipFile):
        self._archive = archive
        self.manifest = Manifest.from_json(archive.read(MANIFEST))

    def secrets(self) -> Iterator[tuple[str, str]]:
        """Yield the files beside the database: name and content."""
        there = self._archive.namelist()
        for name in (*SECRETS, *({KEYS} & {*there})):
            yield name, self._archive.read(name).decode()

    def dump(self) -> IO[bytes]:
        """Return the dump, to be read from beginning to end."""
        return self._archive.open(DUMP)


@contextmanager
def reading(path: Path) -> Iterator[Backup]:
    """Yield the backup at `path`. Raises `StandaloneError` if it is damaged or unknown."""
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
                f"{path} is not a complete backup: it was cut off, is damaged or is another file "
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
