"""A bare loop of the executor's Kubernetes client. It only creates pods.

python -m benchmarks.peers.bare_pods KUBECONFIG BODIES AT_ONCE

`BODIES` is a file with an array of pods. With `AT_ONCE` 1 they are created one after the other;
otherwise this number of tasks shares them. It prints the seconds that this took.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_kube_config

Pod = dict[str, Any]


async def create_all(kubeconfig: str, bodies: list[Pod], at_once: int) -> float:
    """Return the seconds from the first call to the last answer.

    Raises `SystemExit` if a call was refused.
    """
    configuration = Configuration()
    # As in the executor: otherwise each call would read the netrc file.
    configuration.client_session_kwargs = {"trust_env": False}
    await load_kube_config(config_file=kubeconfig, client_configuration=configuration)
    async with ApiClient(configuration) as client:
        await _call(client, "GET", "/api/v1/nodes", None)
        left = iter(bodies)
        start = time.perf_counter()
        await asyncio.gather(*(_create(client, left) for _ in range(at_once)))
        return time.perf_counter() - start


async def _create(client: ApiClient, left: Iterator[Pod]) -> None:
    for body in left:
        path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods"
        await _call(client, "POST", path, body)


async def _call(client: ApiClient, method: str, path: str, body: Pod | None) -> None:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    method, url, headers, sent, _ = await client.param_serialize(
        method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
    )
    answer = (await client.call_api(method, url, headers, sent)).response
    parsed = json.loads(await answer.read())
    if answer.status >= 400:
        raise SystemExit(f"{method} {path}: {parsed}")


if __name__ == "__main__":
    pods = json.loads(Path(sys.argv[2]).read_bytes())
    print(asyncio.run(create_all(sys.argv[1], pods, int(sys.argv[3]))))
