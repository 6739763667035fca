"""Runs sessions as child processes on this machine."""

import functools
import logging
import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from reprise_client.wire import LeaseKey, Node, Spec

from base.podspec.resources import Amounts, check, limited, requested, total
from executor.clock import boot_id, boottime
from executor.drivers.local import environment, processes
from executor.drivers.local.child import Child
from executor.drivers.local.isolation import Isolation
from executor.drivers.local.namespaces import adopt_orphans
from executor.drivers.local.processes import Family
from executor.drivers.local.spawn import StartFailedError, spawn
from executor.drivers.protocol import UNSTARTED, Left, Observation, Order, facts
from executor.drivers.wake_up import WakeUp
from executor.failpoints import failpoint
from executor.runs import RunFiles

log = logging.getLogger(__name__)

MEMORY_LOOK = 0.25
SWEEP_AGAIN = 0.005
RECLAIM_PATIENCE = 5.0
KILL_PATIENCE = 2.0
CLOSE_AGAIN = 0.002


class LocalDriver:
    """The `local` driver. `Driver` says what each method promises.

    Without `isolation` a run may do whatever the agent may.
    """

    name = "local"
    keeps_files = True
    outlives_agent = False
    surveyed = True
    retired = True
    trouble = ""
    project_troubles: Mapping[str, str] = {}
    warnings: Sequence[str] = ()

    def __init__(self, isolation: Isolation | None = None) -> None:
        adopt_orphans()
        self._isolation = isolation
        self._node = socket.gethostname()
        self._children: dict[LeaseKey, Child] = {}
        self._seen: list[Observation] = []
        self._next_memory_look = 0.0
        self._wake_up = WakeUp()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_up, selectors.EVENT_READ, self._wake_up.clear)

    def forget_troubles(self, projects: Iterable[str]) -> None:
        """Do nothing: this driver has no troubles."""

    def nodes(self, held: Iterable[Mapping[str, Any]]) -> list[Node]:
        cpu, memory = _machine()
        taken = total(_requested(each) for each in held)
        free_cpu = cpu - taken.get("cpu", 0)
        free_memory = memory - taken.get("memory", 0)
        return [
            Node(
                name=self._node,
                allocatable=_amounts(cpu, memory),
                free=_amounts(max(free_cpu, Decimal(0)), max(free_memory, Decimal(0))),
                labels={},
                taints=[],
            )
        ]

    @property
    def extended_tolerations(self) -> bool:
        return False

    def refusal(self, spec: Spec) -> str | None:
        if spec.get("cluster_size", 1) > 1:
            return "the local driver runs sessions of one process only"
        if spec.get("pod_spec"):
            return "the local driver has no pods"
        try:
            check(spec.get("resources") or {})
        except ValueError as error:
            return f"resources: {error}"
        return None

    def caveat(self, spec: Spec) -> str:
        image, mounts = spec.get("image"), spec.get("mounts")
        ignored = [f"image {image}"] if image else []
        ignored += ["mounts"] if mounts else []
        if not ignored:
            return ""
        verb = "is" if len(ignored) == 1 and not mounts else "are"
        return f"{' and '.join(ignored)} {verb} ignored by the local driver"

    def start(self, order: Order) -> None:
        if order.nodes and order.nodes != (self._node,):
            self._shut(order.files)
            message = f"this machine is {self._node}"
            self._seen.append(Observation(order.key, UNSTARTED, order.nodes[0], message))
            return
        try:
            self._start(order)
        except StartFailedError as failure:
            self._shut(order.files)
            self._seen.append(self._never_ran(order, failure))
            return
        self._seen.append(Observation(order.key, "RUNNING", self._node))

    def stop(self, key: LeaseKey, grace: float) -> None:
        child = self._children.get(key)
        if child is None or child.is_over():
            return
        child.stopped = True
        self._end(child, grace)

    def poll(self, timeout: float | None) -> list[Observation]:
        for ready, _ in self._selector.select(self._pause(timeout)):
            react: Callable[[], None] = ready.data
            react()
        now = boottime()
        self._look_at_memory(now)
        for child in list(self._children.values()):
            self._tend(child, now)
        seen, self._seen = self._seen, []
        return seen

    def wake(self) -> None:
        self._wake_up.set()

    def reclaim(self, files: RunFiles) -> Left:
        process = files.read_process()
        if process is None:
            self._shut(files)
            return Left.UNBEGUN
        same_boot = process.get("boot_id") == boot_id()
        family = Family(
            environment.marks(files),
            files.path.resolve(),
            process.get("pid") if same_boot else None,
            process.get("start_time") if same_boot else None,
            process.get("user") if same_boot else None,
            process.get("keeper") if same_boot else None,
            process.get("keeper_start") if same_boot else None,
        )
        if not processes.kill_and_wait(family, RECLAIM_PATIENCE):
            log.error("cannot kill the processes of session %s", files.key)
        self._shut(files)
        return Left.ENDED

    def retire(self) -> None:
        """Do nothing: each run was started at once."""

    def release(self, key: LeaseKey) -> None:
        """Do nothing: a process that has ended keeps nothing."""

    def close(self) -> None:
        for child in self._children.values():
            child.signal_group(signal.SIGKILL)
        until = boottime() + KILL_PATIENCE
        for child in self._children.values():
            while child.sweep(self._leaders()) is None:
                if boottime() > until:
                    log.error("processes of %s cannot be killed", child.order.key)
                    break
                time.sleep(CLOSE_AGAIN)

    def _start(self, order: Order) -> None:
        failpoint("executor.before_start")
        # From here on, nobody can tell whether the process has run.
        order.files.write_record({})
        memory = _memory_limit(order.spec.get("resources") or {})
        user = self._isolation.user_for(order.key) if self._isolation else None
        environ = environment.build(order, os.environ, user)
        command = order.spec.get("command") or ()
        process = spawn(command, environ, order.files, memory, self._isolation)
        failpoint("executor.after_start")
        family = Family(
            environment.marks(order.files),
            order.files.path.resolve(),
            process.pid,
            processes.start_time(process.pid),
            user,
            process.keeper,
            processes.start_time(process.keeper),
        )
        failpoint("executor.before_process_write")
        _write_record(order, family)
        failpoint("executor.after_process_write")
        timeout = order.spec.get("batch_timeout")
        child = Child(
            order=order,
            process=process,
            pidfd=os.pidfd_open(process.pid),
            family=family,
            deadline=None if timeout is None else boottime() + timeout,
            memory=memory,
        )
        self._children[order.key] = child
        exited = functools.partial(self._exited, child)
        self._selector.register(child.pidfd, selectors.EVENT_READ, exited)

    def _exited(self, child: Child) -> None:
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        child.exited = True

    def _pause(self, timeout: float | None) -> float | None:
        """Return the seconds until something has to be done that no file descriptor signals."""
        if self._seen:
            return 0.0
        now = boottime()
        moments = [] if timeout is None else [now + timeout]
        for child in self._children.values():
            if child.exited:
                moments.append(now + SWEEP_AGAIN)
                continue
            moments += [at for at in (child.deadline, child.kill_at) if at is not None]
            if child.memory is not None:
                moments.append(self._next_memory_look)
        return max(0.0, min(moments) - now) if moments else None

    def _tend(self, child: Child, now: float) -> None:
        if child.exited:
            self._sweep(child)
        elif child.kill_at is not None and now >= child.kill_at:
            child.kill_at = None
            child.signal_group(signal.SIGKILL)
        elif child.deadline is not None and now >= child.deadline and not child.is_over():
            limit = child.order.spec.get("batch_timeout")
            child.cause = child.cause or (
                "DeadlineExceeded",
                f"ran longer than its batch_timeout of {limit:g} s",
            )
            self._end(child, _grace(child.order.spec))

    def _end(self, child: Child, grace: float) -> None:
        """Ask the run to end, and set the time when it is killed."""
        child.deadline = None
        kill_at = boottime() + grace
        if child.kill_at is None or kill_at < child.kill_at:
            child.kill_at = kill_at
        child.signal_group(signal.SIGTERM if grace > 0 else signal.SIGKILL)

    def _look_at_memory(self, now: float) -> None:
        limits = {child.order.key: child.memory for child in self._children.values()}
        if now < self._next_memory_look or not any(limits.values()):
            return
        self._next_memory_look = now + MEMORY_LOOK
        users = [child.family.user for child in self._children.values()]
        snapshot = processes.Snapshot(users)
        for key, limit in limits.items():
            child = self._children[key]
            if limit is None or child.cause is not None or child.is_over():
                continue
            used = processes.memory_used(snapshot.members(child.family), limit)
            if used > limit:
                text = f"used {used} bytes of memory; the limit is {limit}"
                child.cause = ("OOMKilled", text)
                child.signal_group(signal.SIGKILL)

    def _sweep(self, child: Child) -> None:
        """Kill what the run left behind. Its end is observed once nothing is left."""
        code = child.sweep(self._leaders())
        if code is None:
            return
        del self._children[child.order.key]
        self._shut(child.order.files)
        self._seen.append(self._ended(child, code))

    def _leaders(self) -> set[int]:
        return {child.process.pid for child in self._children.values()}

    def _shut(self, files: RunFiles) -> None:
        """Close the run's directory: no process needs it any more."""
        if self._isolation is not None:
            self._isolation.release(files)

    def _ended(self, child: Child, code: int) -> Observation:
        """Return the end of a run.

        A negative `code` is a signal; it is reported like in a shell, as 128 plus its number.
        """
        exit_code = 128 - code if code < 0 else code
        reason, text = child.cause or ("", "")
        message = child.order.files.termination_message()
        termination = facts(exit_code, reason, message, self._node, pod_message=text)
        success = exit_code == 0 and child.cause is None
        return Observation(
            child.order.key,
            "TERMINATED" if success else "ERROR",
            self._node,
            text or ("" if success else _exit_text(code)),
            termination,
            child.stopped,
        )

    def _never_ran(self, order: Order, failure: StartFailedError) -> Observation:
        termination = facts(None, failure.reason, "", self._node, pod_message=str(failure))
        return Observation(order.key, "ERROR", self._node, str(failure), termination)


