"""The API of a cluster in raw JSON. Only this module imports the `kubernetes` client.

The client gives configuration, authentication and connections. Its models would cost eight times as
much as the JSON that they are read from, and its watches have neither timeouts nor retries.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yaml
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from executor.clock import boottime
from executor.drivers.kubernetes.access import Access, state_of
from executor.drivers.kubernetes.api_refusals import (
    ApiRefusal,
    Object,
    OwnTrouble,
    Transient,
    refusal_of,
)

PAGE = 500
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
SILENT_SECONDS = 120.0
RELOAD_SECONDS = 1.0
LONGEST_LINE = 32 << 20
"""Longest event of a watch, in bytes. An object has two million at most."""
OPENED = "OPENED"
"""The kind that precedes the events of a watch: the cluster has accepted the watch."""
JSON_KIND = "application/json"
PATCH_KIND = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Listed:
    """The objects that existed at `version`.

    The list was asked for at `began` (boot time) or later.
    """

    items: list[Object]
    version: str
    began: float


class Cluster:
    """The calls to one API server, all on one event loop.

    Every call raises the errors that `ApiRefusal` names. A call waits `answer_seconds` for its
    answer. If the API server answers 429, all calls wait.
    """

    def __init__(self, access: Access, answer_seconds: float = ANSWER_SECONDS):
        self._access = access
        self._answer_seconds = answer_seconds
        self._quiet_until = 0.0
        self._client: ApiClient | None = None
        self._loaded_at = self._looked_at = 0.0
        self._files: list[Path] = []
        self._state = state_of([])
        self._loading = asyncio.Lock()
        self._retired: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        for each in self._retired:
            each.cancel()
        if self._client is not None:
            await self._client.close()

    async def list(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        take: Callable[[Object], Object] | None = None,
    ) -> Listed:
        """List all objects, and keep only what `take` returns of each.

        A whole object takes some 20 KB of memory.
        """
        items: list[Object] = []
        began, version = boottime(), ""
        async for page in self.pages(path, labels=labels, fields=fields):
            items += map(take, page.items) if take else page.items
            version = page.version
        return Listed(items, version, began)

    async def pages(
        self, path: str, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listed]:
        """Yield the list page by page, so that neither side has to wait for the other."""
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE)}
        began = boottime()
        while True:
            page = await self.call("GET", path, query)
            if "items" not in page:
                # An empty list here would mean that all objects are gone.
                raise Transient(f"no list: {page.get('kind')}")
            metadata = page["metadata"]
            yield Listed(page["items"] or [], str(metadata.get("resourceVersion", "")), began)
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def version(self, path: str) -> str:
        """Return the present version of the list, to start a watch from."""
        page = await self.call("GET", path, {"limit": "1"})
        return str(page["metadata"].get("resourceVersion", ""))

    async def watch(
        self, path: str, version: str, *, seconds: float, labels: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield `OPENED`, then the events since `version`, for at most `seconds`.

        Raises `Expired` if `version` is too old. A connection that stays silent for much longer
        than it should counts as lost.
        """
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        silence = seconds + self._answer_seconds / 2
        limits = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=silence)
        async with self._answer("GET", path, query, timeout=limits) as answer:
            yield OPENED, {}
            async for line in _lines(answer):
                event = _object(line)
                kind, found = str(event.get("type")), event.get("object")
                if not isinstance(found, dict):
                    raise ValueError(f"an event without an object: {line[:200]!r}")
                if kind == "ERROR":
                    raise refusal_of(int(found.get("code") or 500), found)
                yield kind, _with_metadata(found)

    async def create(self, path: str, body: Mapping[str, Any], *, dry: bool = False) -> Object:
        return await self.call("POST", path, {"dryRun": "All"} if dry else {}, body)

    async def delete(
        self, path: str, uid: str, grace: int | None, *, version: str | None = None
    ) -> None:
        """Delete the object with this uid; with `grace` None it gets its own grace period.

        With `version` it is refused if the object has changed since that version.
        """
        same = {"uid": uid} if version is None else {"uid": uid, "resourceVersion": version}
        body: Object = {"preconditions": same}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        await self.call("DELETE", path, body=body)

    async def drop_finalizer(self, path: str, uid: str, finalizer: str) -> None:
        """Remove one finalizer from the object with this uid; other finalizers stay.

        The finalizer must be there: the patch would add it otherwise.
        """
        change = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}}
        await self.call("PATCH", path, body=change, kind=PATCH_KIND)

    async def drop_annotation(self, path: str, uid: str, annotation: str) -> None:
        """Remove an annotation from the object with this uid."""
        change = {"metadata": {"uid": uid, "annotations": {annotation: None}}}
        await self.call("PATCH", path, body=change, kind=PATCH_KIND)

    async def log(
        self, path: str, container: str, *, since: str, follow: bool
    ) -> AsyncIterator[bytes]:
        """Yield the log of a container in pieces, with the time before each line.

        `since` is a moment in RFC 3339, "" for the whole log. With `follow` it goes on until the
        log ends or stays silent for long, as the connection may be lost.
        """
        query = {"container": container, "follow": "true" if follow else "", "sinceTime": since}
        limits = aiohttp.ClientTimeout(
            sock_connect=CONNECT_SECONDS,
            sock_read=SILENT_SECONDS if follow else self._answer_seconds,
        )
        query["timestamps"] = "true"
        async with self._answer("GET", f"{path}/log", query, timeout=limits) as answer:
            async for piece in answer.content.iter_any():
                yield piece

    async def log_end(self, path: str, container: str, *, lines: int, size: int) -> bytes:
        """Return the last `lines` of a container's log, of these at most the last `size` bytes."""
        # With `limitBytes` the node would leave out the end of these lines, not their beginning.
        query = {"container": container, "tailLines": str(lines)}
        limits = aiohttp.ClientTimeout(total=self._answer_seconds, sock_connect=CONNECT_SECONDS)
        end = bytearray()
        async with self._answer("GET", f"{path}/log", query, timeout=limits) as answer:
            async for piece in answer.content.iter_any():
                end += piece
                if len(end) > 2 * size:
                    del end[:-size]
        return bytes(end[-size:])

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        kind: str = JSON_KIND,
    ) -> Object:
        limits = aiohttp.ClientTimeout(total=self._answer_seconds, sock_connect=CONNECT_SECONDS)
        async with self._answer(method, path, query, body, kind=kind, timeout=limits) as answer:
            return _with_metadata(_object(await answer.read()))

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        kind: str = JSON_KIND,
        timeout: aiohttp.ClientTimeout,  # per socket operation, not for the whole call
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        asked = urlencode({name: value for name, value in (query or {}).items() if value})
        address = f"{path}?{asked}" if asked else path
        await self._have_patience()
        try:
            answer = await self._send(method, address, body, kind, timeout)
            async with answer:
                if answer.status >= 400:
                    raise await self._refused(answer, making=method == "POST")
                yield answer
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:
            unsure = not isinstance(error, _NEVER_LEFT)
            message = f"{type(error).__name__}: {error}".rstrip(": ")
            raise Transient(message, unsure=unsure) from error

    async def _have_patience(self) -> None:
        while (left := self._quiet_until - time.monotonic()) > 0:
            # Callers that waited together must not come back together.
            await asyncio.sleep(left + random.uniform(0.0, 0.5))  # noqa: S311

    async def _refused(self, answer: aiohttp.ClientResponse, *, making: bool) -> ApiRefusal:
        status = _json(await answer.read())
        refusal = refusal_of(answer.status, status, answer.headers, making=making)
        if answer.status == 429 and isinstance(refusal, Transient):
            self._quiet_until = max(self._quiet_until, time.monotonic() + refusal.after)
        return refusal

    async def _send(
        self, method: str, address: str, body: Any, kind: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Return the answer. After a 401, read the credentials again and try once more."""
        client = await self._connected(None)
        answer = await _request(client, method, address, body, kind, timeout)
        if answer.status != 401:
            return answer
        fresh = await self._connected(client)
        if fresh is client:
            return answer
        answer.release()
        return await _request(fresh, method, address, body, kind, timeout)

    async def _connected(self, refused: ApiClient | None) -> ApiClient:
        """Return a client with other credentials than `refused`, unless these were read just
        now.

        If a file has changed from which the credentials were read, they are read again.
        """
        async with self._loading:
            known = self._client
            recent = time.monotonic() < self._loaded_at + RELOAD_SECONDS
            wanted = known is not refused and not self._changed()
            if known is not None and (wanted or recent):
                return known
            self._loaded_at = time.monotonic()
            try:
                files = self._access.files()
                state = state_of(files)
                self._client = _Client(await self._configuration())
                self._files, self._state = files, state
            except _UNREADABLE as error:
                if known is not None:
                    return known
                raise OwnTrouble(f"no access to the cluster: {error}") from error
            if known is not None:
                self._retire(known)
            return self._client

    def _changed(self) -> bool:
        """Return whether a file of the credentials has changed. It looks once a second."""
        now = time.monotonic()
        if now < self._looked_at + RELOAD_SECONDS:
            return False
        self._looked_at = now
        return state_of(self._files) != self._state

    def _retire(self, client: ApiClient) -> None:
        """Close a client later, when no call can be using it any more.

        A call on a closed client would look like an error of ours instead of a refusal of the
        cluster.
        """

        async def close() -> None:
            await asyncio.sleep(self._answer_seconds)
            await client.close()

        task = asyncio.create_task(close())
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)

    async def _configuration(self) -> Configuration:
        configuration = Configuration()
        if self._access.in_cluster:
            load_incluster_config(configuration)
        else:
            await load_kube_config(
                config_file=str(self._access.kubeconfig) if self._access.kubeconfig else None,
                context=self._access.context,
                client_configuration=configuration,
                persist_config=False,
            )
        # Followed logs take a connection each. Other limits bound the rest.
        configuration.connection_pool_maxsize = 0
        # With `trust_env`, aiohttp reads the netrc file for each call in a thread. If that has a
        # password for this host, or for any host, aiohttp refuses to send the token.
        configuration.client_session_kwargs = {"trust_env": False}
        configuration.proxy = configuration.proxy or _proxy(configuration.host)
        return configuration


class _Client(ApiClient):
    def sanitize_for_serialization(self, obj: Any) -> Any:
        """Return the object as it is: what we send is JSON already."""
        return obj


_NEVER_LEFT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# A file that is being written may hold only half of its text.
_UNREADABLE = (ConfigException, OSError, ValueError, TypeError, yaml.YAMLError)


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for this address."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


async def _request(
    client: ApiClient,
    method: str,
    address: str,
    body: Any,
    kind: str,
    timeout: aiohttp.ClientTimeout,
) -> aiohttp.ClientResponse:
    method, url, headers, sent, _ = await client.param_serialize(
        method,
        address,
        header_params={"Content-Type": kind, "Accept": f"{JSON_KIND}, */*"},
        body=body,
        auth_settings=["BearerToken"],
    )
    answer = await client.call_api(method, url, headers, sent, _request_timeout=timeout)
    response: aiohttp.ClientResponse = answer.response
    return response


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of the answer, up to the length that an object can have."""
    rest = bytearray()
    async for piece in answer.content.iter_any():
        rest += piece
        if b"\n" in piece:
            *lines, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in lines:
                if line.strip():
                    yield bytes(line)
        if len(rest) > LONGEST_LINE:
            raise ValueError(f"an event of more than {LONGEST_LINE} bytes")


def _json(data: bytes) -> Object:
    try:
        parsed = json.loads(data)
    except ValueError:
        parsed = None
    return (
        parsed if isinstance(parsed, dict) else {"message": data[:500].decode("utf-8", "replace")}
    )


def _object(data: bytes) -> Object:
    """Return the JSON object in these bytes. Raises `ValueError` if there is none."""
    parsed = json.loads(data)
    if not isinstance(parsed, dict):
        raise ValueError("an answer that is not an object")
    return parsed


def _with_metadata(item: Object) -> Object:
    """Return the object, which must have `metadata` like all answers. Raises `ValueError`."""
    if not isinstance(item.get("metadata"), dict):
        raise ValueError("an object without metadata")
    return item
