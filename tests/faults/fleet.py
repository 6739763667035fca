"""Executors that really run something, one for each case, and what their runs saw themselves."""

import json
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from pathlib import Path
from typing import Any

from reprise_client import Attempt, Client
from reprise_client.transport import Transport
from reprise_client.wire import Report, Wire

from tests.acceptance.running import Process, processes_of
from tests.clock import SkewedClock
from tests.faults.judgement import Truth, truth_of
from tests.faults.plant import TIMES, Part, Plant
from tests.faults.proxy import Proxy
from tests.waiting import PATIENCE_SECONDS, until

STANDBY = "standby"
PATIENCE = 2 * PATIENCE_SECONDS
LEASE_TTL, LEASE_GRACE = 10.0, 4.0
LOST = "session.lease_expired"
IGNORED = "session.report_ignored"
# A run writes the log itself, under its own token, from a process that outlives its agent's death:
# whatever the agents and the server believe, two runs of a chain that overlap are there to be seen.
# It ends once it is told its exit code, after a second at least.
RUN = """
trap '' TERM
where=${REPRISE_TERMINATION_LOG%/*}
say() {
    read -r now _ < /proc/uptime
    printf '["%s","%s",%s,%s%s]\\n' "$1" "$REPRISE_SESSION_ID" "${where##*-}" "$2" "$now" >> "$LOG"
}
say started "\\"$REPRISE_ROOT_SESSION_ID\\","
[ "$REPRISE_ATTEMPT" = 0 ] && code="$CODES/first" || code="$CODES/retry"
beats=0
until [ $beats -ge 5 ] && [ -e "$code" ]; do
    sleep 0.2; say alive; beats=$((beats + 1))
done
read -r code < "$code"
[ "$code" = 0 ] && status=TERMINATED || status=ERROR
say ended "\\"$status\\",$code,"
exit "$code"
"""
DETACHED = 'trap "" TERM; setsid sh -c "$RUN" & wait $!'


class Member:
    """An executor that serves a project of its name, with one session that runs."""

    def __init__(self, fleet: "Fleet", name: str, link: Proxy):
        self.name = name
        self.fleet = fleet
        self.link = link
        self.clock = SkewedClock(fleet.directory / f"clock-{name}")
        self.state = fleet.directory / name
        self.agent = fleet.agent(name, name, link, **self.clock.environ)
        self._codes = fleet.directory / f"codes-{name}"
        self._codes.mkdir()
        self.session = ""

    def submit(self) -> None:
        """Its session; its retry comes at once."""
        environ = {"RUN": RUN, "LOG": str(self.fleet.log), "CODES": str(self._codes)}
        self.session = self.client.session_create(
            command=["sh", "-c", DETACHED],
            environ=environ,
            termination_grace_period=60,
            retry_policy={"max_retries": 3, "retry_delay": 0.1, "jitter": "none"},
        ).id

    @cached_property
    def client(self) -> Client:
        """One for all questions: to make one takes longer than most answers."""
        return self.fleet.clients.enter_context(self.fleet.client(f"default/{self.name}"))

    def finish(self, which: str, code: int = 0) -> None:
        """Let the `first` attempt end, or each `retry`, now or as soon as it has begun."""
        draft = self._codes / "draft"
        draft.write_text(f"{code}\n")
        draft.rename(self._codes / which)

    def second(self, state: str) -> Part:
        """Another agent of its name, on a state directory of the fleet; not started yet."""
        return self.fleet.agent(self.name, state, self.fleet.people)

    def change(self, **columns: Any) -> None:
        """Of its executor."""
        assignments = ", ".join(f"{column} = %s" for column in columns)
        with self.fleet.connect() as connection:
            connection.execute(
                f"UPDATE scheduler_executor SET {assignments} WHERE name = %s",  # our own
                [*columns.values(), self.name],
            )

    def last_seen(self) -> float:
        """Seconds since the epoch, on the database's clock."""
        query = "SELECT extract(epoch FROM last_seen_at) FROM scheduler_executor WHERE name = %s"
        with self.fleet.connect() as connection:
            (seen,) = connection.execute(query, [self.name]).fetchone() or (0,)
        return float(seen)

    def processes(self, attempt: int = 0) -> list[Process]:
        """Of this attempt, wherever it runs."""
        # As their environment says, with or without a directory of this name.
        return processes_of(Path(f"runs/{self.attempts()[attempt].id}-"))

    def attempts(self) -> list[Attempt]:
        return self.client.attempts(self.session)

    def statuses(self) -> list[str]:
        """Of the first attempt and, if there are more, of the last. On a busy machine, where a
        renewal takes longer than a lease lasts, there may be others between them."""
        statuses = [each.status for each in self.attempts()]
        return [*statuses[:1], *statuses[1:][-1:]]

    def reached(self, *statuses: str) -> None:
        """Wait until these are the statuses."""
        what = f"{self.name}: {statuses}"
        self.wait(lambda: self.statuses() == list(statuses), what)

    def wait_for_event(self, kind: str, attempt: int = 0) -> None:
        """Wait for an event of this type."""
        session = self.attempts()[attempt].id
        self.wait(
            lambda: any(each.type == kind for each in self.client.events(session)),
            f"{self.name}: {kind}",
        )

    def wait(self, condition: Callable[[], Any], what: str) -> None:
        until(condition, what, PATIENCE)

    def unfenced(self, attempt: int = 0) -> bool:
        events = self.client.events(self.attempts()[attempt].id)
        return any(each.data.get("unfenced") for each in events)

    def reports(self) -> list[Report]:
        """All that its agent has reported, or is about to."""
        lines = (self.state / "reports" / "journal").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        return [entry[1] for entry in entries if entry[0] == "report"]

    def repeat(self, reports: Sequence[Report]) -> set[str]:
        """Say it once more as its agent does; the outcomes."""
        token = (self.fleet.directory / f"{self.name}.token").read_text().strip()
        incarnation = int((self.state / "incarnation").read_text())
        left, outcomes = list(reports), set()
        with closing(Transport(self.fleet.people.url, token)) as transport:
            while left:
                answer = Wire(transport, self.name).report(incarnation, left)
                outcomes |= {each["outcome"] for each in answer}
                left = [
                    report
                    for report, each in zip(left, answer, strict=True)
                    if each["outcome"] == "busy"
                ]
        return outcomes - {"busy"}


