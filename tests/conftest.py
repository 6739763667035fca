"""What all tests share: a real PostgreSQL, found in the environment or started for the run."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

REQUIRED = os.environ.get("REPRISE_REQUIRE_SERVICES") == "1"


def unavailable(reason: str) -> None:
    """Skip with a reason and the way to get what is missing; in CI, fail."""
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups that are silently not kept would make every member set up what the group shares."""
    if session.config.getoption("loadgroup", default=False):
        grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
        lost = [item.nodeid for item in grouped if "@" not in item.nodeid]
        assert not lost, f"pytest-xdist does not group {lost[0]}: is this pytest too new for it?"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
) -> Iterator[None]:
    """Without `DATABASE_URL`, the embedded PostgreSQL serves the tests, too."""
    if os.environ.get("DATABASE_URL"):
        yield
        return
    from reprise.standalone.postgres import SETTINGS, EmbeddedPostgres
    from reprise.standalone.server import use_database

    directory = Path(tempfile.mkdtemp(prefix="reprise-tests-"))
    server = EmbeddedPostgres(directory)
    # Nobody asks this one what it kept through a loss of power.
    with patch.dict(SETTINGS, fsync="off"):
        use_database(server.start())
    try:
        yield
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