def _write_record(order: Order, family: Family) -> None:
    """Write by what a later agent finds the run. Without it, there are the marks."""
    try:
        order.files.write_record(
            {
                "pid": family.leader,
                "start_time": family.leader_start,
                "boot_id": boot_id(),
                "user": family.user,
                "keeper": family.keeper,
                "keeper_start": family.keeper_start,
            }
        )
    except OSError as error:
        log.error("cannot write the record of session %s: %s", order.key, error)


def _grace(spec: Spec) -> float:
    return float(spec.get("termination_grace_period") or 0)


def _memory_limit(resources: Mapping[str, Any]) -> int | None:
    """Return the memory limit in whole bytes, rounded up as in Kubernetes; None for no limit."""
    return math.ceil(limited(resources).get("memory", 0)) or None


def _requested(resources: Mapping[str, Any]) -> Amounts:
    # A lease with an unreadable amount is held until it has been handed back.
    with suppress(ValueError):
        check(resources)
        return requested(resources)
    return {}


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"


def _machine() -> tuple[Decimal, Decimal]:
    """Return the cores that this process may use and the bytes of memory."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    total = next(line for line in lines if line.startswith("MemTotal:"))
    return Decimal(len(os.sched_getaffinity(0))), Decimal(int(total.split()[1]) * 1024)


def _amounts(cpu: Decimal, memory: Decimal) -> dict[str, str]:
    return {"cpu": f"{cpu.normalize():f}", "memory": f"{int(memory) // 1024}Ki"}
