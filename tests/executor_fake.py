"""A small real HTTP server that speaks the executors' wire and remembers what it heard.

It keeps the rules that an agent depends on (tokens, numbers, incarnations, what a lease call's
list of runs settles) and lets a test bend each answer.
"""

import base64
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any
from uuid import uuid4

from tests.waiting import PATIENCE_SECONDS

TOKEN = "executor-token"
NAME = "one"
FINAL = {"TERMINATED", "ERROR"}
ORDER = ["PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING", "TERMINATING"]

Body = dict[str, Any]


@dataclass
class FakeSession:
    """`reports` are those that were applied, `log` is what was shipped, `settled` is how it
    ended: `reported`, `missing` (accepted, then left out of a lease call) or None."""

    id: str
    spec: Body
    environ: dict[str, str]
    avoid_node: str = ""
    token: int | None = None
    last_seq: int = 0
    reports: list[Body] = field(default_factory=list)
    log: bytes = b""
    log_pieces: int = 0
    settled: str | None = None
    returned: str | None = None
    stop: Body | None = None
    leases: int = 0
    secrets: dict[str, str] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    priority_class: str = ""
    node_labels: dict[str, str] = field(default_factory=dict)
    refused_node: str = ""
    told: list[Body] = field(default_factory=list)
    """The progress that came while it ran."""

    @property
    def statuses(self) -> list[str]:
        return [report["status"] for report in self.reports]

    @property
    def final(self) -> Body:
        """The final report; fails if there is none or more than one."""
        (report,) = [report for report in self.reports if report["status"] in FINAL]
        return report

    @property
    def termination(self) -> Body:
        termination: Body = self.final["termination"]
        return termination

    @property
    def accepted(self) -> bool:
        return self.last_seq > 0


