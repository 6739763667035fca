"""One API server for all these tests, with nodes that are played."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor_fake import FakeServer
from tests.kubernetes.agent import PodAgent, purge
from tests.kubernetes.apiserver import EXECUTOR, ApiServer, binaries
from tests.kubernetes.kubelet import Kubelet


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    assets = binaries()
    if assets is None:
        # Nowhere required: no package of a distribution has it.
        pytest.skip(
            "no kube-apiserver: point KUBEBUILDER_ASSETS at a directory with etcd and"
            " kube-apiserver, such as setup-envtest makes"
        )
    with ApiServer(tmp_path_factory.mktemp("apiserver"), assets) as server:
        yield server


@pytest.fixture(scope="session")
def kubelet(api: ApiServer) -> Iterator[Kubelet]:
    played = Kubelet(api)
    played.start()
    yield played
    played.stop()


@pytest.fixture
def executor_token(api: ApiServer) -> str:
    """Of a user that has the rights of an executor."""
    api.grant_executor()
    return EXECUTOR


@pytest.fixture
def pods(
    api: ApiServer, kubelet: Kubelet, server: FakeServer, executor_token: str, tmp_path: Path
) -> Iterator[PodAgent]:
    """An agent that is not started yet."""
    agent = PodAgent(server.url, tmp_path, api, api.kubeconfig("executor", executor_token))
    yield agent
    agent.kill()
    kubelet.mine = lambda _pod: True
    purge(api)


@pytest.fixture
def agent(pods: PodAgent) -> PodAgent:
    pods.start()
    return pods


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.stop()