class Fleet(Plant):
    """A plant with local executors: one for each of `members`, and one that stands by for those
    who do not want to be `alone`."""

    size = 1
    times = {
        **TIMES,
        "REPRISE_LEASE_TTL": f"{LEASE_TTL:g}",
        "REPRISE_LEASE_GRACE": f"{LEASE_GRACE:g}",
        "REPRISE_ACCEPTANCE_TIMEOUT": "30",
        "REPRISE_EXECUTOR_STALE_AFTER": "5",
    }

    def __init__(self, directory: Path, members: Sequence[str], alone: Collection[str]):
        super().__init__(directory, 0)
        self._members = members
        helped = ",".join(f"default/{name}" for name in members if name not in alone)
        self.names = [*(f"{name}@default/{name}" for name in members), f"{STANDBY}@{helped}"]
        self.log = directory / "runs.log"
        self.executors, self.twins = [], []
        self.clients = ExitStack()

    def __exit__(self, *_: object) -> None:
        self.clients.close()
        super().__exit__()

    def _add_executors(self, ports: list[int]) -> None:
        self.log.touch()
        self.standby = self.agent(STANDBY, STANDBY, self.people)
        self.members = {name: Member(self, name, self._proxy(ports)) for name in self._members}

    def agent(self, name: str, state: str, link: Proxy, **environ: str) -> Part:
        """Of the executor `name`, on a state directory; it is started by whoever asks for it."""
        command = [
            *(sys.executable, "-m", "executor", "--name", name, "--url", link.url),
            *("--token-file", str(self.directory / f"{name}.token")),
            *("--state-dir", str(self.directory / state), "--max-sessions", "40"),
            *("--isolate-runs", "off"),
        ]
        part = self._part(f"agent-{state}", lambda: command, **environ)
        self.twins.append(part)
        return part

    def set_going(self) -> None:
        """Each member runs its session; from now on the standby takes what nobody else can."""
        for member in self.members.values():
            member.change(unconfirmed_after=0)
            member.agent.start()
            member.submit()
        for member in self.members.values():
            member.reached("RUNNING")
        self.standby.start()

    def truth(self) -> Truth:
        """All runs that were."""
        return truth_of({"": self.log}, {"": []})
