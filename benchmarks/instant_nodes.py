"""Plays the scheduler and the nodes for the pods of one namespace, with the least possible work.

Each pod is bound as soon as it exists and succeeds at once. Its log is one line. It runs in its own
process.

python -m benchmarks.instant_nodes SERVER_DIRECTORY SERVER_URL TOKEN NAMESPACE
"""

import asyncio
import json
import ssl
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

Object = dict[str, Any]

NODES = 2
AT_ONCE = 32
AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "10000"}
_PATCH = {"Content-Type": "application/merge-patch+json"}


class InstantNodes:
    """The scheduler and the nodes. `directory` has the API server's certificate and key."""

    def __init__(self, directory: Path, url: str, namespace: str):
        self._directory = directory
        self._url = url
        self._pods = f"{url}/api/v1/namespaces/{namespace}/pods"
        self._calls = asyncio.Semaphore(AT_ONCE)
        self._begun: dict[str, asyncio.Task[None]] = {}
        self._http: aiohttp.ClientSession

    async def play(self, token: str) -> None:
        """Play until cancelled. It prints `ready` when the nodes exist."""
        trust = ssl.create_default_context(cafile=str(self._directory / "server.crt"))
        headers = {"Authorization": f"Bearer {token}"}
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            headers=headers, connector=connector, timeout=limits
        ) as self._http:
            port = await self._serve_logs()
            for number in range(NODES):
                await self._join(f"node-{number}", port)
            print("ready", flush=True)
            await self._watch()

    async def _join(self, name: str, port: int) -> None:
        nodes = f"{self._url}/api/v1/nodes"
        await self._call("POST", nodes, {"metadata": {"name": name}})
        status = {
            "allocatable": AMOUNTS,
            "capacity": AMOUNTS,
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await self._call("PATCH", f"{nodes}/{name}/status", {"status": status})
        await self._call("PATCH", f"{nodes}/{name}", {"spec": {"taints": None}})

    async def _watch(self) -> None:
        rest = b""
        async with self._http.get(f"{self._pods}?watch=true") as answer:
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    self._seen(json.loads(line))

    def _seen(self, event: Object) -> None:
        pod = event["object"]
        name = pod["metadata"]["name"]
        if event["type"] == "DELETED":
            self._begun.pop(name, None)
        elif name not in self._begun:
            self._begun[name] = asyncio.create_task(self._run(pod, len(self._begun) % NODES))

    async def _run(self, pod: Object, number: int) -> None:
        name, at = pod["metadata"]["name"], f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number}"}
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
        statuses = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "sha256:0",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
                "lastState": {},
            }
            for container in pod["spec"]["containers"]
        ]
        status = {"phase": "Succeeded", "containerStatuses": statuses}
        async with self._calls:
            binding = {"metadata": {"name": name}, "target": target}
            await self._call("POST", f"{self._pods}/{name}/binding", binding)
            await self._call("PATCH", f"{self._pods}/{name}/status", {"status": status})

    async def _call(self, method: str, url: str, body: Object) -> None:
        headers = _PATCH if method == "PATCH" else {}
        async with self._http.request(method, url, json=body, headers=headers) as answer:
            content = await answer.read()
            if answer.status >= 400:
                raise SystemExit(f"{method} {url}: {content.decode()}")

    async def _serve_logs(self) -> int:
        async def log(_request: web.Request) -> web.Response:
            return web.Response(body=b"hello\n")

        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", log)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / "server.crt", self._directory / "server.key")
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port: int = runner.addresses[0][1]
        return port


async def _main(directory: str, url: str, token: str, namespace: str) -> None:
    await InstantNodes(Path(directory), url, namespace).play(token)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
