"""One server and two clusters for all these tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.running import Standalone
from tests.kubernetes.agent import purge
from tests.kubernetes.apiserver import ApiServer, binaries
from tests.kubernetes.clusters.land import TIMES, Land
from tests.kubernetes.kubelet import Kubelet
from tests.prepared import copy_database


@pytest.fixture(scope="package")
def land(
    api: ApiServer,
    kubelet: Kubelet,
    prepared: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Land]:
    """`west` and `east` are executors beside the API server of all tests, which take nothing yet.

    `east` does not wait long for pods that outstay their deletion.
    """
    directory = tmp_path_factory.mktemp("clusters")
    with Standalone(copy_database(prepared, directory / "data")) as server:
        server.start(**TIMES)
        made = Land(server, directory)
        made.hurry()
        made.client.executor_cordon("local", "the sessions are pods")
        made.add("west", api)
        made.add("east", api, "--unconfirmed-after", "1")
        try:
            yield made
            assert server.violations() == []
        finally:
            made.close()
            purge(api)


@pytest.fixture(scope="package")
def other_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    assets = binaries()
    assert assets is not None
    with ApiServer(tmp_path_factory.mktemp("other-apiserver"), assets) as server:
        yield server
