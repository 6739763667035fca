"""The REST door for tests, and an executor that is played by hand over it."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.test import Client
from django.test.client import ClientHandler

from scheduler.models import Executor
from sessions_app.core.states import FINAL_STATUSES, Status
from sessions_app.models import Session
from tests import factories

API = "/api/v2/"
NO_TOKEN = 2**62
_HANDLER = ClientHandler(enforce_csrf_checks=False)
"""One for all, as in a server: making its middleware anew takes longer than most calls."""


class Api:
    """A REST client with a token; an exception in a view fails the test that calls it."""

    def __init__(self, token: str | None = None):
        self.token = token
        self.http = Client()
        self.http.handler = _HANDLER

    def call(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        """The response; `body` is sent as JSON unless it is bytes already."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        address = path if path.startswith(("/", "http")) else API + path
        # What the test gives wins over the usual headers.
        options = {"content_type": "application/json", "headers": headers} | extra
        return self.http.generic(method, address, data, **options)

    def get(self, path: str, **extra: Any) -> Any:
        """GET."""
        return self.call("GET", path, **extra)

    def post(self, path: str, body: Any = None, **extra: Any) -> Any:
        """POST."""
        return self.call("POST", path, body, **extra)

    def read(self, path: str) -> Any:
        """The JSON of a GET that has to work."""
        response = self.get(path)
        assert response.status_code == 200, response.content
        return response.json()

    def pages(self, path: str) -> list[Any]:
        """The results of each page of a list, from this one on."""
        found, following = [], path
        while following:
            page = self.read(following)
            found.append(page["results"])
            following = page["next"]
        return found


def admin() -> Api:
    """A cluster admin's door."""
    return Api(factories.token(factories.user(superuser=True)))


@dataclass
class Agent:
    """Plays an executor: it knows its leases and numbers its reports under each of them."""

    executor: Executor
    incarnation: int = 1
    max_sessions: int = 1000
    nodes: list[dict[str, Any]] = field(default_factory=list)
    tokens: dict[UUID, int] = field(default_factory=dict)
    seqs: dict[int, int] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    """The answer to the last lease call."""

    def __post_init__(self) -> None:
        self.api = Api(factories.token(executor_name=self.executor.name))

    def call(self, verb: str, body: dict[str, Any]) -> Any:
        """One call of the wire; the response."""
        path = f"executors/{self.executor.name}/{verb}/"
        return self.api.post(path, {"incarnation": self.incarnation, **body})

    def ask(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """One call that has to work; the answer."""
        response = self.call(verb, body)
        assert response.status_code == 200, response.content
        answer: dict[str, Any] = response.json()
        return answer

    def lease(self, **fields: Any) -> list[UUID]:
        """Heartbeat with all that it holds; the sessions newly leased."""
        runs = [
            {"session_id": str(session), "fencing_token": number}
            for session, number in self.tokens.items()
        ]
        limits = {"max_sessions": self.max_sessions}
        body = {"limits": limits, "nodes": self.nodes, "runs": runs, "secrets": True}
        self.answer = self.ask("lease", {**body, **fields})
        granted = {UUID(each["session_id"]): each for each in self.answer["leases"]}
        self.tokens |= {session: each["fencing_token"] for session, each in granted.items()}
        return list(granted)

    def forget(self) -> None:
        """Come back with empty hands, as a restarted agent does."""
        self.incarnation += 1
        self.tokens.clear()

    def reporting(self, session: UUID, status: str, **fields: Any) -> dict[str, Any]:
        """The next report of a session, not sent yet."""
        # A lease that is not held any more has a token that is never given.
        number: int = fields.get("fencing_token", self.tokens.get(session, NO_TOKEN))
        self.seqs[number] = fields.get("seq", self.seqs.get(number, 0) + 1)
        return {
            "session_id": str(session),
            "fencing_token": number,
            "seq": self.seqs[number],
            "status": str(status),
            **fields,
        }

    def send(self, *reports: Any) -> list[str]:
        """Send reports; their outcomes. A run whose end was taken is let go of."""
        outcomes = self.ask("reports", {"reports": list(reports)})["outcomes"]
        for report, outcome in zip(reports, outcomes, strict=True):
            if outcome["outcome"] == "applied" and report["status"] in FINAL_STATUSES:
                self.tokens.pop(UUID(report["session_id"]), None)
        return [outcome["outcome"] for outcome in outcomes]

    def report(self, session: UUID, status: str, **fields: Any) -> str:
        """Send one report; its outcome."""
        (outcome,) = self.send(self.reporting(session, status, **fields))
        return outcome

    def start(self, *sessions: UUID) -> None:
        """Accept leases and say that they run."""
        for status in (Status.PREPARING, Status.RUNNING):
            self._all_applied([self.reporting(each, status) for each in sessions])

    def fail(self, *sessions: UUID, exit_code: int = 1, **facts: Any) -> None:
        """End runs with an error."""
        facts = {"exit_code": exit_code, **facts}
        self._all_applied([self.reporting(s, Status.ERROR, termination=facts) for s in sessions])

    def succeed(self, *sessions: UUID) -> None:
        """End runs well."""
        self._all_applied([self.reporting(each, Status.TERMINATED) for each in sessions])

    def _all_applied(self, reports: list[dict[str, Any]]) -> None:
        outcomes = self.send(*reports)
        assert set(outcomes) == {"applied"}, outcomes

    def give_back(self, *sessions: UUID, reason: str = "no room") -> list[str]:
        """Hand leases back; the outcomes."""
        returns = [
            {"session_id": str(s), "fencing_token": self.tokens[s], "reason": reason}
            for s in sessions
        ]
        answer = self.ask("return", {"returns": returns})
        outcomes = [each["outcome"] for each in answer["outcomes"]]
        for session, outcome in zip(sessions, outcomes, strict=True):
            if outcome == "applied":
                del self.tokens[session]
        return outcomes


def agent(name: str = "", **fields: Any) -> Agent:
    """An agent of a new executor."""
    return Agent(factories.executor(name), **fields)


def running(agent: Agent, session: Session) -> Session:
    """Lease a waiting session to the agent and start it."""
    assert session.pk in agent.lease()
    agent.start(session.pk)
    session.refresh_from_db()
    return session


def failed(agent: Agent, session: Session, **facts: Any) -> Session:
    """Run a waiting session until it fails."""
    running(agent, session)
    agent.fail(session.pk, **facts)
    session.refresh_from_db()
    return session
