"""PostgreSQL below 18 compiles dear plans, and adds 10^10 for each step that a switch forbids.

Both are defaults of every installation with LLVM. The embedded server has neither.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from reprise.standalone.postgres_binaries import DEBIAN
from tests.conftest import unavailable
from tests.prepared import ROOT, made_with

FORBIDDEN = 1e10
"""What a step costs there that a switch forbids and that has no other way."""
LOGS_PLANS = {
    "shared_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "log_line_prefix": "plan of %a ",
    "fsync": "off",
}
COST = re.compile(r"cost=[0-9.]+\.\.([0-9.]+)")
ONCE = "SELECT DISTINCT ON (scheduling_key)"
"""A process asks for the size of each line once."""

pytestmark = pytest.mark.xdist_group("older")  # one server for all


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL and the log of an older PostgreSQL with a compiler, with all tables."""
    found = [each for each in DEBIAN.glob("1[4-7]/bin") if list(each.glob("../lib/llvmjit.so"))]
    if not found:
        unavailable("no PostgreSQL 14 to 17 with LLVM: apt-get install postgresql")
    directory = tmp_path_factory.mktemp("older")
    with made_with(max(found)), patch.dict(SETTINGS, LOGS_PLANS):
        server = EmbeddedPostgres(directory)
        environ = {**os.environ, "DATABASE_URL": server.start()}
        try:
            command = [sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity=0"]
            subprocess.run(command, cwd=ROOT, env=environ, check=True)
            yield server.url, directory / "postgres.log"
        finally:
            server.stop()


def test_no_plan_of_an_attempt_is_compiled_or_has_a_forbidden_step(
    older: tuple[str, Path],
) -> None:
    url, log = older
    before = log.stat().st_size
    command = [sys.executable, "-m", "benchmarks.stages", "--database", url]
    environ = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
    subprocess.run(command, cwd=ROOT, env={**environ, "PGAPPNAME": "attempts"}, check=True)
    plans = log.read_text()[before:].split("plan of attempts ")[1:]
    assert len(plans) > 200
    assert [each for each in plans if "JIT:" in each] == []
    dear = [each for each in plans if max(map(float, COST.findall(each)), default=0) >= FORBIDDEN]
    assert [each for each in dear if ONCE not in each] == []


ASKS = """
import django
django.setup()
from django.db import connection
from reprise.postgresql.direct import brief, connect
ASKED = "SELECT current_setting('jit'), current_setting('work_mem')"
with connection.cursor() as cursor:
    cursor.execute(ASKED)
    print(*cursor.fetchone())
for direct in (connect("asks"), brief("asks", 5)):
    print(*direct.execute(ASKED).fetchone())
"""


def test_connections_do_not_compile_and_keep_what_the_environment_asks_for(
    older: tuple[str, Path],
) -> None:
    environ = {
        **os.environ,
        "DATABASE_URL": older[0],
        "DJANGO_SETTINGS_MODULE": "reprise.settings",
        "PGOPTIONS": "-c work_mem=5MB",
    }
    command = [sys.executable, "-c", ASKS]
    done = subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    assert done.stdout.decode().split() == ["off", "5MB"] * 3
