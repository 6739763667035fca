"""The thread that renews the agent's leases and asks for new ones."""

import logging
import time
from collections.abc import Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from reprise_client.errors import RepriseError
from reprise_client.wire import LeaseAnswer, LeaseKey, ProgressNews, SupersededError

from base.podspec.node_templates import NodeTemplate
from executor.clock import boottime
from executor.connection import Connection, RetryPauses
from executor.drivers.protocol import Driver
from executor.failpoints import failpoint
from executor.inbox import Inbox, Leased, TakenOver
from executor.progress import ProgressBook

log = logging.getLogger(__name__)

LONG_POLL = 10.0
FULL_POLL = 2.0
SHORTEST_ROUND = 0.25
MANY_NODES = 100
SEND_AGAIN = 10.0
MAX_WARNINGS = 100
"""Most warnings of one call; the server reads no more."""

Resources = Mapping[str, Any]


class Limits(NamedTuple):
    """The limits of an agent: its sessions at once, the nodes that its cluster can add, and what it
    adds to pods that decides on their nodes."""

    max_sessions: int
    node_templates: Sequence[NodeTemplate] = ()
    pod_placing: Mapping[str, Any] = {}


class LeaseBook:
    """All leases that the next call must name, with the resources that they hold here."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._leases: dict[LeaseKey, Resources] = {}

    def hold(self, key: LeaseKey, resources: Resources) -> None:
        with self._lock:
            self._leases[key] = resources

    def drop(self, key: LeaseKey) -> None:
        with self._lock:
            self._leases.pop(key, None)

    def copy(self) -> dict[LeaseKey, Resources]:
        with self._lock:
            return dict(self._leases)


class LeaseKeeper(Thread):
    """Sends lease calls, one after the other, until `retire`, and posts the answers to the
    inbox."""

    def __init__(
        self,
        book: LeaseBook,
        connection: Connection,
        driver: Driver,
        inbox: Inbox,
        limits: Limits,
        progress: ProgressBook,
    ):
        super().__init__(name="leases", daemon=True)
        self._book = book
        self._connection = connection
        self._driver = driver
        self._inbox = inbox
        self._limits = limits
        self._progress = progress
        self._longest_poll = LONG_POLL
        self._retired = Event()
        # Must exceed the number of any call of an agent with the same incarnation. With a new state
        # directory, or on a restored database, an incarnation may occur twice.
        self._round = time.time_ns() // 1_000_000
        self._let_go: set[LeaseKey] = set()
        """The runs that have no lease any more: they take room here until they are stopped."""
        self._sent_names: list[str] = []
        self._send_again_at = 0.0

    def retire(self) -> None:
        """Make the call that is under way the last one."""
        self._retired.set()

    def run(self) -> None:
        pauses = RetryPauses("asking for work")
        while not self._retired.is_set():
            sent_at = boottime()
            try:
                answer = self._lease()
            except SupersededError as error:
                self._inbox.post(TakenOver(str(error)))
                return
            except RepriseError as error:
                self._retired.wait(pauses.failed(error))
                continue
            pauses.succeeded()
            self._longest_poll = min(LONG_POLL, answer["lease_ttl"] / 3)
            self._let_go = {
                LeaseKey(stop["session_id"], stop["fencing_token"])
                for stop in answer["stops"]
                if stop["reason"] == "unknown"
            }
            # The leases must be in the book before the next call: one that it leaves out ends.
            for lease in answer["leases"]:
                key = LeaseKey(lease["session_id"], lease["fencing_token"])
                self._book.hold(key, lease["spec"].get("resources") or {})
            self._inbox.post(Leased(answer, sent_at))
            self._rest(answer, sent_at)

    def _lease(self) -> LeaseAnswer:
        progress = self._progress.take()
        try:
            return self._call(progress)
        except RepriseError:
            self._progress.give_back(progress)
            raise

    def _call(self, progress: Sequence[ProgressNews]) -> LeaseAnswer:
        held = self._book.copy()
        most = max(0, self._limits.max_sessions - len(self._let_go & held.keys()))
        nodes = self._driver.nodes(held.values())
        names = [node["name"] for node in nodes]
        changed_nodes = None if self._known(names) else nodes
        # A full agent makes short calls: room may come up while the server holds the call. The end
        # of a trouble, too, can only be reported with the next call.
        trouble, of_projects = self._driver.trouble, self._driver.project_troubles
        full = trouble or of_projects or len(held) >= self._limits.max_sessions
        poll = FULL_POLL if full else LONG_POLL
        self._round += 1
        failpoint("executor.before_lease_send")
        answer = self._connection.call(
            lambda wire, mine: wire.lease(
                mine,
                driver=self._driver.name,
                nodes=changed_nodes,
                max_sessions=0 if trouble else most,
                runs=held,
                wait_s=min(poll, self._longest_poll),
                round_number=self._round,
                state_id=self._connection.state_id,
                trouble=trouble,
                project_troubles=of_projects,
                warnings=self._driver.warnings[:MAX_WARNINGS],
                progress=progress,
                node_templates=self._limits.node_templates,
                pod_placing=self._limits.pod_placing,
                extended_tolerations=self._driver.extended_tolerations,
            ),
            leases=True,
        )
        failpoint("executor.after_lease_send")
        if changed_nodes is not None:
            self._sent_names, self._send_again_at = names, boottime() + SEND_AGAIN
        return answer

    def _known(self, names: list[str]) -> bool:
        """Return whether the server knows the nodes from a recent call.

        Many nodes are sent only every few seconds while none comes or goes.
        """
        unchanged = len(names) > MANY_NODES and names == self._sent_names
        return unchanged and boottime() < self._send_again_at

    def _rest(self, answer: LeaseAnswer, sent_at: float) -> None:
        """Wait a moment if there was no new work.

        A server that repeats a stop answers at once.
        """
        if not answer["leases"]:
            self._retired.wait(max(0.0, sent_at + SHORTEST_ROUND - boottime()))
