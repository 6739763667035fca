"""A cluster's API in raw JSON. Alone imports the `kubernetes` client.

The client gives configuration, authentication and connections. Its models would cost eight times as
much as the JSON that they are read from, and its watches know neither timeouts nor patience.
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
"""Bytes of an event of a watch: an object has two million at most."""
OPENED = "OPENED"
"""Comes before the events of a watch: the cluster has agreed to tell them."""
JSON_KIND = "application/json"
PATCH_KIND = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Access:
    """Where the cluster is: in a kubeconfig (None: the usual one), or around this process."""

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False


@dataclass(frozen=True)
class Listed:
    """All objects that there were at `version`, which is from after `began` (boot time)."""

    items: list[Object]
    version: str
    began: float


class Cluster:
    """Calls to one API server, on one event loop. Every call raises what `ApiRefusal` names.

    An answer is waited for `answer_seconds`. Where the API server asks for patience (429), all
    calls have it.
    """

    def __init__(self, access: Access, answer_seconds: float = ANSWER_SECONDS):
        self._access = access
        self._answer_seconds = answer_seconds
        self._quiet_until = 0.0
        self._client: ApiClient | None = None
        self._loaded_at = 0.0
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
        """What `take` makes of each object is kept: whole ones are some 20 KB each in memory."""
        items: list[Object] = []
        began, version = boottime(), ""
        async for page in self.pages(path, labels=labels, fields=fields):
            items += map(take, page.items) if take else page.items
            version = page.version
        return Listed(items, version, began)

    async def pages(
        self, path: str, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listed]:
        """What `list` gives, in parts, so that neither side holds up the other."""
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(PAGE)}
        began = boottime()
        while True:
            page = await self.call("GET", path, query)
            if "items" not in page:
                # Taken for an empty list it would tell that everything is gone.
                raise Transient(f"no list: {page.get('kind')}")
            metadata = page["metadata"]
            yield Listed(page["items"] or [], str(metadata.get("resourceVersion", "")), began)
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def version(self, path: str) -> str:
        """The present one, from which to watch on."""
        page = await self.call("GET", path, {"limit": "1"})
        return str(page["metadata"].get("resourceVersion", ""))

    async def watch(
        self, path: str, version: str, *, seconds: float, labels: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        """`OPENED`, then events since `version`, for `seconds` at most; raises `Expired` if that is
        too long ago.

        A connection that says nothing for much longer than it should is given up as lost.
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
        patience = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=silence)
        async with self._answer("GET", path, query, timeout=patience) as answer:
            yield OPENED, {}
            async for line in _lines(answer):
                event = _object(line)
                kind, said = str(event.get("type")), event.get("object")
                if not isinstance(said, dict):
                    raise ValueError(f"an event without an object: {line[:200]!r}")
                if kind == "ERROR":
                    raise refusal_of(int(said.get("code") or 500), said)
                yield kind, _with_metadata(said)

    async def create(self, path: str, body: Mapping[str, Any], *, dry: bool = False) -> Object:
        return await self.call("POST", path, {"dryRun": "All"} if dry else {}, body)

    async def delete(self, path: str, uid: str, grace: int | None) -> None:
        """Deletes this very object; `grace` None: as long as it wants."""
        body: Object = {"preconditions": {"uid": uid}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        await self.call("DELETE", path, body=body)

    async def drop_finalizer(self, path: str, uid: str, finalizer: str) -> None:
        """Lets this very object go, as far as this finalizer holds it; others stay.

        To ask for it where the finalizer is not would put it there.
        """
        change = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}}
        await self.call("PATCH", path, body=change, kind=PATCH_KIND)

    async def drop_annotation(self, path: str, uid: str, annotation: str) -> None:
        """Takes an annotation off this very object."""
        change = {"metadata": {"uid": uid, "annotations": {annotation: None}}}
        await self.call("PATCH", path, body=change, kind=PATCH_KIND)

    async def log(
        self, path: str, container: str, *, since: str, follow: bool
    ) -> AsyncIterator[bytes]:
        """What a container has written, in pieces, with the time before each line; `since` is a
        moment as in RFC 3339, "" for all. With `follow` until it ends, or long says nothing: the
        connection may be lost."""
        query = {"container": container, "follow": "true" if follow else "", "sinceTime": since}
        patience = aiohttp.ClientTimeout(
            sock_connect=CONNECT_SECONDS,
            sock_read=SILENT_SECONDS if follow else self._answer_seconds,
        )
        query["timestamps"] = "true"
        async with self._answer("GET", f"{path}/log", query, timeout=patience) as answer:
            async for piece in answer.content.iter_any():
                yield piece

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        kind: str = JSON_KIND,
    ) -> Object:
        patience = aiohttp.ClientTimeout(total=self._answer_seconds, sock_connect=CONNECT_SECONDS)
        async with self._answer(method, path, query, body, kind=kind, timeout=patience) as answer:
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
        timeout: aiohttp.ClientTimeout,  # of the sockets, not of the call
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
            # Those who wait together come back one by one.
            await asyncio.sleep(left + random.uniform(0.0, 0.5))  # noqa: S311

    async def _refused(self, answer: aiohttp.ClientResponse, *, making: bool) -> ApiRefusal:
        said = _json(await answer.read())
        refusal = refusal_of(answer.status, said, answer.headers, making=making)
        if answer.status == 429 and isinstance(refusal, Transient):
            self._quiet_until = max(self._quiet_until, time.monotonic() + refusal.after)
        return refusal

    async def _send(
        self, method: str, address: str, body: Any, kind: str, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """The answer; after a 401 that to a second try, with credentials that were read anew."""
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
        """A client with other credentials than `refused`, unless it was read a moment ago."""
        async with self._loading:
            known = self._client
            recent = time.monotonic() < self._loaded_at + RELOAD_SECONDS
            if known is not None and (known is not refused or recent):
                return known
            self._loaded_at = time.monotonic()
            try:
                self._client = _Client(await self._configuration())
            except _UNREADABLE as error:
                if known is not None:
                    return known
                raise OwnTrouble(f"no access to the cluster: {error}") from error
            if known is not None:
                self._retire(known)
            return self._client

    def _retire(self, client: ApiClient) -> None:
        """Closes it once nobody can be about to use it any more: that would be no refusal of the
        cluster's, but an error of ours."""

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
        # Logs are followed on a connection each; what else there is is limited elsewhere.
        configuration.connection_pool_maxsize = 0
        # It would read a file of passwords for each call, in a thread, and where that has one for
        # this host, or for any, refuse to send the token.
        configuration.client_session_kwargs = {"trust_env": False}
        configuration.proxy = configuration.proxy or _proxy(configuration.host)
        return configuration


class _Client(ApiClient):
    def sanitize_for_serialization(self, obj: Any) -> Any:
        """What is sent is JSON, in which there is nothing to look for."""
        return obj


_NEVER_LEFT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# A file that is being written may hold half of what it should.
_UNREADABLE = (ConfigException, OSError, ValueError, TypeError, yaml.YAMLError)


def _proxy(url: str) -> str | None:
    """The one that the environment names for this address."""
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
    """Lines of any length that an object can have."""
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
        said = json.loads(data)
    except ValueError:
        said = None
    return said if isinstance(said, dict) else {"message": data[:500].decode("utf-8", "replace")}


def _object(data: bytes) -> Object:
    """Raises `ValueError`."""
    said = json.loads(data)
    if not isinstance(said, dict):
        raise ValueError("an answer that is no object")
    return said


def _with_metadata(said: Object) -> Object:
    """What every answer of the API has. Raises `ValueError`."""
    if not isinstance(said.get("metadata"), dict):
        raise ValueError("an object without metadata")
    return said
