"""Random lives of a few chains: after every step, all invariants hold over the whole database."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from retry.engine.decide import Mode
from scheduler.models import Executor, Lease
from scheduler.services.executors import leases_sweep_orphans
from scheduler.services.expire import leases_expire
from sessions_app.core.errors import Conflict
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Session
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry, sessions_retry_paced
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.preempt import session_preempt
from sessions_app.services.sessions.priority import session_set_priority
from tests.agent import Agent, agent
from tests.factories import policy, project, submit, user
from tests.integration.test_storm_limits import due_again
from tests.invariants import check_all

LONG_AGO = timedelta(days=1)
Item = TypeVar("Item")

POLICIES: tuple[dict[str, Any], ...] = (
    policy(max_retries=2),
    policy(max_retries=1, max_preemption_retries=2),
    policy(max_retries=3, no_retry_on_exit_codes=[2], emit_retry_events=False),
    policy(max_retries=150),
    policy(max_retries=2, max_chain_duration=1e-6),
    {},
)
ENDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ERROR", {"exit_code": 1}),
    ("ERROR", {"exit_code": 2, "termination": {"node": "n2", "message": "no \u20ac"}}),
    ("ERROR", {"termination": {"reason": "Evicted", "conditions": ["DisruptionTarget"]}}),
    ("ERROR", {"termination": {"lease_expired": True}}),
    ("ERROR", {"termination": {"exit_code": "junk", "containers": [3]}}),
    ("ERROR", {"termination": {"reason": "InvalidImageName"}}),
    ("TERMINATED", {}),
)
STATUSES = ("PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING", "TERMINATING")


class World:
    """A project, two agents and a few chains; everything that is chosen comes from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.owner: User = user(superuser=True)
        self.project = project()
        self.agents = [agent(), agent()]
        self.sent: list[tuple[Agent, dict[str, Any]]] = []
        for chosen in POLICIES[:2]:
            submit(self.project, owner=self.owner, retry_policy=chosen)

    def pick(self, choices: Sequence[Item]) -> Item:
        return self.random.choice(choices)

    def submit(self) -> None:
        if Session.objects.filter(parent=None).count() < 4:
            kind = self.pick(("batch", "batch", "interactive"))
            chosen = self.pick(POLICIES)
            submit(self.project, owner=self.owner, session_type=kind, retry_policy=chosen)

    def lease(self) -> None:
        self.pick(self.agents).lease()

    def lease_forgetfully(self) -> None:
        agent = self.pick(self.agents)
        agent.forget()
        agent.lease()

    def progress(self) -> None:
        self._report(self.pick(STATUSES), {"node": self.pick(("", "n1", "n2"))})

    def end(self) -> None:
        self._report(*self.pick(ENDS))

    def _report(self, status: str, fields: dict[str, Any]) -> None:
        agent = self.pick(self.agents)
        if agent.tokens:
            session = self.pick(sorted(agent.tokens))
            report = agent.reporting(session, status, **fields)
            self.sent.append((agent, report))
            agent.send(report)

    def replay(self) -> None:
        """An old report once more, perhaps as another agent, with another number or token."""
        if self.sent:
            agent, report = self.pick(self.sent)
            changed = report | self.pick(
                (
                    {},
                    {"seq": 1},
                    {"seq": report["seq"] + 5},
                    {"fencing_token": report["fencing_token"] + 1},
                    {"status": "RUNNING"},
                    {"status": "nonsense"},
                )
            )
            self.pick((agent, *self.agents)).send(changed)

    def burst(self) -> None:
        """A whole run in one call, out of order, with a poison report in the middle."""
        agent = self.pick(self.agents)
        if agent.tokens:
            session = self.pick(sorted(agent.tokens))
            reports: list[Any] = [agent.reporting(session, each) for each in STATUSES[:2]]
            status, fields = self.pick(ENDS)
            reports.append(agent.reporting(session, status, **fields))
            agent.send(reports[2], {"session_id": 7, "status": "ERROR"}, *reports[:2], reports[2])
            self.sent.extend((agent, report) for report in reports)
            agent.tokens.pop(session, None)

    def attempt(self) -> None:
        """A whole attempt, from the lease to the retry of its failure."""
        agent = self.pick(self.agents)
        agent.lease()
        if agent.tokens:
            session = self.pick(sorted(agent.tokens))
            agent.report(session, "RUNNING", node="n1")
            agent.report(session, "ERROR", exit_code=1)
            agent.tokens.pop(session, None)
            retries_dispatch()

    def give_back(self) -> None:
        agent = self.pick(self.agents)
        if agent.tokens:
            agent.give_back(self.pick(sorted(agent.tokens)))

    def expire(self) -> None:
        """Set one clock back far enough, and sweep."""
        past = timezone.now() - LONG_AGO
        clock = self.pick(("granted_at", "last_seen_at", "lost_at"))
        rows = Executor.objects if clock == "last_seen_at" else Lease.objects
        rows.filter(**{f"{clock}__isnull": False}).update(**{clock: past})
        leases_expire()

    def sweep(self) -> None:
        leases_sweep_orphans()

    def cancel(self) -> None:
        self._by_hand(lambda session: chain_cancel(session.root_id, by="ann"))

    def preempt(self) -> None:
        self._by_hand(lambda session: session_preempt(session.pk, by="eve", reason="room"))

    def prioritize(self) -> None:
        priority = self.pick((-5, 0, 5))
        self._by_hand(lambda session: session_set_priority(session.pk, priority, by="ann"))

    def retry(self) -> None:
        self._by_hand(lambda session: session_retry(session.pk, session.root_id, by="bob"))

    def _by_hand(self, act: Callable[[Session], object]) -> None:
        ids: list[UUID] = sorted(Session.objects.values_list("pk", flat=True))
        if ids:
            try:
                act(Session.objects.get(pk=self.pick(ids)))
            except Conflict:
                return

    def dispatch(self) -> None:
        retries_dispatch()

    def retry_many(self) -> None:
        rows = Session.objects.values_list("pk", "root_id")
        resources = self.pick(({}, {"cpu": "2"}, {"memory": "4Gi"}))
        sessions_retry_paced(dict(rows), by="bob", resources=resources)

    def slots_come(self) -> None:
        """The time of all who wait for a slot."""
        due_again(*Session.objects.filter(decision__paced=True, retry_state="scheduled"))
        retries_dispatch()

    def switch(self) -> None:
        limit = self.pick((None, 1))
        retry_settings_put(
            ConfigScope(),
            mode=self.pick(tuple(Mode)),
            global_max_retries=limit,
            retries_per_minute=self.pick((None, 1, 2)),
            queue_retries_per_minute=self.pick((None, 1)),
            by="root",
        )

    def resume(self) -> None:
        held_resume()


