"""The acts of operators: each goes through the service that REST uses, with its checks."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from reprise.celery import app
from reprise.models import ParkedState, ParkedTask
from reprise.operations.problems import ActName
from reprise.operations.raising import Raisable, burst_raise, raisable
from reprise.worker.parking import parked_send
from retry.engine.decide import Mode
from scheduler.models import Executor, Node
from scheduler.selectors import executor_get, node_get
from scheduler.services.drain import executor_drain
from scheduler.services.nodes.acts import node_quarantine, node_release
from scheduler.services.registry import executor_cordon, executor_uncordon
from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.core.states import RetryState
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Breaker, PreparedAction, Queue
from sessions_app.selectors.breakers import breaker_get
from sessions_app.selectors.policies import queue_get
from sessions_app.selectors.session_pages import ANY_SPEC, SessionsWanted, sessions_matching
from sessions_app.selectors.sessions import domain_get, project_get
from sessions_app.services.breakers.acts import breaker_close
from sessions_app.services.resources.queues import queue_save
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.services.sessions.prepared_actions import MOST, action_continue, action_prepare

SENT_AT_ONCE = 200
"""Most parked tasks that one act sends again."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An act that somebody wants: who, on what, and why."""

    actor: Actor
    of: str
    reason: str = ""
    burst: str = ""
    """The new burst of a budget, as it was typed."""


def scope_of(actor: Actor, name: str) -> ConfigScope:
    """Return the scope of retries that an act names. Raises `NotFound`, `NotPermitted`."""
    domain, slash, project = name.partition("/")
    if slash:
        action = Action.PROJECT_DEFAULTS_WRITE
        return ConfigScope(project=project_get(actor, domain, project, action))
    if name:
        return ConfigScope(domain=domain_get(actor, name, Action.DOMAIN_DEFAULTS_WRITE))
    authorize(actor, Action.CLUSTER_DEFAULTS_WRITE)
    return ConfigScope()


def executor_of(wanted: Wanted) -> Executor:
    """Return the executor that an act names. Raises `NotFound`, `NotPermitted`."""
    found: Executor = executor_get(wanted.actor, wanted.of, Action.EXECUTOR_WRITE)
    return found


def queue_of(wanted: Wanted) -> Queue:
    """Return the queue that an act names. Raises `NotFound`, `NotPermitted`."""
    domain, _, rest = wanted.of.partition("/")
    project, _, name = rest.partition("/")
    return queue_get(project_get(wanted.actor, domain, project, Action.QUEUE_WRITE), name)


def _switch(mode: Mode) -> Callable[[Wanted], str]:
    def act(wanted: Wanted) -> str:
        scope = scope_of(wanted.actor, wanted.of)
        retry_settings_put(scope, by=wanted.actor.name, mode=mode)
        whose = scope.name if scope.domain or scope.project else "the whole cluster"
        return f"Retries of {whose} are {mode.value}."

    return act


def _cordon(wanted: Wanted) -> str:
    executor_cordon(executor_of(wanted), reason=wanted.reason, by=wanted.actor.name)
    return f"Executor {wanted.of} is cordoned."


def _uncordon(wanted: Wanted) -> str:
    executor_uncordon(executor_of(wanted), by=wanted.actor.name)
    return f"Executor {wanted.of} gets leases again."


def _drain(wanted: Wanted) -> str:
    executor_of(wanted)
    done = executor_drain(wanted.of, by=wanted.actor.name, reason=wanted.reason)
    kept = f", {done.kept} left running (never retried)" if done.kept else ""
    return f"{wanted.of}: {done.asked} runs asked to stop, {done.returned} leases taken back{kept}."


def node_of(wanted: Wanted) -> Node:
    """Return the node that an act names. Raises `NotFound`, `NotPermitted`."""
    executor, _, name = wanted.of.partition("/")
    return node_get(wanted.actor, executor, name, Action.NODE_WRITE)


def _quarantine(wanted: Wanted) -> str:
    node = node_of(wanted)
    node_quarantine(node.executor, node.name, reason=wanted.reason, by=wanted.actor.name)
    return f"Node {wanted.of} is in quarantine."


