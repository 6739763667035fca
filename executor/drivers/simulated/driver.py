"""Simulates sessions that last, fail and are lost as a script says, on virtual nodes.

Script time passes `speed` times as fast as real time. At speed 0 there is no waiting: the next step
happens at once.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from reprise_client.wire import LeaseKey, Node, Spec

from base.podspec.node_templates import NodeTemplate
from base.podspec.resources import check
from executor.clock import boottime
from executor.drivers.protocol import PLACEMENT_SECONDS, UNSTARTED, Left, Observation, Order, facts
from executor.drivers.simulated.run_log import RunLog
from executor.drivers.simulated.script import (
    NODE_LOST,
    VARIABLE,
    Course,
    Script,
    ScriptError,
    own_course,
)
from executor.drivers.simulated.virtual_cluster import VirtualCluster, counted
from executor.drivers.wake_up import WakeUp
from executor.runs import RunFiles

AT_ONCE = 2000
"""Most simulated steps between two looks at what the server says."""
KILLED = 137


@dataclass(slots=True)
class _Run:
    """A run that has not ended.

    `turn` grows whenever its next step is planned anew. `done_at` is when it ends by itself.
    `cause` is why it is made to end, and `ends` its exit code in that case.
    """

    order: Order
    course: Course
    pods: int
    amounts: Mapping[str, Any]
    nodes: tuple[int, ...] = ()
    started: bool = False
    stopped: bool = False
    turn: int = 0
    cause: tuple[str, str] | None = None
    ends: int | None = None
    done_at: float | None = None
    kill_at: float | None = None

    @property
    def key(self) -> LeaseKey:
        return self.order.key


def _choosy(order: Order) -> bool:
    """Return whether a run may not use every node."""
    return bool(order.avoid_node or order.avoid_nodes or order.nodes or order.node_labels)


class SimulatedDriver:
    """The `simulated` driver. `Driver` says what each method promises."""

    name = "simulated"
    outlives_agent = False
    surveyed = True
    retired = True
    trouble = ""
    project_troubles: Mapping[str, str] = {}
    warnings: Sequence[str] = ()

    def __init__(
        self,
        script: Script,
        *,
        seed: int,
        nodes: int,
        speed: float,
        run_log: RunLog | None = None,
        templates: Iterable[NodeTemplate] = (),
    ):
        self.keeps_files = script.output_bytes > 0
        self._script = script
        self._random = Random(seed)  # noqa: S311  # repeatable on purpose
        self._cluster = VirtualCluster(nodes, script.node, templates)
        self._coming: set[str] = set()
        """The templates of which a node is about to be added."""
        self._speed = speed
        self._began = boottime()
        self._clock = 0.0
        self._runs: dict[LeaseKey, _Run] = {}
        self._unplaced: dict[LeaseKey, _Run] = {}
        self._on_node: dict[int, dict[LeaseKey, _Run]] = defaultdict(dict)
        self._plan: list[tuple[float, int, _Run | int | str, int]] = []
        self._planned = 0
        self._seen: list[Observation] = []
        self._wake_up = WakeUp()
        self._log = run_log

    def forget_troubles(self, projects: Iterable[str]) -> None:
        """Do nothing: this driver has no troubles."""

    def nodes(self, held: Iterable[Mapping[str, Any]]) -> list[Node]:
        return self._cluster.report()

    @property
    def extended_tolerations(self) -> bool:
        return False

    def refusal(self, spec: Spec) -> str | None:
        try:
            check(spec.get("resources") or {})
        except ValueError as error:
            return f"resources: {error}"
        lacking = self._cluster.lacks(counted(spec.get("resources") or {}))
        return f"no simulated node has so much {lacking}" if lacking else None

    def caveat(self, spec: Spec) -> str:
        return ""

    def start(self, order: Order) -> None:
        try:
            course = self._course(order)
        except ScriptError as error:
            termination = facts(None, "StartError", pod_message=str(error))
            self._seen.append(Observation(order.key, "ERROR", "", str(error), termination))
            return
        if self._log is not None:
            self._log.started(order)
        spec = order.spec
        amounts = counted(spec.get("resources") or {})
        run = _Run(order, course, spec.get("cluster_size", 1), amounts)
        self._runs[order.key] = run
        if not self._place(run):
            self._unplaced[order.key] = run
            if order.nodes:
                self._later(PLACEMENT_SECONDS, run)
            self._await_node(order.node_labels)

    def stop(self, key: LeaseKey, grace: float) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        run.stopped = True
        # A run that is stopped before it has a node never gets one.
        self._unplaced.pop(key, None)
        self._end(run, grace)

    def poll(self, timeout: float | None) -> list[Observation]:
        self._happen()
        if not self._seen:
            self._wake_up.wait(self._pause(timeout))
            self._happen()
        seen, self._seen = self._seen, []
        return seen

    def wake(self) -> None:
        self._wake_up.set()

    def reclaim(self, files: RunFiles) -> Left:
        """Return that it has ended: simulated runs end with the process that simulates them."""
        return Left.ENDED

    def retire(self) -> None:
        """Do nothing: each run was started at once."""

    def release(self, key: LeaseKey) -> None:
        """Do nothing: ended runs keep nothing."""

    def close(self) -> None:
        for run in list(self._runs.values()):
            run.ends = KILLED
            self._finish(run)
        self._plan.clear()

    # Time

    def _now(self) -> float:
        """Return the seconds of script time."""
        if self._speed:
            self._clock = (boottime() - self._began) * self._speed
        return self._clock

    def _pause(self, timeout: float | None) -> float | None:
        if not self._plan:
            return timeout
        if not self._speed:
            return 0.0
        left = max(0.0, (self._plan[0][0] - self._now()) / self._speed)
        return left if timeout is None else min(left, timeout)

    def _later(self, seconds: float, what: _Run | int | str) -> None:
        """Plan the next step of a run, replacing its earlier plan, the return of a lost node, or
        new nodes of a template."""
        turn = 0
        if isinstance(what, _Run):
            turn = what.turn = what.turn + 1
        self._planned += 1
        heapq.heappush(self._plan, (self._now() + seconds, self._planned, what, turn))

    def _happen(self) -> None:
        """Do all steps that are due."""
        for _ in range(AT_ONCE):
            if not self._plan or (self._speed and self._plan[0][0] > self._now()):
                return
            at, _, what, turn = heapq.heappop(self._plan)
            self._clock = max(self._clock, at)
            if isinstance(what, int):
                self._cluster.set_up(what, True)
            elif isinstance(what, str):
                self._add_nodes(what)
            elif what.key in self._runs and turn == what.turn:
                self._step(what)
            self._place_waiting()

    # Runs

    def _course(self, order: Order) -> Course:
        own = (order.spec.get("environ") or {}).get(VARIABLE)
        if own is None:
            return self._script.draw(self._random, self._now())
        attempt = order.environ.get("REPRISE_ATTEMPT", "0")
        return own_course(own, int(attempt) if attempt.isdigit() else 0)

    def _await_node(self, labels: Mapping[str, str]) -> None:
        """Let a node come for a run that waits for one with these labels, as an autoscaler does."""
        template = self._cluster.template_for(labels) if labels else None
        if template is not None and template not in self._coming:
            self._coming.add(template)
            self._later(self._script.node_up_seconds, template)

    def _add_nodes(self, template: str) -> None:
        """Add nodes of a template until those who wait for them have one, or it has no more."""
        self._coming.discard(template)
        self._place_waiting()
        for run in list(self._unplaced.values()):
            labels = run.order.node_labels
            while run.key in self._unplaced and self._cluster.template_for(labels) == template:
                self._cluster.grow(template)
                self._place_waiting()

    def _place(self, run: _Run) -> bool:
        order = run.order
        if len(order.nodes) == run.pods:
            nodes = self._cluster.place_on(order.nodes, run.amounts)
        else:
            nodes = self._cluster.place(
                *(run.amounts, run.pods, order.avoid_node, order.avoid_nodes), order.node_labels
            )
        if nodes is None:
            return False
        run.course = self._script.on_node(run.course, self._cluster.name(nodes[0]), self._random)
        run.nodes, course = nodes, run.course
        # It waits for its planned nodes no longer.
        run.turn += 1
        if course.seconds == 0 and not course.start_seconds and course.reason != NODE_LOST:
            # The run is over before anybody can have seen it run.
            self._write(run)
            self._finish(run)
            return True
        for node in nodes:
            self._on_node[node][run.key] = run
        if course.start_seconds > 0:
            self._say(run, "PULLING")
            self._later(course.start_seconds, run)
        else:
            self._begin(run)
        return True

    def _place_waiting(self) -> None:
        placed = []
        for run in self._unplaced.values():
            if self._place(run):
                placed.append(run.key)
            elif not _choosy(run.order):
                break
            # The next run may fit where this one must not run.
        for key in placed:
            del self._unplaced[key]

    def _step(self, run: _Run) -> None:
        """Do the next step of a run: it begins, passes its time limit, or ends."""
        limit = run.order.spec.get("batch_timeout")
        if run.kill_at is not None:
            self._over(run)
        elif run.key in self._unplaced:
            self._refuse(run)
        elif not run.started:
            self._begin(run)
        elif limit is not None and (run.done_at is None or run.done_at > self._now()):
            text = f"ran longer than its batch_timeout of {limit:g} s"
            run.cause = ("DeadlineExceeded", text)
            self._end(run, float(run.order.spec.get("termination_grace_period") or 0))
        else:
            self._over(run)

    def _refuse(self, run: _Run) -> None:
        """End a run as not started: the nodes that were planned for it have no room."""
        del self._runs[run.key], self._unplaced[run.key]
        node, words = self._cluster.refusal(run.order.nodes, run.amounts)
        seen = Observation(run.key, UNSTARTED, node, words)
        if self._log is not None:
            self._log.ended(run.order, seen)
        self._seen.append(seen)

    def _begin(self, run: _Run) -> None:
        run.started = True
        self._say(run, "RUNNING")
        self._write(run)
        seconds, limit = run.course.seconds, run.order.spec.get("batch_timeout")
        if seconds is not None:
            run.done_at = self._now() + seconds
        spans = [span for span in (seconds, limit) if span is not None]
        if spans:
            self._later(min(spans), run)

    def _over(self, run: _Run) -> None:
        if run.course.reason == NODE_LOST and run.ends is None and run.nodes:
            self._lose(run.nodes[0])
        else:
            self._finish(run)

    def _end(self, run: _Run, grace: float) -> None:
        """Ask the run to end, and end it by force `grace` seconds later."""
        now, listens = self._now(), run.course.stop_seconds
        obeys = grace > 0 and listens is not None and listens <= grace
        at = now + (listens if obeys and listens is not None else grace)
        if run.kill_at is not None and run.kill_at <= at:
            return
        run.kill_at = at
        if run.done_at is not None and run.done_at <= at:
            self._later(run.done_at - now, run)
            return
        run.ends = run.course.stop_exit_code if obeys else KILLED
        self._later(at - now, run)

    def _lose(self, node: int) -> None:
        """Lose a node and all runs on it."""
        self._cluster.set_up(node, False)
        self._later(self._script.node_down_seconds, node)
        name = self._cluster.name(node)
        for run in list(self._on_node[node].values()):
            run.ends = None
            self._finish(run, (NODE_LOST, f"node {name} was lost"))

    def _finish(self, run: _Run, cause: tuple[str, str] | None = None) -> None:
        del self._runs[run.key]
        for node in run.nodes:
            self._on_node[node].pop(run.key, None)
        self._cluster.release(run.nodes, run.amounts)
        seen = self._ended(run, cause or run.cause)
        if self._log is not None:
            self._log.ended(run.order, seen)
        self._seen.append(seen)

    def _ended(self, run: _Run, cause: tuple[str, str] | None) -> Observation:
        course, own_message, text = run.course, "", ""
        if cause is not None:
            code, (reason, text) = run.ends, cause
        elif run.ends is not None:
            code, reason = run.ends if run.started else None, ""
        else:
            code, reason, own_message = course.exit_code, course.reason, course.message
        node = self._cluster.name(run.nodes[0]) if run.nodes else ""
        success = code == 0 and not reason
        message = own_message or text or reason or ("" if success else f"exit code {code}")
        termination = facts(code, reason, own_message, node, pod_message=text)
        status = "TERMINATED" if success else "ERROR"
        # A run of no time at all was never seen to begin.
        output = b"" if run.started else self._printed(run, "RUNNING")
        return Observation(run.key, status, node, message, termination, run.stopped, output=output)

    def _say(self, run: _Run, status: str) -> None:
        node, output = self._cluster.name(run.nodes[0]), self._printed(run, status)
        self._seen.append(Observation(run.key, status, node, output=output))

    def _printed(self, run: _Run, status: str) -> bytes:
        """Return what the run prints when it begins, if it writes to no file."""
        begins = status == "RUNNING" and not self.keeps_files
        return run.course.told.encode() if begins else b""

    def _write(self, run: _Run) -> None:
        if not self.keeps_files:
            return
        # The output ends with the session's id, so that a reader can detect mixed-up outputs.
        tail = f"{run.key.session_id}\n".encode()
        head = run.course.told.encode()
        size = max(self._script.output_bytes - len(tail), 0)
        run.order.files.output.write_bytes(head + b"." * size + tail)
