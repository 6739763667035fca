"""The way to an API server through the proxy that the environment names."""

import asyncio
import json
from pathlib import Path

import pytest

from executor.drivers.kubernetes.access import Access
from executor.drivers.kubernetes.api import Cluster
from executor.drivers.kubernetes.api_refusals import Transient


@pytest.mark.parametrize("spared", [False, True])
def test_the_proxy_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spared: bool
) -> None:
    asked: list[bytes] = []
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "far",
                "clusters": [{"name": "far", "cluster": {"server": "https://cluster.invalid:1"}}],
                "users": [{"name": "far", "user": {"token": "secret"}}],
                "contexts": [{"name": "far", "context": {"cluster": "far", "user": "far"}}],
            }
        )
    )

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    async def call() -> None:
        proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("NO_PROXY", "cluster.invalid" if spared else "")
        for name in ("https_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        cluster = Cluster(Access(kubeconfig))
        async with proxy:
            with pytest.raises(Transient):
                await cluster.call("GET", "/api/v1/nodes")
        await cluster.close()

    asyncio.run(call())
    # A GET that got no answer is sent once more.
    assert {line.split()[1] for line in asked} == (set() if spared else {b"cluster.invalid:1"})
