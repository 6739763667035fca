"""The wheels, installed where no checkout is: what they hold, and that all of it works."""

import mimetypes
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin
from zipfile import ZipFile

import httpx
import psycopg
import pytest

from tests.acceptance.running import ROOT, Program, Standalone, clean_environ, processes_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheels")]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DEMONSTRATIONS = ("reprise/scale/", "executor/drivers/simulated/")
PAGES = ("/", "/operations/", "/admin/", "/api/v2/docs/", "/graphql/")
FLAKY = "echo here; exit $((REPRISE_ATTEMPT < 2))"


def _run(*command: str, **environ: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environ(**environ), capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def _build(folder: Path) -> dict[str, Path]:
    _run(sys.executable, "tools/dist.py", str(folder))
    return {each.name.split("-")[0] + each.suffix: each for each in folder.iterdir()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The two wheels and the two source archives, by the name of their project and their suffix."""
    return _build(tmp_path_factory.mktemp("dist"))


class Installation:
    """An environment with both wheels, and what others made of that of the tests.

    Its programs run in a directory of their own.
    """

    def __init__(self, directory: Path, wheels: list[Path]):
        self.environment = directory / "an environment"
        self.place = directory / "elsewhere"
        self.place.mkdir()
        _run(sys.executable, "-m", "venv", "--without-pip", str(self.environment))
        pip = [sys.executable, "-m", "pip", "--python", str(self.environment), "install"]
        _run(*pip, "--no-index", "--no-deps", *map(str, wheels))
        (packages,) = self.environment.glob("lib/*/site-packages")
        # What such a line names is searched for packages, but not for more lines: the checkout,
        # which is installed there by one, stays out of sight.
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))

    def command(self, name: str, *arguments: str) -> list[str]:
        """Return how to run a program of it."""
        there = ["env", "--unset=PYTHONPATH", f"--chdir={self.place}"]
        return [*there, str(self.environment / "bin" / name), *arguments]

    def run(self, name: str, *arguments: str, **environ: str) -> str:
        """Run a program to its end, which has to be good; what it wrote to standard output."""
        program = Program(self.command(name, *arguments), **environ)
        assert program.reap() == 0, program.printed
        return program.stdout


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installation:
    wheels = [each for name, each in built.items() if name.endswith(".whl")]
    return Installation(tmp_path_factory.mktemp("installed"), wheels)


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[Standalone]:
    """An installed server, of several processes."""
    options = ("--port", "0", "--web-processes", "2")
    command = installed.command("reprise-server")
    with Standalone(installed.place / "data", server=command, options=options) as standalone:
        standalone.start(REPRISE_GRAPHIQL="1")
        yield standalone
        standalone.stop()
        assert processes_of(standalone.data_dir) == []


def _held(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheels_hold_what_is_tracked_and_nothing_else(built: dict[str, Path]) -> None:
    tracked = set(_run("git", "ls-files").splitlines())
    *server, client = PROJECT["tool"]["importlinter"]["root_packages"]
    folders = tuple(f"{package}/" for package in server)
    ours = {name for name in tracked if name.startswith(folders)}
    left_out = {name for name in ours if name.startswith(DEMONSTRATIONS)}
    assert _held(built["reprise.whl"]) == ours - left_out | {"reprise_server.py"}
    theirs = (name.removeprefix("client/") for name in tracked)
    assert _held(built["reprise_client.whl"]) == {
        name for name in theirs if name.startswith(f"{client}/")
    }


def test_the_same_files_give_the_same_bytes(built: dict[str, Path], tmp_path: Path) -> None:
    again = _build(tmp_path)
    assert {name: each.read_bytes() for name, each in again.items()} == {
        name: each.read_bytes() for name, each in built.items()
    }


def test_nothing_is_taken_from_the_checkout(installed: Installation) -> None:
    modules = "reprise_server", "reprise", "scheduler", "executor", "reprise_client"
    code = (
        f"import {', '.join(modules)}; print({', '.join(f'{each}.__file__' for each in modules)})"
    )
    found = installed.run("python", "-c", code, DATABASE_URL="none")
    assert found.count(str(installed.environment / "lib")) == len(modules)


def test_the_commands_know_their_version(installed: Installation) -> None:
    version = (ROOT / "client/VERSION").read_text().strip()
    for name in ("reprise-server", "reprise"):
        assert installed.run(name, "--version") == f"reprise {version}\n"


def test_simulated_clusters_are_not_offered(installed: Installation) -> None:
    offered = installed.run("reprise-executor", "--help")
    assert "{local,kubernetes}" in offered
    assert "simulated" not in offered


def test_the_server_checks_itself(installed: Installation) -> None:
    said = installed.run("reprise-server", "check", "--fail-level=WARNING", DATABASE_URL="none")
    assert "no issues" in said


def test_a_database_gets_its_tables(installed: Installation, server: Standalone) -> None:
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE another")
        url = server.database_url.replace(f"/{connection.info.dbname}?", "/another?")
    assert url != server.database_url
    program = Program(installed.command("reprise-server", "migrate", "--check"), DATABASE_URL=url)
    assert program.reap() == 1
    installed.run("reprise-server", "migrate", "--noinput", DATABASE_URL=url)
    installed.run("reprise-server", "migrate", "--check", DATABASE_URL=url)


class Parts(HTMLParser):
    """The addresses of what a page loads."""

    def __init__(self, text: str):
        super().__init__()
        self.found: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get("src") or (given.get("href") if tag == "link" else None)
        if address:
            self.found.add(address)


def test_pages_come_with_their_styles_and_scripts(server: Standalone) -> None:
    given = server.credentials
    accept = {"Accept": "text/html"}
    with httpx.Client(base_url=given["url"], headers=accept, follow_redirects=True) as browser:
        _read(browser, "/login/")
        form = {name: given[name] for name in ("username", "password")}
        token = {"csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert browser.post("/login/", data=form | token).status_code == 200
        for page in PAGES:
            _read(browser, page)


def _read(browser: httpx.Client, page: str) -> None:
    shown = browser.get(page)
    assert (shown.status_code, shown.url.path) == (200, page)
    parts = Parts(shown.text).found
    kinds = {_loaded(browser, urljoin(page, part)) for part in parts}
    assert {"text/css", "text/javascript"} <= kinds, page


def _loaded(browser: httpx.Client, address: str) -> str:
    answer = browser.get(address)
    suffix, _ = mimetypes.guess_type(answer.url.path)
    kind = suffix or "application/javascript"  # the script of the API's documentation has none
    assert answer.status_code == 200, address
    assert answer.headers["content-type"].partition(";")[0] == kind, address
    return kind


def test_a_flaky_session_runs_to_its_end(installed: Installation, server: Standalone) -> None:
    given = server.credentials
    access = {f"REPRISE_{name.upper()}": given[name] for name in ("url", "token", "project")}
    retries = ("--retries", "3", "--retry-delay", "0.2")
    said = installed.run("reprise", "run", "any-image", *retries, "--", "sh", "-c", FLAKY, **access)
    assert said == "here\n" * 3


def test_the_demonstration_shows_its_chain(installed: Installation) -> None:
    said = installed.run(
        "reprise-server", "demo", "--exit", "--port=0", f"--data-dir={installed.place / 'demo'}"
    )
    assert "done: 42" in said
    assert f"command      '{installed.environment}/bin/reprise' login --credentials" in said
