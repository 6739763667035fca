"""Problems of the work: executors, retries, and the session that waits the longest."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from reprise.operations import facts
from reprise.operations.problems import SHOWN, Act, ActName, Problem, Severity
from reprise.operations.switches import Scopes, scope_name
from retry.engine.decide import Mode
from retry.policies.shared_budget import WhenOver
from scheduler.models import Executor, Node, NodeState, Reservation
from scheduler.services.silence import Health, health_of
from sessions_app.authorization import Actor
from sessions_app.models import Breaker, Queue, RetrySettings
from sessions_app.selectors.counts import Count
from sessions_app.selectors.retry_budgets import MOST_HELD, BudgetSpent
from sessions_app.selectors.sessions import session_get
from sessions_app.selectors.why_pending import Reason, why_pending

WAITS = timedelta(minutes=5)
"""Less than this is no problem, whatever the reason ..."""
WAITS_LONG = timedelta(hours=1)
"""... and this is one even for lack of room."""
NEEDS_SOMEBODY = {
    Reason.NO_EXECUTOR,
    Reason.NO_FIT,
    Reason.PROJECT_TROUBLE,
    Reason.EXECUTOR_TROUBLE,
}
"""Reasons that do not pass by themselves."""


def executors(found: Sequence[Executor], now: datetime, waiting: Count) -> Iterator[Problem]:
    """Yield the problems of executors, of which `waiting` sessions wait."""
    heard = [each for each in found if _health(each, now) in {Health.ALIVE, Health.LATE}]
    if waiting.value and not any(not each.cordoned for each in heard):
        told = "No executor takes sessions: nothing starts."
        yield Problem(
            "no_executor", Severity.CRITICAL, told, affected=waiting, unit="waiting sessions"
        )
    several = [problem for each in found for problem in _executor(each, now)]
    yield from several[: 3 * SHOWN]


def _health(executor: Executor, now: datetime) -> Health:
    return health_of(executor.last_seen_at, now)


def _executor(executor: Executor, now: datetime) -> Iterator[Problem]:
    health, name = _health(executor, now), executor.name
    if health is Health.NEVER_HEARD:
        told = f"Executor {name} was never heard of: its agent has not called in."
        yield _about(executor, "executor_never_heard", Severity.NOTICE, told, executor.created_at)
    elif health is not Health.ALIVE:
        yield _unheard(executor, health)
    if executor.trouble:
        told = f"Executor {name} can start nothing: {executor.trouble}"
        yield _about(executor, "executor_trouble", Severity.WARNING, told)
    elif executor.project_troubles:
        told = f"Executor {name} cannot start everything. {_first(executor)}"
        yield _about(executor, "project_trouble", Severity.WARNING, told)
    if executor.draining_since is not None:
        told = f"Executor {name} is drained by {executor.drained_by}: {executor.cordon_reason}"
        yield _about(executor, "executor_draining", Severity.NOTICE, told, executor.draining_since)
    elif executor.cordoned:
        told = f"Executor {name} is cordoned: {executor.cordon_reason}"
        yield _about(executor, "executor_cordoned", Severity.NOTICE, told)


def _unheard(executor: Executor, health: Health) -> Problem:
    gone = health is Health.SILENT
    told = f"Executor {executor.name} is {'silent' if gone else 'late'}"
    told = f"{told}: it gets no leases." if gone else f"{told} with its heartbeat."
    if executor.cordoned:
        severity = Severity.NOTICE
    elif gone and _leases(executor).value:
        severity = Severity.CRITICAL
    else:
        severity = Severity.WARNING
    return _about(executor, f"executor_{health}", severity, told, executor.last_seen_at)


def _first(executor: Executor) -> str:
    troubles = sorted(executor.project_troubles.values(), key=lambda each: str(each["project"]))
    more = f" And {len(troubles) - 1} more projects." if len(troubles) > 1 else ""
    return f"Of {troubles[0]['project']}: {troubles[0]['trouble']}{more}"


def _about(
    executor: Executor, kind: str, severity: Severity, told: str, since: datetime | None = None
) -> Problem:
    cordon = ActName.EXECUTOR_UNCORDON if executor.cordoned else ActName.EXECUTOR_CORDON
    drain = () if executor.draining_since else (Act(ActName.EXECUTOR_DRAIN, executor.name),)
    acts = (Act(cordon, executor.name), *drain)
    return Problem(
        kind,
        severity,
        told,
        subject=executor.name,
        since=since,
        affected=_leases(executor),
        unit="leases",
        acts=() if kind == "executor_never_heard" else acts,
    )


def _leases(executor: Executor) -> Count:
    return Count(int(getattr(executor, "lease_count", 0)))


def retries(moved: Sequence[RetrySettings], scopes: Scopes) -> Iterator[Problem]:
    """Yield the switches that hold retries, and the storm that limits flatten."""
    for row in moved:
        waiting, name = scopes.of(row), scope_name(row)
        paused = row.mode == Mode.PAUSED
        whose = name or "the cluster"
        told = "are held until they are switched on" if paused else "are refused, and held"
        yield Problem(
            f"retries_{row.mode}",
            Severity.WARNING if waiting.held.value else Severity.NOTICE,
            f"Retries of {whose} are {row.mode}: those that come due {told}.",
            subject=name,
            since=row.updated_at,
            affected=waiting.held,
            unit="held retries",
            acts=(Act(ActName.RETRIES_ON, name),),
        )
    found = facts.storm()
    if found is not None:
        queues = f" of {found.queues} queue{'s' * (found.queues > 1)}" if found.queues else ""
        yield Problem(
            "storm",
            Severity.WARNING,
            f"A storm of retries{queues} is above the storm limits: the last of them start at "
            f"{found.until:%H:%M} UTC.",
            affected=Count(found.postponed),
            unit="retries",
            acts=(Act(ActName.RETRIES_PAUSE, ""),),
        )


def parked_chains() -> Iterator[Problem]:
    """Yield the chains that wait for somebody to decide about them."""
    found, since = facts.parked_chains()
    if found.value:
        yield Problem(
            "parked_chains",
            Severity.NOTICE,
            "Chains whose retries are used up are parked: somebody retries each or gives it up.",
            since=since,
            affected=found,
            unit="parked chains",
            acts=(Act(ActName.CHAINS_RETRY, ""), Act(ActName.CHAINS_GIVE_UP, "")),
        )


def breakers(found: Sequence[Breaker], held: Mapping[str, int]) -> Iterator[Problem]:
    """Yield the open breakers, and how many retries each holds, by its key."""
    for breaker in found:
        title, holds = getattr(breaker, "title", None), held.get(str(breaker), 0)
        failure = f"{title} ({breaker.signature})" if title else breaker.signature
        yield Problem(
            "breaker_open",
            Severity.WARNING,
            f"The breaker of {breaker.address} is open for {failure}, so retries of such failures "
            f"wait: {breaker.reason or 'no reason was given'}.",
            subject=str(breaker.pk),
            since=breaker.opened_at,
            affected=Count(holds, holds >= MOST_HELD),
            unit="held retries",
            acts=(Act(ActName.BREAKER_CLOSE, str(breaker.pk)),),
        )


def budgets(found: Sequence[BudgetSpent]) -> Iterator[Problem]:
    """Yield the shared retry budgets that are spent."""
    for each in found:
        whose = "the cluster" if each.key == each.name else each.name
        waits = each.budget.over is WhenOver.POSTPONE
        told = "retries over it wait for room" if waits else "chains that fail there end"
        yield Problem(
            "budget_spent",
            # Its window may last for an hour more, while nothing waits for it.
            Severity.WARNING if each.held or not waits else Severity.NOTICE,
            f"The shared retry budget of {whose} is spent: {told}.",
            subject=each.name,
            since=each.spent_since,
            affected=Count(each.held, each.held >= MOST_HELD),
            unit="held retries",
            acts=(Act(ActName.BUDGET_RAISE, "" if each.key == each.name else each.name),),
            form=("queue" if each.key.startswith("queue:") else "retrysettings", each.row),
        )


def queues(cordoned: Sequence[Queue], waiting: dict[int, Count]) -> Iterator[Problem]:
    """Yield the queues that are cordoned."""
    for queue in cordoned:
        name = f"{queue.project.address}/{queue.name}"
        affected = waiting.get(queue.pk, Count(0))
        yield Problem(
            "queue_cordoned",
            Severity.WARNING if affected.value else Severity.NOTICE,
            f"Queue {name} is cordoned: {queue.cordon_reason}",
            subject=name,
            affected=affected,
            unit="waiting sessions",
            acts=(Act(ActName.QUEUE_UNCORDON, name),),
        )


def reservations(kept: Sequence[Reservation]) -> Iterator[Problem]:
    """Yield the nodes that are kept free for sessions that waited for too long, or for which others
    make room."""
    for row in kept:
        nodes = f"node{'s' * (len(row.nodes) > 1)} {', '.join(row.nodes[:SHOWN])}"
        if not row.nodes:  # its executor has none
            nodes = "a session slot"
        verb = "are" if len(row.nodes) > 1 else "is"
        yield Problem(
            "reservation",
            Severity.NOTICE,
            f"Executor {row.executor.name}: {nodes} {verb} kept free for a session of "
            f"{row.session.project.address} that waited for too long, or for which others make "
            "room.",
            subject=str(row.session_id),
            since=row.since,
        )


def nodes(out: Sequence[Node]) -> Iterator[Problem]:
    """Yield the nodes that are suspect or in quarantine."""
    for node in out:
        release = Act(ActName.NODE_RELEASE, node.address)
        if node.quarantined_at is not None:
            yield Problem(
                "node_quarantined",
                Severity.NOTICE,
                f"Node {node.address} is in quarantine: {node.quarantine_reason}",
                subject=node.address,
                since=node.quarantined_at,
                acts=(release,),
            )
            continue
        gets = "gets no leases" if node.state is NodeState.QUARANTINED else "is avoided"
        yield Problem(
            "node_suspect",
            Severity.WARNING,
            f"Node {node.address} is suspect and {gets} until {node.suspected_until:%H:%M} UTC: "
            f"{node.reason}.",
            subject=node.address,
            since=node.suspected_at,
            acts=(Act(ActName.NODE_QUARANTINE, node.address), release),
        )


def oldest(actor: Actor, now: datetime) -> Iterator[Problem]:
    """Yield the session that waits the longest, with the reason, if it waits for long."""
    session_id = facts.oldest_waiting()
    if session_id is None:
        return
    session = session_get(actor, session_id)
    waited = now - session.created_at
    if waited < WAITS:
        return
    why = why_pending(session)
    bad = why is not None and why.reason in NEEDS_SOMEBODY
    told = f"{why.message[:1].upper()}{why.message[1:]}" if why else "The reason is not known."
    yield Problem(
        "oldest_waiting",
        Severity.WARNING if bad or waited >= WAITS_LONG else Severity.NOTICE,
        f"The session that waits the longest is of {session.project.address}. {told}",
        subject=str(session_id),
        since=session.created_at,
    )
