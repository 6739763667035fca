"""Build the wheels and source archives of server and client: `python tools/dist.py FOLDER`.

They are made of the tracked files alone, as they are now. The same files give the same bytes: every
time is `SOURCE_DATE_EPOCH`, or else that of the last commit.
"""
# ruff: noqa: INP001  # a script for people

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (".", "client")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def build(target: Path) -> None:
    """Build everything into this folder. Raises `CalledProcessError` with the output shown."""
    epoch = os.environ.setdefault("SOURCE_DATE_EPOCH", _git("log", "-1", "--format=%ct").strip())
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        sources = _tracked_files(Path(name) / "sources")
        for project in PROJECTS:
            made = Path(name) / f"made {project}"
            _setuptools("sdist", sources / project, made)
            (archive,) = made.iterdir()
            unpacked = _normalized(archive, target / archive.name, int(epoch))
            # What the archive lacks is missed here.
            _setuptools("wheel", unpacked, target.absolute())


def _tracked_files(target: Path) -> Path:
    for name in _git("ls-files", "-z").split("\0")[:-1]:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, copy)
    return target


def _git(*command: str) -> str:
    asked = ("git", *command)
    return subprocess.run(asked, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _setuptools(kind: str, project: Path, target: Path) -> None:
    done = subprocess.run(
        (sys.executable, "-c", BUILD.format(kind), str(target)),
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.stderr.write(done.stdout)
        done.check_returncode()


def _normalized(archive: Path, target: Path, epoch: int) -> Path:
    """Unpack an archive, and pack it again without times, owners and order. Return its folder."""
    with tarfile.open(archive) as given:
        given.extractall(archive.parent, filter="data")
    folder = archive.with_name(archive.name.removesuffix(".tar.gz"))
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w") as written,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                path.chmod(0o644)
                member = written.gettarinfo(path, str(path.relative_to(archive.parent)))
                member.mtime, member.uid, member.gid = epoch, 0, 0
                member.uname = member.gname = ""
                with path.open("rb") as content:
                    written.addfile(member, content)
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]))