class FakeServer:
    """`outcome(session, report)` may return an outcome to give in place of the right one, and
    `refusal(verb, body)` an HTTP status to answer a call with, which says `retry_after` if that is
    not 0. `room` overrides the agent's own limit."""

    def __init__(self) -> None:
        self.name = NAME
        self.sessions: dict[str, FakeSession] = {}
        self.calls: list[tuple[str, Body]] = []
        self.changed = Condition()
        self.incarnation = 0
        self.lease_ttl = 300.0
        self.lease_grace = 60.0
        self.log_cap = 1 << 30
        self.log_tail = 0
        self.room: int | None = None
        self.outcome: Callable[[FakeSession, Body], str | None] = lambda _session, _report: None
        self.refusal: Callable[[str, Body], int | None] = lambda _verb, _body: None
        self.retry_after = 0
        self.forget_troubles: list[str] = []
        self._next_token = 1
        self._http: _Http | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listens, after a stop at the same port as before."""
        self._http = _Http(("127.0.0.1", self._port), _Handler)
        self._http.fake = self
        self._port = self._http.server_address[1]
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Cuts all connections and refuses new ones."""
        http, self._http = self._http, None
        if http is None:
            return
        http.shutdown()
        http.cut()
        with self.changed:
            self.changed.notify_all()
        http.server_close()

    def submit(
        self,
        *command: str,
        environ: dict[str, str] | None = None,
        avoid_node: str = "",
        secrets: dict[str, str] | None = None,
        nodes: list[str] | None = None,
        priority_class: str = "",
        node_labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> FakeSession:
        session_id = str(uuid4())
        defaults = {"name": "test", "image": "", "environ": {}, "resources": {}, "mounts": []}
        session = FakeSession(
            session_id,
            {
                **defaults,
                "command": list(command),
                "cluster_size": 1,
                "batch_timeout": None,
                "termination_grace_period": 5,
                "labels": {},
                "ports": [],
                "pod_spec": None,
                **spec,
            },
            {"REPRISE_SESSION_ID": session_id, **(environ or {})},
            avoid_node,
            secrets=secrets or {},
            nodes=nodes or [],
            priority_class=priority_class,
            node_labels=node_labels or {},
        )
        with self.changed:
            self.sessions[session_id] = session
            self.changed.notify_all()
        return session

    def give_again(self) -> None:
        """Let sessions that came back be leased once more."""
        with self.changed:
            for session in self.sessions.values():
                session.returned = None
            self.changed.notify_all()

    def stop_session(self, session: FakeSession, reason: str, grace: float) -> None:
        with self.changed:
            session.stop = {
                "session_id": session.id,
                "fencing_token": session.token,
                "reason": reason,
                "grace_period": grace,
            }
            self.changed.notify_all()

    def has_heard_of(self, incarnation: int) -> bool:
        return self.incarnation >= incarnation

    def take_over(self) -> None:
        """As if another agent of the same name had called."""
        with self.changed:
            self.incarnation += 1
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], timeout: float = PATIENCE_SECONDS) -> None:
        with self.changed:
            if not self.changed.wait_for(condition, timeout):
                raise AssertionError(f"not reached in {timeout} s: {self.sessions}")

    def wait_settled(self, *sessions: FakeSession) -> None:
        self.wait_for(lambda: all(session.settled for session in sessions))

    def answer(self, verb: str, body: Body) -> tuple[int, Body]:
        with self.changed:
            self.calls.append((verb, body))
            try:
                return self._answer(verb, body)
            finally:
                self.changed.notify_all()

    def _answer(self, verb: str, body: Body) -> tuple[int, Body]:
        status = self.refusal(verb, body)
        if status is not None:
            return status, {"title": f"refused {verb}"}
        if body["incarnation"] < self.incarnation and verb != "logs":
            return 409, {"title": "superseded", "current_incarnation": self.incarnation}
        self.incarnation = max(body["incarnation"], self.incarnation)
        for each in body.get("progress", []):
            self.sessions[each["session_id"]].told.append(each)
        answers = {
            "lease": self._lease,
            "reports": self._reports,
            "return": self._return,
            "logs": self._logs,
        }
        return 200, answers[verb](body)

    def _lease(self, body: Body) -> Body:
        named = {(run["session_id"], run["fencing_token"]) for run in body["runs"]}
        for session in self.sessions.values():
            if session.token is not None and (session.id, session.token) not in named:
                self._missing(session)
        # Others may come in while this call is held, so the condition is let go of.
        self.changed.notify_all()
        self.changed.wait_for(lambda: self._something_for(body), body["wait_s"])
        return {
            "leases": [self._grant(session) for session in self._waiting(body)],
            "stops": [session.stop for session in self.sessions.values() if session.stop],
            "lease_ttl": self.lease_ttl,
            "lease_grace": self.lease_grace,
            # As an older server does, it says nothing of it where there is nothing to say.
            **({"forget_troubles": self.forget_troubles} if self.forget_troubles else {}),
        }

    def _missing(self, session: FakeSession) -> None:
        if session.accepted:
            session.settled, session.stop = "missing", None
        session.token = None

    def _something_for(self, body: Body) -> bool:
        stops = any(session.stop for session in self.sessions.values())
        gone = self._http is None or body["incarnation"] < self.incarnation
        return gone or stops or bool(self._waiting(body))

    def _waiting(self, body: Body) -> list[FakeSession]:
        if self._http is None or body["incarnation"] < self.incarnation:
            return []
        leased = sum(session.token is not None for session in self.sessions.values())
        room = max(0, (self.room or body["limits"]["max_sessions"]) - leased)
        kept = body.get("project_troubles", {})
        return [
            s
            for s in self.sessions.values()
            if not (s.token or s.settled or s.returned)
            and s.environ.get("REPRISE_PROJECT") not in kept
        ][:room]

    def _grant(self, session: FakeSession) -> Body:
        session.token, session.last_seq = self._next_token, 0
        session.leases += 1
        self._next_token += 1
        return {
            "session_id": session.id,
            "fencing_token": session.token,
            "attempt": 0,
            "project": "default",
            "queue": "default",
            "environ": session.environ,
            # As an older server does, it says nothing of it where there is nothing to say.
            **({"avoid_node": session.avoid_node} if session.avoid_node else {}),
            **({"nodes": session.nodes} if session.nodes else {}),
            **({"priority_class": session.priority_class} if session.priority_class else {}),
            **({"node_labels": session.node_labels} if session.node_labels else {}),
            **({"secret_environ": session.secrets} if session.secrets else {}),
            "spec": session.spec,
        }

    def _reports(self, body: Body) -> Body:
        assert len(body["reports"]) <= 500
        order = [(report["session_id"], report["seq"]) for report in body["reports"]]
        assert order == sorted(order)
        return {"outcomes": [self._report(report) for report in body["reports"]]}

    def _report(self, report: Body) -> Body:
        session = self.sessions[report["session_id"]]
        given = self.outcome(session, report)
        outcome = given or self._right_outcome(session, report)
        if outcome == "applied":
            session.last_seq = report["seq"]
            session.reports.append(report)
            if report["status"] in FINAL:
                session.settled, session.token, session.stop = "reported", None, None
        keys = ("session_id", "fencing_token", "seq")
        return {**{key: report[key] for key in keys}, "outcome": outcome, "detail": ""}

    def _right_outcome(self, session: FakeSession, report: Body) -> str:
        done = {(each["fencing_token"], each["seq"]) for each in session.reports}
        if (report["fencing_token"], report["seq"]) in done:
            return "duplicate"
        if report["fencing_token"] != session.token or session.settled:
            return "stale"
        return "applied" if report["seq"] > session.last_seq else "duplicate"

    def _return(self, body: Body) -> Body:
        outcomes = []
        for each in body["returns"]:
            session = self.sessions[each["session_id"]]
            free = not session.accepted or each.get("own_trouble", False)
            fresh = each["fencing_token"] == session.token and free
            if fresh:
                session.returned, session.token = each["reason"], None
                session.refused_node = each.get("refused_node", "")
            outcomes.append({**each, "seq": 0, "outcome": "applied" if fresh else "stale"})
        return {"outcomes": outcomes}

    def _logs(self, body: Body) -> Body:
        assert len(body["chunks"]) <= 16
        return {"chunks": [self._chunk(chunk) for chunk in body["chunks"]]}

    def _chunk(self, chunk: Body) -> Body:
        session = self.sessions[chunk["session_id"]]
        data = base64.b64decode(chunk["data"], validate=True)
        assert 0 < len(data) <= 256 * 1024
        end = len(session.log)
        if chunk["offset"] <= end:
            cap = self.log_cap + (self.log_tail if chunk.get("tail") else 0)
            session.log += data[end - chunk["offset"] :][: max(0, cap - end)]
            session.log_pieces += 1
        return {
            "session_id": session.id,
            "next_offset": len(session.log),
            "full": len(session.log) >= self.log_cap,
            "outcome": "applied",
            **({"tail_from": self.log_cap, "tail_bytes": self.log_tail} if self.log_tail else {}),
        }


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    fake: FakeServer

    def __init__(self, *args: Any):
        self._connections: set[socket.socket] = set()
        super().__init__(*args)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the agent's death has cut is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: _Http

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        *_, prefix, name, verb, _ = self.path.split("/")
        assert (prefix, name) == ("executors", self.server.fake.name)
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        status, answer = self.server.fake.answer(verb, body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status >= 400 and self.server.fake.retry_after:
            self.send_header("Retry-After", str(self.server.fake.retry_after))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests read what was said from the fake itself."""
