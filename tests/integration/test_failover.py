"""A standby that lacks the last commits of its primary is promoted: nothing is given out twice."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.db import connection

from reprise.postgresql.known_server import see_server
from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
from reprise.upkeep.restored import JUMP
from sessions_app.models import Project
from tests.agent import Agent
from tests.audit import audited_acts
from tests.factories import submit
from tests.prepared import ROOT, copy_database
from tests.waiting import PATIENCE_SECONDS

LOST = 500
"""Numbers that the old primary gave out, and of which the standby does not know."""
NUMBERS = """
    SELECT nextval('scheduler_fencing_token'),
        nextval(pg_get_serial_sequence('sessions_app_sessionevent', 'id'))
"""
STATE = """
    SELECT reprise_epoch(), reprise_server_known(),
        (SELECT count(*) FROM sessions_app_auditentry WHERE action = 'database.failover')
"""
LEASES = "from scheduler.locks import next_fencing_tokens; print(next_fencing_tokens(1)[0][0])"


def one(connection: "psycopg.Connection[Any]", sql: str) -> tuple[Any, ...]:
    found = connection.execute(sql).fetchone()
    assert found is not None
    return tuple(found)


@pytest.fixture
def standby(tmp_path: Path, prepared: Path) -> Iterator[EmbeddedPostgres]:
    """A standby of a primary that has gone on for a while, and is no more."""
    settings = {"wal_level": "replica", "hot_standby": "on", "fsync": "off"}
    with patch.dict(SETTINGS, settings):
        primary = EmbeddedPostgres(copy_database(prepared, tmp_path / "primary"))
        try:
            primary.start()
            primary.stop()
            shutil.copytree(tmp_path / "primary", tmp_path / "standby", symlinks=True)
            (tmp_path / "standby" / "postgres" / "standby.signal").touch()
            with psycopg.connect(primary.start(), autocommit=True) as connection:
                for _ in range(LOST):
                    one(connection, NUMBERS)
        finally:
            primary.stop()
        server = EmbeddedPostgres(tmp_path / "standby")
        try:
            server.start()
            yield server
        finally:
            server.stop()


def process(url: str, **environ: str) -> "subprocess.Popen[str]":
    """A process of the server that gives out one fencing token."""
    return subprocess.Popen(
        [sys.executable, "manage.py", "shell", "-v", "0", "-c", LEASES],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, **environ},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_meet_a_standby_that_was_promoted(standby: EmbeddedPostgres) -> None:
    with psycopg.connect(standby.url, autocommit=True) as look:
        with pytest.raises(psycopg.OperationalError, match="is a standby"):
            see_server(look)
        assert one(look, "SELECT pg_promote()") == (True,)
        (epoch, known, _) = one(look, STATE)
        assert not known, "the timeline is told before the first checkpoint, too"

        dying = process(standby.url, REPRISE_FAILPOINT="failover.before_commit")
        dying.communicate(timeout=PATIENCE_SECONDS)
        assert dying.returncode == -signal.SIGKILL
        assert one(look, STATE) == (epoch, False, 0)

        both = [process(standby.url) for _ in range(2)]
        tokens = {int(each.communicate(timeout=PATIENCE_SECONDS)[0]) for each in both}
        assert len(tokens) == 2
        assert min(tokens) > JUMP > LOST
        (later, known, entries) = one(look, STATE)
        assert (later > epoch, known, entries) == (True, True, 1)
        assert one(look, NUMBERS)[1] > JUMP

        before = one(look, NUMBERS)
        see_server(look)  # once more is nothing more
        assert one(look, NUMBERS) == tuple(each + 1 for each in before)


def test_a_second_failover_jumps_over_the_first(standby: EmbeddedPostgres) -> None:
    """The second standby may not have heard of the first one's jump."""
    with psycopg.connect(standby.url, autocommit=True) as look:
        one(look, "SELECT pg_promote()")
        look.execute("UPDATE reprise_knownserver SET timeline = timeline - 1")
        (token, _) = one(look, NUMBERS)
        see_server(look)
        assert one(look, NUMBERS)[0] == token + 2 * JUMP + 1


def test_a_primary_of_before_failovers_were_known_is_taken_as_it_is(
    standby: EmbeddedPostgres,
) -> None:
    with psycopg.connect(standby.url, autocommit=True) as look:
        one(look, "SELECT pg_promote()")
        look.execute("DELETE FROM reprise_knownserver")
        (token, event) = one(look, NUMBERS)
        see_server(look)
        assert one(look, NUMBERS) == (token + 1, event + 1)
        assert one(look, STATE)[1] is True
        look.execute("DROP FUNCTION reprise_server_known()")
        see_server(look)  # `migrate` has yet to make it


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_was_led_elsewhere_leases_nothing(at: Project, played: Agent) -> None:
    """As one through a pooler may be; the next call goes on by itself."""
    session = submit(at)
    played.lease(limits={"max_sessions": 0})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE reprise_knownserver SET timeline = timeline + 1")
    with pytest.raises(AssertionError, match="503"):
        played.lease()
    session.refresh_from_db()
    assert (session.status, session.fencing_token) == ("PENDING", None)
    connection.close()  # as at the end of each call
    assert played.lease() == [session.pk]
    session.refresh_from_db()
    assert session.fencing_token is not None
    assert session.fencing_token > JUMP
    assert audited_acts().filter(action="database.failover").count() == 1
