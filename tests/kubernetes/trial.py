"""Sessions under way while something goes wrong, and what must hold of them in the end."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from executor.drivers.kubernetes.pod_names import RANK, SESSION, TOKEN
from retry.evidence.causes import classify
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from tests.executor_fake import ORDER, FakeServer, FakeSession
from tests.kubernetes.agent import NAMESPACE, PodAgent, submit
from tests.kubernetes.proxy import Proxy
from tests.waiting import until

Object = dict[str, Any]


class Trial:
    """A session is expected to end with the exit code, or the cause, that it was submitted with."""

    def __init__(self, server: FakeServer, pods: PodAgent, proxy: Proxy, directory: Path):
        self.server = server
        self.pods = pods
        self.proxy = proxy
        self._directory = directory
        self._expected: list[tuple[FakeSession, int | str]] = []
        self._made: dict[tuple[str, str, str], set[str]] = defaultdict(set)

    @property
    def sessions(self) -> list[FakeSession]:
        return [session for session, _ in self._expected]

    def saw(self, pod: Object) -> bool:
        """Notes a pod that a node sees; it is to be run."""
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        if SESSION in labels:
            lease = labels[SESSION], labels[TOKEN], labels[RANK]
            self._made[lease].add(metadata["uid"])
        return True

    def submit(self, script: str, end: int | str, **spec: Any) -> FakeSession:
        session = submit(self.server, script, **spec)
        self._expected.append((session, end))
        return session

    def some(self) -> list[FakeSession]:
        """Successes, failures and a cluster session, of some seconds."""
        return [
            self.submit("sleep 1", 0),
            self.submit("sleep 2; exit 3", 3),
            self.submit("sleep 2.5", 0),
            self.submit("exit 4", 4),
            self.submit("sleep 2; exit $REPRISE_RANK", 1, cluster_size=2),
        ]

    def until_file(self, name: str, end: int, **spec: Any) -> FakeSession:
        """A session that goes on until `release` of this name."""
        script = f"while [ ! -e {self._directory / name} ]; do sleep 0.05; done; exit {end}"
        return self.submit(script, end, **spec)

    def release(self, name: str) -> None:
        (self._directory / name).touch()

    def cancelled(self) -> FakeSession:
        """A session that is cancelled once it runs, if it does."""
        session = self.submit("trap 'exit 5' TERM; sleep 600 & wait", "unknown")
        self.server.wait_for(lambda: self._runs_or_settled(session))
        if session.settled is None:
            self.server.stop_session(session, "cancelled", 20)
        return session

    def running(self, *sessions: FakeSession) -> None:
        self.server.wait_for(lambda: all("RUNNING" in each.statuses for each in sessions))

    def phase(self, session: FakeSession) -> str:
        """Of its only pod, as the API server has it; "" if it has none."""
        return "".join(pod["status"]["phase"] for pod in self.pods.pods_of(session))

    def trouble(self) -> str:
        """Return the agent's last report of trouble with its cluster."""
        leases = (body for verb, body in reversed(self.server.calls) if verb == "lease")
        return str(next(leases, {}).get("trouble", ""))

    def project_troubles(self) -> Object:
        """Return the agent's last report of trouble with single projects."""
        leases = (body for verb, body in reversed(self.server.calls) if verb == "lease")
        return dict(next(leases, {}).get("project_troubles", {}))

    def judge(self, *, starts_may_fail: Iterable[FakeSession] = ()) -> None:
        """Waits for all ends; what came back is given away again."""
        self.server.wait_for(self._all_settled)
        excused = {session.id for session in starts_may_fail}
        for session, end in self._expected:
            self._judge(session, end, excused=session.id in excused)
        twice = {lease: pods for lease, pods in self._made.items() if len(pods) > 1}
        assert not twice, "a lease is one pod of each rank"
        until(lambda: not self.pods.api.pods(NAMESPACE))
        # As well as it looks here, nothing of the agent broke on the way.
        assert "Traceback" not in self.pods.log.read_text()

    def _runs_or_settled(self, session: FakeSession) -> bool:
        self._give_again()
        return "RUNNING" in session.statuses or session.settled is not None

    def _all_settled(self) -> bool:
        self._give_again()
        return all(session.settled for session in self.sessions)

    def _give_again(self) -> None:
        """Lease again what came back."""
        for session in self.sessions:
            if session.returned is not None:
                session.returned = None
                self.server.changed.notify_all()

    def _judge(self, session: FakeSession, end: int | str, *, excused: bool) -> None:
        assert session.settled == "reported"
        facts = session.termination
        termination = Termination.from_json(facts)
        cause = str(classify(termination))
        if excused and facts["reason"] == "PodCreateFailed":
            end = "agent_transient"
        if end == 0:
            assert session.final["status"] == "TERMINATED", facts
        elif isinstance(end, int):
            assert (cause, Ended(termination).exit_code) == ("kernel_nonzero_exit", end), facts
        else:
            assert session.final["status"] == "ERROR"
            assert cause == end or facts.get("deleted_by_us"), facts
        steps = [ORDER.index(each) for each in session.statuses[:-1]]
        assert steps == sorted(steps), session.statuses
