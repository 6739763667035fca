"""Plays the nodes of a cluster that has none: binds pods, runs their commands as processes of this
machine, says through the status subresource what becomes of them, and serves their logs."""

import asyncio
import base64
import json
import os
import signal
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import aiohttp
from aiohttp import web

from tests.kubernetes.apiserver import ADMIN, ApiServer
from tests.waiting import PATIENCE_SECONDS

Object = dict[str, Any]
PATCH = "application/strategic-merge-patch+json"


NO_CONFIG = {"waiting": {"reason": "CreateContainerConfigError", "message": "secret not found"}}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Kubelet:
    """One thread plays `nodes` nodes. `mine(pod)` says whether it looks after a pod at all; a test
    does what it likes with the others. With `instant`, nothing runs: pods succeed at once.

    Stopped, it takes what runs with it, as a power cut does; the next one on the same API server
    calls the pods that it finds there failed, as nodes do that were down."""

    def __init__(self, server: ApiServer, *, nodes: int = 2, instant: bool = False):
        self._server = server
        self.nodes = [f"node-{number}" for number in range(nodes)]
        self.mine: Callable[[Object], bool] = lambda _pod: True
        self.rotated: dict[str, int] = {}
        """How many lines of the log of a pod (by its name) are in files that are not served."""
        self.log_calls = 0
        self.cut_logs = False
        """Connections of logs end in the middle."""
        self._instant = instant
        self._bound = 0
        self._booting = True
        self._pods: dict[str, asyncio.Task[None]] = {}
        self._doomed: dict[str, asyncio.Event] = {}
        self._logs = Path(tempfile.mkdtemp(prefix="kubelet-", dir=server.directory))
        self._context = ssl.create_default_context(cafile=str(server.certificate))
        self._loop = asyncio.new_event_loop()
        self._ready = Event()
        self._thread = Thread(target=self._serve, name="kubelet", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._main.cancel)
            self._thread.join(PATIENCE_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._play())
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        self._loop.run_until_complete(self._clear_up())
        self._loop.close()

    async def _clear_up(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._runner.cleanup()
        # Connections under TLS take some turns of the loop to close.
        await asyncio.sleep(0.5)

    async def _play(self) -> None:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as self._http:
            port = await self._serve_logs()
            for name in self.nodes:
                await self._join(name, port)
            self._ready.set()
            while True:
                with suppress(aiohttp.ClientError, TimeoutError, OSError):
                    await self._watch()
                await asyncio.sleep(0.2)

    async def _join(self, name: str, port: int) -> None:
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti"}
        labels = {"kubernetes.io/hostname": name}
        await self._call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        status = {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await self._call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        # Admission calls a new node not ready, and there is no controller that thinks better of it.
        await self._call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    async def _watch(self) -> None:
        listed = await self._call("GET", "/api/v1/pods")
        for pod in listed["items"]:
            self._seen("ADDED", pod)
            if self._booting and pod["status"]["phase"] == "Running" and self.mine(pod):
                await self._find_dead(pod)
        self._booting = False
        query = f"watch=true&resourceVersion={listed['metadata']['resourceVersion']}"
        url = f"{self._server.url}/api/v1/pods?{query}"
        patience = aiohttp.ClientTimeout(total=None)
        rest = b""
        async with self._http.get(url, timeout=patience) as answer:
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    self._seen(event["type"], event["object"])

    def _seen(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            if doomed := self._doomed.pop(uid, None):
                doomed.set()
            self._pods.pop(uid, None)
            return
        if not self.mine(pod):
            return
        if uid not in self._pods and pod["status"].get("phase") == "Pending":
            if "deletionTimestamp" in pod["metadata"]:
                return
            self._doomed[uid] = asyncio.Event()
            self._pods[uid] = asyncio.ensure_future(self._live(pod, self._doomed[uid]))
            self._pods[uid].set_name(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        if "deletionTimestamp" in pod["metadata"] and uid in self._doomed:
            self._doomed[uid].set()

    async def _live(self, pod: Object, doomed: asyncio.Event) -> None:
        path = _path(pod)
        self._bound += 1
        node = pod["spec"].get("nodeName") or self.nodes[self._bound % len(self.nodes)]
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            name = pod["metadata"]["name"]
            binding = {"metadata": {"name": name}, "target": target}
            await self._call("POST", f"{path}/binding", binding)
        if self._instant:
            await self.set_status(pod, "Succeeded", _ended(0, "Completed"))
            return
        environ = await self._environ(pod, doomed)
        if environ is None:
            await self.set_status(pod, "Failed", NO_CONFIG)
        else:
            await self.set_status(pod, "Running", {"running": {"startedAt": now()}})
            await self._end(pod, await self._run(pod, doomed, environ))
        if doomed.is_set():
            body: Object = {"gracePeriodSeconds": 0}
            body["preconditions"] = {"uid": pod["metadata"]["uid"]}
            await self._call("DELETE", path, body)

    async def _end(self, pod: Object, code: int | None) -> None:
        phase, reason = ("Succeeded", "Completed") if code == 0 else ("Failed", "Error")
        more: Object = {}
        if code is None:
            code, phase, more = 137, "Failed", {"reason": "DeadlineExceeded"}
        await self.set_status(pod, phase, _ended(code, reason), **more)

    async def _find_dead(self, pod: Object) -> None:
        await self.set_status(pod, "Failed", _ended(137, "ContainerStatusUnknown"))
        if "deletionTimestamp" in pod["metadata"]:
            await self._call("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    async def set_status(self, pod: Object, phase: str, state: Object, **more: Any) -> None:
        """The same state for each container."""
        statuses = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "sha256:0",
                "ready": phase == "Running",
                "restartCount": 0,
                "state": state,
                "lastState": {},
            }
            for container in pod["spec"]["containers"]
        ]
        status = {"phase": phase, "containerStatuses": statuses, **more}
        await self._call("PATCH", f"{_path(pod)}/status", {"status": status})

    async def _run(self, pod: Object, doomed: asyncio.Event, environ: dict[str, str]) -> int | None:
        """The exit code of the main container's command, None if its time was over."""
        container = pod["spec"]["containers"][0]
        command = [word.replace("$$", "$") for word in container.get("command") or ["true"]]
        with self._log_of(pod, container["name"]).open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=log, env={**os.environ, **environ}, process_group=0
            )
        ending = asyncio.ensure_future(process.wait())
        asked = asyncio.ensure_future(doomed.wait())
        try:
            limit = pod["spec"].get("activeDeadlineSeconds")
            both = {ending, asked}
            await asyncio.wait(both, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            late = not ending.done() and not asked.done()
            if not ending.done():
                _signal(process.pid, signal.SIGTERM)
                await asyncio.wait({ending}, timeout=await self._grace(pod))
        finally:
            asked.cancel()
            _signal(process.pid, signal.SIGKILL)
        code = await ending
        if late:
            return None
        return code if code >= 0 else 128 - code

    async def _environ(self, pod: Object, doomed: asyncio.Event) -> dict[str, str] | None:
        """The variables of the main container; while a Secret is missing they are waited for, and
        there are none if the pod goes meanwhile."""
        secrets = f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets"
        environ: dict[str, str] = {}
        for each in pod["spec"]["containers"][0].get("env") or ():
            environ[each["name"]] = each.get("value", "")
            key = each.get("valueFrom", {}).get("secretKeyRef")
            while key and not environ[each["name"]]:
                secret = await self._call("GET", f"{secrets}/{key['name']}")
                if "data" in secret:
                    environ[each["name"]] = base64.b64decode(secret["data"][key["key"]]).decode()
                    break
                await self.set_status(pod, "Pending", NO_CONFIG)
                with suppress(TimeoutError):
                    await asyncio.wait_for(doomed.wait(), 0.2)
                    return None
        return environ

    async def _grace(self, pod: Object) -> float:
        with suppress(aiohttp.ClientError):
            metadata = (await self._call("GET", _path(pod)))["metadata"]
            return float(metadata.get("deletionGracePeriodSeconds") or 0)
        return 0.0

    async def _call(self, method: str, path: str, body: Any = None) -> Object:
        """The answer, which is waited for until the API server is there again."""
        while True:
            try:
                return await self._ask(method, path, body)
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
                await asyncio.sleep(0.2)

    async def _ask(self, method: str, path: str, body: Any) -> Object:
        """The answer; a conflict, or that there is nothing there any more, is one."""
        kind = PATCH if method == "PATCH" else "application/json"
        async with self._http.request(
            method, self._server.url + path, json=body, headers={"Content-Type": kind}
        ) as answer:
            parsed: Object = await answer.json()
            if answer.status >= 400 and answer.status not in {404, 409}:
                raise aiohttp.ClientError(f"{method} {path}: {parsed}")
            return parsed

    def write_log(self, pod: Object, container: str, data: bytes) -> None:
        """Serve this log of a container that does not run here."""
        self._log_of(pod, container).write_bytes(data)

    def _log_of(self, pod: Object, container: str) -> Path:
        metadata = pod["metadata"]
        return self._logs / f"{metadata['namespace']}.{metadata['name']}.{container}"

    async def _serve_logs(self) -> int:
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._give_log)
        runner = self._runner = web.AppRunner(application, shutdown_timeout=1)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._server.certificate, self._server.directory / "server.key")
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    async def _give_log(self, request: web.Request) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["pod"]
        path = self._logs / f"{namespace}.{name}.{request.match_info['container']}"
        if not path.exists():
            return web.Response(status=404, text="no log")
        if last := int(request.query.get("tailLines", "0")):
            whole = path.read_bytes().splitlines(keepends=True)
            return web.Response(body=b"".join(whole[-last:]))
        self.log_calls += 1
        answer = web.StreamResponse()
        await answer.prepare(request)
        follow = request.query.get("follow") == "true"
        lines = _Lines(request.query, self.rotated.get(name, 0))
        with path.open("rb") as log:
            while True:
                living = self._lives(namespace, name)
                data = log.read()
                if data:
                    await answer.write(lines.served(data))
                elif not follow or not living:
                    return answer
                elif self.cut_logs and request.transport:
                    request.transport.close()
                    return answer
                else:
                    await asyncio.sleep(0.05)

    def _lives(self, namespace: str, name: str) -> bool:
        return any(
            not task.done() and task.get_name() == f"{namespace}/{name}"
            for task in self._pods.values()
        )


class _Lines:
    """The lines of a log as they are served: a thousand have been written in a second each."""

    def __init__(self, query: Mapping[str, str], rotated: int):
        self._stamped = query.get("timestamps") == "true"
        since = datetime.fromisoformat(query.get("sinceTime", "1970-01-01T00:00:00Z"))
        self._first = max(rotated, int(since.timestamp()) * 1000)
        self._number = 0
        self._inside = False

    def served(self, data: bytes) -> bytes:
        answer = []
        for piece in data.splitlines(keepends=True):
            if self._number >= self._first:
                answer += [] if self._inside or not self._stamped else [self._stamp()]
                answer.append(piece)
            self._inside = not piece.endswith(b"\n")
            self._number += not self._inside
        return b"".join(answer)

    def _stamp(self) -> bytes:
        second = datetime.fromtimestamp(self._number // 1000, UTC)
        return f"{second:%Y-%m-%dT%H:%M:%S}.{self._number % 1000:09d}Z ".encode()


def _path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _ended(code: int, reason: str) -> Object:
    at = now()
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at}}


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