STEPS: dict[str, tuple[int, Callable[[World], None]]] = {
    "submit": (2, World.submit),
    "lease": (4, World.lease),
    "lease_forgetfully": (1, World.lease_forgetfully),
    "progress": (4, World.progress),
    "end": (4, World.end),
    "attempt": (4, World.attempt),
    "replay": (2, World.replay),
    "burst": (2, World.burst),
    "give_back": (1, World.give_back),
    "expire": (2, World.expire),
    "sweep": (1, World.sweep),
    "cancel": (1, World.cancel),
    "preempt": (2, World.preempt),
    "prioritize": (2, World.prioritize),
    "retry": (2, World.retry),
    "retry_many": (1, World.retry_many),
    "slots_come": (1, World.slots_come),
    "dispatch": (4, World.dispatch),
    "switch": (1, World.switch),
    "resume": (1, World.resume),
}
"""Each step with how often it comes: a life is mostly made of leases, reports and retries."""


@pytest.mark.parametrize("seed", range(10))
def test_the_log_folds_to_the_row_at_every_moment(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    weights = [weight for weight, _ in STEPS.values()]
    life: list[str] = []
    for name in random.choices(list(STEPS), weights, k=60):
        life.append(name)
        STEPS[name][1](world)
        assert check_all() == [], life
