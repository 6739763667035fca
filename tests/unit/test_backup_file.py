"""A backup's file: whole, or known not to be."""

import stat
from pathlib import Path
from zipfile import ZipFile

import pytest

from reprise.standalone.backup_file import (
    DUMP,
    KEYS,
    MANIFEST,
    SECRETS,
    Manifest,
    reading,
    writing,
)
from reprise.standalone.errors import StandaloneError

VERSIONS = Manifest("2026-01-02T03:04:05+00:00", 18, frozenset({("sessions_app", "0001_initial")}))
CONTENT = b"what the database held"

Content = tuple[Manifest, list[tuple[str, str]], bytes]


def _write(path: Path, **members: str) -> Path:
    with writing(path) as archive:
        archive.writestr(MANIFEST, members.get("manifest", VERSIONS.to_json()))
        for name in SECRETS:
            archive.writestr(name, f"secret of {name}")
        with archive.open(DUMP, "w", force_zip64=True) as dump:
            dump.write(CONTENT)
    return path


def _read(path: Path) -> Content:
    with reading(path) as backup, backup.dump() as dump:
        return backup.manifest, list(backup.secrets()), dump.read()


def test_written_backups_are_read(tmp_path: Path) -> None:
    path = _write(tmp_path / "backup")
    assert _read(path) == (VERSIONS, [(name, f"secret of {name}") for name in SECRETS], CONTENT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_keys_are_part_of_it_where_there_are_some(tmp_path: Path) -> None:
    """A backup of the version before has none, and can be restored."""
    path = tmp_path / "backup"
    with writing(path) as archive:
        for name in (MANIFEST, *SECRETS, KEYS, DUMP):
            archive.writestr(name, VERSIONS.to_json() if name == MANIFEST else f"content of {name}")
    with reading(path) as backup:
        assert dict(backup.secrets())[KEYS] == f"content of {KEYS}"
    with reading(_write(path)) as backup:
        assert KEYS not in dict(backup.secrets())


def test_every_shorter_file_is_refused(tmp_path: Path) -> None:
    whole = _write(tmp_path / "backup").read_bytes()
    torn = tmp_path / "torn"
    for size in range(len(whole)):
        torn.write_bytes(whole[:size])
        with pytest.raises(StandaloneError, match="not a complete backup"):
            _read(torn)


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Harmless are dates and the like, which nobody reads."""
    path = _write(tmp_path / "backup")
    whole, good = path.read_bytes(), _read(path)
    noticed = 0
    for index in range(len(whole)):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 0xFF]) + whole[index + 1 :])
        try:
            assert _read(path) == good
        except StandaloneError:
            noticed += 1
    assert noticed > len(whole) / 2


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "backup", manifest=VERSIONS.to_json().replace('"format": 1', '"format": 2')
    )
    with pytest.raises(StandaloneError, match="its format is 2 and this Reprise knows only 1"):
        _read(path)


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"format": 1}', "\u2026"])
def test_a_manifest_that_says_nothing_is_refused(tmp_path: Path, manifest: str) -> None:
    with pytest.raises(StandaloneError, match="not a complete backup"):
        _read(_write(tmp_path / "backup", manifest=manifest))


def test_another_zip_is_refused(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("hello", "world")
    with pytest.raises(StandaloneError, match=f"{MANIFEST}.* is missing"):
        _read(tmp_path / "zip")


def test_a_backup_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    path = _write(tmp_path / "backup")
    before = path.read_bytes()

    def fail() -> None:
        with writing(path) as archive:
            archive.writestr(MANIFEST, "half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