def _release(wanted: Wanted) -> str:
    node = node_of(wanted)
    node_release(node.executor, node.name, by=wanted.actor.name)
    return f"Node {wanted.of} gets leases again."


def breaker_of(wanted: Wanted) -> Breaker:
    """Return the breaker that an act names. Raises `NotFound`, `NotPermitted`."""
    try:
        key = UUID(wanted.of)
    except ValueError:
        raise NotFound(f"no breaker {wanted.of}") from None
    return breaker_get(wanted.actor, key, Action.BREAKER_WRITE)


def _close(wanted: Wanted) -> str:
    breaker = breaker_of(wanted)
    breaker_close(breaker.pk, reason=wanted.reason, mute=False, by=wanted.actor.name)
    return f"The breaker of {breaker.signature} ({breaker.address}) is closed."


def _queue(*, cordoned: bool) -> Callable[[Wanted], str]:
    def act(wanted: Wanted) -> str:
        queue = queue_of(wanted)
        queue.cordoned, queue.cordon_reason = cordoned, wanted.reason if cordoned else ""
        queue_save(queue, by=wanted.actor.name, fields=("cordoned", "cordon_reason"))
        return f"Queue {wanted.of} is {'cordoned' if cordoned else 'open'}."

    return act


def _send(wanted: Wanted) -> str:
    authorize(wanted.actor, Action.ADMIN_USE)
    rows = ParkedTask.objects.filter(state=ParkedState.PARKED, name=wanted.of).order_by("pk")
    ids = list(rows.values_list("pk", flat=True)[:SENT_AT_ONCE])
    if not ids:
        raise NotFound(f"no task {wanted.of} is parked")
    try:
        with app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, timeout=5)
            sent = parked_send(ids, broker=broker, by=wanted.actor.name)
    except Exception as error:  # any failure of any broker
        raise Conflict(f"not sent: {error}; try again") from error
    return f"Sent again: {sent}."


def budget_of(wanted: Wanted) -> Raisable:
    """Return the shared budget that an act names. Raises `NotFound`, `NotPermitted`."""
    of_queue = wanted.of.count("/") > 1
    return raisable(queue_of(wanted) if of_queue else scope_of(wanted.actor, wanted.of))


def _raise(wanted: Wanted) -> str:
    found = budget_of(wanted)
    burst = burst_raise(found, wanted.burst, by=wanted.actor.name)
    return f"The shared retry budget of {found.whose} has a burst of {burst:,}."


ACTS: dict[ActName, Callable[[Wanted], str]] = {
    ActName.RETRIES_ON: _switch(Mode.ON),
    ActName.RETRIES_PAUSE: _switch(Mode.PAUSED),
    ActName.EXECUTOR_CORDON: _cordon,
    ActName.EXECUTOR_UNCORDON: _uncordon,
    ActName.EXECUTOR_DRAIN: _drain,
    ActName.QUEUE_CORDON: _queue(cordoned=True),
    ActName.QUEUE_UNCORDON: _queue(cordoned=False),
    ActName.NODE_QUARANTINE: _quarantine,
    ActName.NODE_RELEASE: _release,
    ActName.BREAKER_CLOSE: _close,
    ActName.PARKED_SEND: _send,
    ActName.BUDGET_RAISE: _raise,
}
"""What each act does. Each returns what was done, and raises a `DomainError` if it was refused."""

PARKED = SessionsWanted(retry_state=RetryState.PARKED, tip=True)
CHAIN_ACTS = {ActName.CHAINS_RETRY: "retry", ActName.CHAINS_GIVE_UP: "give_up"}
"""The acts on all parked chains, by the names of actions on many sessions."""


def chains_begin(name: ActName, actor: Actor) -> PreparedAction:
    """Begin to act on the parked chains, with the first slice of at most `MOST`.

    The page of actions on many sessions goes on. Raises `NotFound` if none is parked.
    """
    ids = sessions_matching(actor, PARKED, ANY_SPEC, MOST)
    if not ids:
        raise NotFound("no chain is parked any more")
    prepared = action_prepare(actor, CHAIN_ACTS[name], ids, query="retry_state=parked")
    return action_continue(actor, prepared.pk)
