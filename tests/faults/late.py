"""Somebody who does everything in the worst order: an executor and a person, both played by hand.

Its sessions are in a project of their own that no other executor serves. What it says too late must
change nothing, and what people were answered must stay so. A case that a fault gets in the way of
is given up.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeVar

import psycopg
from reprise_client import ApiError, RepriseError, Session
from reprise_client.transport import Transport
from reprise_client.wire import Lease, LeaseKey, Report, Termination, Wire

from tests.faults.plant import LATE, LATE_PROJECT, Plant
from tests.waiting import PATIENCE_SECONDS

JOB_SET = "late"
PATIENCE = 12.0
AGAIN_SECONDS = 0.1
LATER = 1000
"""The number of a report that comes after all others."""
POLICY = {"max_retries": 2, "retry_delay": 0.3, "jitter": "none"}
Value = TypeVar("Value")


class InVain(Exception):
    """A fault is in the way of this case."""


class Closed(NamedTuple):
    """A chain that was over, with so many attempts, when somebody was told so."""

    root: str
    attempts: int
    why: str


class Late(threading.Thread):
    """Plays its cases in turn until `finish`.

    `played` counts those that came to their end. `violations` are what it was answered wrongly,
    each in a sentence; `judge` says what became of the chains later.
    """

    def __init__(self, plant: Plant):
        super().__init__(name="late", daemon=True)
        self._plant = plant
        self._token = (plant.directory / f"{LATE}.token").read_text().strip()
        self._finished = threading.Event()
        self._round = 0
        self._closed: list[Closed] = []
        self.played: Counter[str] = Counter()
        self.violations: list[str] = []

    def finish(self) -> None:
        """End the case that is played, and all its sessions."""
        self._finished.set()
        self.join()

    def run(self) -> None:
        with (
            self._plant.client(LATE_PROJECT) as self._people,
            closing(Transport(self._plant.people.url, self._token, timeout=10)) as transport,
        ):
            self._wire = Wire(transport, LATE)
            while not self._finished.is_set():
                for case in CASES:
                    with suppress(InVain, RepriseError):
                        case(self)
                        self.played[case.__name__.strip("_")] += 1
            with suppress(InVain, RepriseError):
                self._clear()

    # What is done

    def _keep_on(self, call: Callable[[], Value | None], *, to_the_end: bool = False) -> Value:
        """The first answer of a call that is not None, whatever is down meanwhile."""
        until = time.monotonic() + (PATIENCE_SECONDS if to_the_end else PATIENCE)
        while time.monotonic() < until and (to_the_end or not self._finished.is_set()):
            try:
                answer = call()
            except ApiError as error:
                if error.status < 500:
                    raise
            except RepriseError:
                pass
            else:
                if answer is not None:
                    return answer
            time.sleep(AGAIN_SECONDS)
        raise InVain

    def _submit(self, **policy: Any) -> str:
        wanted = {**POLICY, **policy}
        return self._keep_on(
            lambda: self._people.session_create(
                job_set=JOB_SET, command=["true"], retry_policy=wanted
            )
        ).id

    def _lease(self, *known: LeaseKey) -> list[Lease]:
        """One call: what is not known is no longer here."""
        self._round += 1
        answer = self._wire.lease(
            1,
            driver="simulated",
            nodes=[],
            max_sessions=50,
            runs=known,
            wait_s=0,
            round_number=self._round,
            state_id=LATE,
        )
        return answer["leases"]

    def _leased(self, session: str, *, but: LeaseKey | None = None) -> LeaseKey:
        """The lease of a session, under another token than before."""

        def ask() -> LeaseKey | None:
            found = {lease["session_id"]: lease["fencing_token"] for lease in self._lease()}
            key = LeaseKey(session, found.get(session, 0))
            return key if session in found and key != but else None

        return self._keep_on(ask)

    def _say(self, key: LeaseKey, seq: int, status: str, code: int | None = None) -> str:
        """The outcome of a report."""
        report = _report(key, seq, status, code)

        def ask() -> str | None:
            (outcome,) = self._wire.report(1, [report])
            return None if outcome["outcome"] == "busy" else outcome["outcome"]

        return self._keep_on(ask)

    def _running(self, session: str, *, but: LeaseKey | None = None) -> LeaseKey:
        key = self._leased(session, but=but)
        for seq, status in enumerate(("PREPARING", "RUNNING"), start=1):
            if self._say(key, seq, status) not in {"applied", "duplicate"}:
                raise InVain
        return key

    def _failed(self, session: str) -> None:
        self._say(self._running(session), 3, "ERROR", 1)

    def _reached(self, session: str, condition: Callable[[Session], bool]) -> None:
        def ask() -> bool | None:
            return condition(self._people.session(session)) or None

        self._keep_on(ask)

    def _too_late(self, key: LeaseKey, why: str) -> None:
        """A success that must not count."""
        if self._say(key, LATER, "TERMINATED", 0) == "applied":
            self.violations.append(f"{key} succeeded, and was believed, though {why}")

    def _cancel(self, session: str, why: str) -> None:
        """Over is over: nothing may come of it any more."""
        try:
            self._keep_on(lambda: self._people.cancel(session))
        except ApiError as error:
            self.violations.append(f"{session} could not be cancelled while {why}: {error}")
        attempts = self._keep_on(lambda: self._people.attempts(session))
        self._closed.append(Closed(session, len(attempts), f"was cancelled while {why}"))

    def _switch(self, mode: str) -> None:
        self._keep_on(lambda: self._people.retry_settings_update(project=LATE_PROJECT, mode=mode))

    # Cases

    def _token_of_the_lease_before(self) -> None:
        """Leased anew because its executor forgot it: the token from before says nothing."""
        session = self._submit(max_retries=0)
        before = self._leased(session)
        now = self._running(session, but=before)
        self._too_late(before, f"its lease was under {now.fencing_token} by then")
        self._say(now, 3, "ERROR", 3)
        self._reached(session, lambda found: found.status in {"ERROR", "TERMINATED"})
        if self._people.session(session).status == "TERMINATED":
            self.violations.append(f"{session} succeeded, as only {before} has said")

    def _success_after_the_end(self) -> None:
        """Given up, since its executor did not know it any more; then it has succeeded."""
        session = self._submit()
        key = self._running(session)

        def gone() -> bool | None:
            self._lease()
            return self._people.session(session).status == "ERROR" or None

        self._keep_on(gone)
        self._too_late(key, "it had been given up")
        if (status := self._people.session(session).status) != "ERROR":
            self.violations.append(f"{session} was ERROR, and is {status}")
        with suppress(ApiError):
            self._keep_on(lambda: self._people.cancel(session))

    def _success_after_the_cancel(self) -> None:
        session = self._submit()
        key = self._running(session)
        self._cancel(session, "it ran")
        self._say(key, LATER, "TERMINATED", 0)
        self._reached(session, lambda found: found.finished_at is not None)
        if self._people.session(session).status == "TERMINATED":
            self.violations.append(f"{session} was cancelled, and succeeded after that")

    def _cancel_of_a_held_retry(self) -> None:
        """Cancelled while retries are paused: nothing comes when they go on."""
        self._switch("paused")
        try:
            session = self._submit()
            self._failed(session)
            self._reached(session, lambda found: found.retry_state.state == "held")
            self._cancel(session, "its retry was held")
        finally:
            self._switch("on")

    def _cancel_of_a_waiting_retry(self) -> None:
        session = self._submit(retry_delay=2)
        self._failed(session)
        self._reached(session, lambda found: found.retry_state.state == "scheduled")
        self._cancel(session, "its retry waited")

    def _retry_of_a_cancelled_chain(self) -> None:
        """Retry a cancelled chain: somebody wants its result."""
        session = self._submit()
        self._keep_on(lambda: self._people.cancel(session))
        self._reached(session, lambda found: found.finished_at is not None)
        child = self._people.retry(session).id
        key = self._running(child)
        if self._say(key, 3, "TERMINATED", 0) == "applied":
            self._reached(child, lambda found: found.finished_at is not None)
            if (status := self._people.session(child).status) != "TERMINATED":
                self.violations.append(f"{child} was retried by hand, succeeded, and is {status}")

    def _clear(self) -> None:
        """Leave nothing that goes on."""

        def over() -> bool | None:
            self._people.retry_settings_update(project=LATE_PROJECT, mode="on")
            sessions = list(self._people.sessions(job_set=JOB_SET))
            left = [each for each in sessions if each.finished_at is None or _waits(each)]
            for each in left:
                with suppress(ApiError):  # it has just ended
                    self._people.cancel(each.id)
            self._lease()
            return not left or None

        self._keep_on(over, to_the_end=True)

    def judge(self, connection: "psycopg.Connection[Any]") -> Iterator[str]:
        """Yield what is wrong with the answers, and with the chains that were over."""
        yield from self.violations
        query = "SELECT root_id::text, count(*) FROM sessions_app_session GROUP BY root_id"
        attempts = dict(connection.execute(query).fetchall())
        for root, count, why in self._closed:
            if attempts.get(root) != count:
                yield f"{root} {why}, at attempt {count}, and has {attempts.get(root)} attempts"


CASES = (
    Late._token_of_the_lease_before,
    Late._cancel_of_a_held_retry,
    Late._success_after_the_end,
    Late._success_after_the_cancel,
    Late._cancel_of_a_waiting_retry,
    Late._retry_of_a_cancelled_chain,
)


def _waits(session: Session) -> bool:
    return session.retry_state.state in {"scheduled", "held"}


def _report(key: LeaseKey, seq: int, status: str, code: int | None) -> Report:
    termination = Termination(
        exit_code=code,
        conditions=[],
        reason="",
        message="",
        pod_message="",
        node="",
        lease_expired=False,
        containers=[],
    )
    return Report(
        session_id=key.session_id,
        fencing_token=key.fencing_token,
        seq=seq,
        status=status,
        at=time.time(),
        node="",
        message="",
        exit_code=code,
        termination=None if code is None else termination,
    )
