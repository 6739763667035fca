"""The tasks that serve a cluster, in one group: they end together."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from executor.drivers.kubernetes.error_logging import run_until_done
from executor.drivers.kubernetes.pod_run import PodRun

Work = Callable[..., Coroutine[Any, Any, None]]


class Tasks:
    """All calls are on the loop that serves, in the thread `pods`."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None

    async def serve(self, *works: Work) -> None:
        """Run these works, and what is spawned meanwhile, until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for work in works:
                self.spawn(work)

    def spawn(self, work: Work, *about: Any) -> asyncio.Task[None]:
        """Begin work, which begins anew after an unexpected error."""
        assert self._group is not None  # noqa: S101  # no request comes before it serves
        return self._group.create_task(run_until_done(work, *about))

    def once(self, run: PodRun, what: str, work: Work, *about: Any) -> None:
        """Begin work on a run unless the same is under way or was done."""
        if what not in run.deleting:
            run.deleting.add(what)
            self.spawn(work, *about)
