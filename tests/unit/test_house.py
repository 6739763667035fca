"""The rules of the house hold, and the rules themselves see what they forbid."""

import tomllib

import pytest

from tests.house import (
    BIRTHS,
    PRODUCT,
    ROOT,
    SERVER,
    SQL_MADE_OF_PARTS,
    TRANSITIONS,
    Rule,
    Source,
    clocks,
    managers,
    pure_sources,
    row_locks,
    sizes,
    sources,
    sql_parts,
    statuses,
)

SERVICE = "sessions_app/services/x.py"
DOOR = "interfaces/rest/x.py"
PURE = "retry/x.py"


@pytest.mark.parametrize(
    ("rule", "folders"),
    [
        (row_locks, SERVER),
        (managers, SERVER),
        (statuses, SERVER),
        (sql_parts, PRODUCT),
        (sizes, PRODUCT),
    ],
)
def test_the_product_keeps_the_rule(rule: Rule, folders: tuple[str, ...]) -> None:
    broken = [str(breach) for source in sources(*folders) for breach in rule(source)]

    assert not broken, "\n".join(broken)


def test_pure_modules_have_no_clock() -> None:
    broken = [str(breach) for source in pure_sources() for breach in clocks(source)]

    assert not broken, "\n".join(broken)


def test_modules_that_call_themselves_pure_are_in_a_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    held = tuple(
        f"{module}."
        for contract in contracts["contracts"]
        if "pure" in contract["name"].lower()
        for module in contract["source_modules"]
    )
    left_out = [
        source.path
        for source in pure_sources()
        if not f"{_module(source)}.".removeprefix("client.").startswith(held)
    ]

    assert not left_out, f"add to a contract about purity in pyproject.toml: {left_out}"


def _module(source: Source) -> str:
    return source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_every_exception_is_one() -> None:
    for path in SQL_MADE_OF_PARTS:
        assert list(sql_parts(Source("x.py", (ROOT / path).read_text()))), path
    for path in (*BIRTHS, TRANSITIONS):
        assert list(statuses(Source("x.py", (ROOT / path).read_text()))), path


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (row_locks, SERVICE, "rows.select_for_update(no_key=True).first()"),
        (row_locks, SERVICE, 'LOCK = "SELECT id FROM t FOR UPDATE"'),
        (row_locks, SERVICE, 'LOCK = "SELECT id FROM t FOR NO KEY UPDATE OF t SKIP LOCKED"'),
        (row_locks, SERVICE, 'LOCK = f"SELECT {COLUMNS} FROM t FOR SHARE"'),
        (row_locks, SERVICE, 'sql += " FOR KEY\\n  SHARE OF p"'),
        (managers, DOOR, "Queue.objects.all()"),
        (managers, "interfaces/admin/x.py", "self.model._default_manager.none()"),
        (managers, "interfaces/admin/x.py", "Lease.objects.filter()"),
        (
            statuses,
            SERVICE,
            "sql = \"UPDATE sessions_app_session SET a = 1, status = 'ERROR' WHERE id = 1\"",
        ),
        (statuses, SERVICE, 'sql = f"UPDATE sessions_app_session s SET {columns} WHERE s.id = 1"'),
        (statuses, SERVICE, 'sql = "INSERT INTO sessions_app_session (id) VALUES (1)"'),
        (statuses, SERVICE, 'sql = inserted("sessions_app_session", BORN)'),
        (statuses, SERVICE, "session.retry_state = 'held'"),
        (statuses, SERVICE, "Session.objects.filter(pk=1).update(phase='final')"),
        (statuses, SERVICE, "Session.objects.create(name='x')"),
        (clocks, PURE, "import time"),
        (clocks, PURE, "from random import random"),
        (clocks, PURE, "from random import Random\nrandom = Random()"),
        (clocks, PURE, "from uuid import UUID, uuid4"),
        (clocks, PURE, "import datetime\nnow = datetime.datetime.now(UTC)"),
        (clocks, PURE, "now = timezone.now()"),
        (sql_parts, SERVICE, 'f"SELECT id FROM t WHERE name = {name}"'),
        (sql_parts, SERVICE, 'f"DELETE FROM {table(1)}"'),
        (sizes, SERVICE, "x = 1\n" * 401),
        (sizes, SERVICE, "def f():\n" + "    x = 1\n" * 40),
        (sizes, DOOR, "def get():\n" + "    x = 1\n" * 25),
    ],
)
def test_a_breach_is_seen(rule: Rule, path: str, text: str) -> None:
    (breach,) = rule(Source(path, text))

    assert str(breach).startswith(f"{path}:")


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (row_locks, "sessions_app/locks/x.py", "rows.select_for_update()"),
        (row_locks, "scheduler/locks.py", 'LOCK = "SELECT id FROM t FOR UPDATE"'),
        (row_locks, SERVICE, '"""A row FOR UPDATE is told of here."""'),
        (managers, SERVICE, "Queue.objects.all()"),
        (statuses, SERVICE, 'sql = "UPDATE sessions_app_session SET node = 1 WHERE status = 2"'),
        (statuses, SERVICE, 'sql = "UPDATE sessions_app_sessionspec SET status = 1"'),
        (statuses, SERVICE, "self.status = 200"),
        (clocks, PURE, "from datetime import datetime, time\nat = datetime.min"),
        (clocks, PURE, "from random import Random\nrandom = Random(seed)"),
        (sql_parts, SERVICE, 'f"SELECT {COLUMNS} FROM t WHERE id = %s"'),
        (sizes, SERVICE, 'def f():\n    """Say\n    it.\n    """\n' + "    x = 1\n" * 39),
        (sizes, SERVICE, "def get():\n" + "    x = 1\n" * 39),
    ],
)
def test_allowed_exceptions_pass(rule: Rule, path: str, text: str) -> None:
    assert not list(rule(Source(path, text)))
