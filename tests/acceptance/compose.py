"""docker-compose.yml without Docker: its services as processes of this machine.

Every command, health check and environment is taken from the file as it is; only addresses, ports
and directories become those of the test. What the image would hold is copied together from the
Dockerfile, so that a file which it forgets is missing here, too.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from tests.acceptance.running import ROOT, Program, clean_environ

FILE = ROOT / "docker-compose.yml"
APP_DIR = "/opt/reprise"
HOSTNAME = socket.gethostname()
_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:[-?])([^}]*))?\})")
_UNITS = {"s": 1.0, "m": 60.0}


def interpolated(value: Any, environ: Mapping[str, str]) -> Any:
    """As compose does it: `${NAME}`, `${NAME:-default}`, `${NAME:?error}` and `$$`."""
    if isinstance(value, dict):
        return {key: interpolated(each, environ) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, environ) for each in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda found: _value(found, environ), value)


def _value(found: "re.Match[str]", environ: Mapping[str, str]) -> str:
    name, kind, rest = found.groups()
    if name is None:
        return "$"
    given = environ.get(name, "")
    if kind == ":?" and not given:
        raise LookupError(f"{name}: {rest}")
    return given or (rest if kind == ":-" else "")


def variables(text: str) -> dict[str, set[str]]:
    """Every variable of a compose file, with the ways in which it is used."""
    found: dict[str, set[str]] = {}
    for name, kind, _ in _VARIABLE.findall(text):
        if name:
            found.setdefault(name, set()).add(kind)
    return found


def seconds(duration: str) -> float:
    """Compose's `90s` or `2m`."""
    return float(duration[:-1]) * _UNITS[duration[-1]]


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile: name and rest, lines joined and comments left out."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(*line.split(None, 1),) for line in joined.splitlines() if line.strip()]  # type: ignore[misc]


def image(directory: Path) -> Path:
    """Return the application directory of the image, made from the sources alone."""
    for name, rest in instructions((ROOT / "Dockerfile").read_text()):
        if name == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                _copy(ROOT / source, directory / target)
    shutil.rmtree(directory / "client")  # installed, and removed again
    return directory


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    else:
        # A target that ends with a slash is a directory.
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


class Stack:
    """The services, started in their order and stopped in the reverse one."""

    def __init__(self, directory: Path, *, environ: Mapping[str, str], replace: Mapping[str, str]):
        document = yaml.safe_load(FILE.read_text())
        self.services: dict[str, Any] = interpolated(document["services"], environ)
        self._directory = directory
        self._app = image(directory / "image")
        self._replace = dict(replace)
        self._running: dict[str, Program] = {}
        for service in self.services.values():
            for volume in service.get("volumes", ()):
                self._mount(*volume.split(":")[:2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in reversed(self._running.values()):
            program.kill()

    def _mount(self, source: str, target: str) -> None:
        """A volume becomes a directory; a file of the repository is copied, addresses replaced."""
        if source.startswith("./"):
            copy = self._directory / Path(source).name
            copy.write_text(self._local((ROOT / source).read_text()))
            self._replace[target] = str(copy)
        else:
            place = self._directory / "volumes" / source
            place.mkdir(parents=True, exist_ok=True)
            self._replace[target] = str(place)

    def _local(self, text: str) -> str:
        """The text with addresses and directories of this machine; longest first."""
        for old in sorted(self._replace, key=len, reverse=True):
            text = text.replace(old, self._replace[old])
        return text

    def environ(self, name: str) -> dict[str, str]:
        """The environment of a service, and the little that a container has besides."""
        declared = self.services[name].get("environment", {})
        given = {key: self._local(str(value)) for key, value in declared.items()}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        home = str(self._directory)
        return {
            "PATH": path,
            "HOSTNAME": HOSTNAME,
            "HOME": home,
            "XDG_DATA_HOME": home,
            "XDG_CONFIG_HOME": home,
            **given,
        }

    def spawn(self, name: str, command: Iterable[str] | None = None, **environ: str) -> Program:
        """The command of a service, or another one in its place, as `docker compose run`."""
        wanted = command or self.services[name]["command"]
        words = [self._local(str(word)) for word in wanted]
        there = ["env", "--chdir", str(self._app)]
        return Program([*there, *words], **{**self.environ(name), **environ})

    def run(self, name: str, command: Iterable[str] | None = None, **environ: str) -> str:
        """Run to its end, which has to be good; what it wrote to standard output."""
        program = self.spawn(name, command, **environ)
        assert program.reap(300.0) == 0, (name, program.printed)
        return program.stdout

    def order(self, names: Iterable[str]) -> list[str]:
        """These services, each after all that it depends on."""
        found: list[str] = []

        def visit(name: str) -> None:
            for other in self.services[name].get("depends_on", {}):
                visit(other)
            if name not in found:
                found.append(name)

        for name in sorted(names):
            visit(name)
        return found

    def up(self, names: Iterable[str], *, there: Iterable[str]) -> None:
        """Start these and what they depend on, but for those which are `there` already."""
        for name in self.order(names):
            if name in there:
                continue
            self._await_dependencies(name)
            if self.services[name]["restart"] == "unless-stopped":
                self._running[name] = self.spawn(name)
            else:
                self.run(name)

    def _await_dependencies(self, name: str) -> None:
        for other, wanted in self.services[name].get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                self.await_health(other)

    def await_health(self, name: str) -> None:
        """As Docker: look again until the check passes or has failed too often."""
        check = self.services[name]["healthcheck"]
        deadline = (
            time.monotonic()
            + seconds(check["start_period"])
            + (check["retries"] * seconds(check["interval"]))
        )
        while (health := self.health(name)) is not None:
            program = self._running.get(name)
            assert program is None or program.alive, (name, program.printed)
            assert time.monotonic() < deadline, (name, health, program and program.printed)
            time.sleep(1.0)  # most checks are whole processes

    def health(self, name: str) -> str | None:
        """Return the complaint of the health check; None if it passes in its time."""
        check = self.services[name]["healthcheck"]
        kind, *words = (self._local(str(word)) for word in check["test"])
        command = words if kind == "CMD" else ["sh", "-c", *words]
        assert kind in {"CMD", "CMD-SHELL"}
        try:
            done = subprocess.run(
                command,
                cwd=self._app,
                env=clean_environ(**self.environ(name)),
                capture_output=True,
                text=True,
                timeout=seconds(check["timeout"]),
            )
        except subprocess.TimeoutExpired:
            return "too slow"
        return None if done.returncode == 0 else done.stdout + done.stderr

    def pid(self, name: str) -> int:
        """The process of a service."""
        return self._running[name].process.pid

    def stop(self, name: str) -> tuple[Program, int, float]:
        """SIGTERM, as Docker sends it: what it was, exit code, seconds until it had ended."""
        program = self._running.pop(name)
        began = time.monotonic()
        program.signal(signal.SIGTERM)
        code = program.reap(seconds(self.services[name]["stop_grace_period"]))
        return program, code, time.monotonic() - began

    @property
    def running(self) -> list[str]:
        """In the order of their start."""
        return list(self._running)
