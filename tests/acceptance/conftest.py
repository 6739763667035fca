"""One standalone server for all tests that leave it running, and a tab of one browser for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from reprise_client import Client

from tests.acceptance.browsing import browser, chromium
from tests.acceptance.running import Standalone
from tests.prepared import copy_database

__all__ = ["browser", "chromium"]

SHARED = ("standalone", "chromium")
"""Whoever uses one of these fixtures runs where it is: each process would have one of its own."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups here, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def standalone(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Runs for the whole test run; whoever stops or kills it wants one of its own."""
    data_dir = copy_database(prepared, tmp_path_factory.mktemp("standalone") / "data")
    with Standalone(data_dir) as server:
        # Receivers of webhooks are on this machine.
        server.start(REPRISE_WEBHOOK_ALLOWED_NETWORKS="127.0.0.0/8", REPRISE_WEBHOOK_ALLOW_HTTP="1")
        yield server
        assert server.violations() == []
        server.stop()


@pytest.fixture
def client(standalone: Standalone) -> Client:
    """A cluster admin's."""
    return standalone.client
