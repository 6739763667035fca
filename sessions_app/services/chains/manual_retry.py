"""Manual retry: a person asks for another attempt of chains that have ended.

A single retry starts at once. In bulk, those over the storm limits wait for their slots, as
decisions on somebody's behalf.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from retry.engine.decide import Mode
from retry.units.resources import merged_resources
from sessions_app import wakeups
from sessions_app.core.errors import Conflict, DomainError, NotFound
from sessions_app.core.retry_changes import Changes, changes_shown
from sessions_app.core.states import GRANTED_RETRY, Phase, RetryState, Status, phase_of
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes
from sessions_app.in_force.retry_scope import RetryScope, retry_scopes, storm_limits_of
from sessions_app.locks import (
    LockedChain,
    LockedSession,
    StoredDecision,
    database_now,
    lock_chains,
    read_decisions,
)
from sessions_app.models import Session
from sessions_app.services.chains.changed_fit import unfit_retries
from sessions_app.services.chains.changed_retries import changed_retries
from sessions_app.services.chains.children import MANUAL, Retry, children_create
from sessions_app.services.chains.decisions import (
    RetryRequest,
    decisions_request,
)
from sessions_app.services.chains.dispatch import OVER_THE_LIMIT
from sessions_app.services.chains.storm_slots import slots_count, slots_release, slots_reserve
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.transitions import Change, Event, fact, sessions_change

Resources = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Granted:
    """Another attempt: the `child_id`, or the time `due_at` at which it comes.

    Both are None if a dry run would have created the attempt at once. It does not get the secrets
    whose names are in `secrets_dropped`: somebody else gave them.
    """

    child_id: UUID | None = None
    due_at: datetime | None = None
    secrets_dropped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request of a person, for all of some chains."""

    by: str
    changes: Changes
    """Changes to what each attempt would run: `core/retry_changes.py`."""

    @property
    def resources(self) -> Resources:
        """Return the changes to the resources that each attempt would get."""
        found: Resources = self.changes.get("resources") or {}
        return found


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A chain that gets another attempt."""

    chain: LockedChain
    retry: Retry
    warnings: tuple[str, ...] = ()

    @property
    def tip(self) -> LockedSession:
        return self.chain.tip

    def granted(self, child_id: UUID | None = None, due_at: datetime | None = None) -> Granted:
        """Return what the person who asked gets."""
        dropped = (self.retry.changes or {}).get("secrets_dropped", ())
        return Granted(child_id, due_at, tuple(dropped), self.warnings)

    def slot(self, now: datetime) -> datetime | None:
        """Return its slot under the storm limits if that is in the future, else None."""
        decision = self.retry.decision
        if decision is None or decision.state != "scheduled" or not decision.paced:
            return None
        ahead = decision.due_at is not None and decision.due_at > now
        return decision.due_at if ahead else None


def session_retry(
    session_id: UUID,
    root_id: UUID,
    *,
    by: str,
    resources: Resources | None = None,
    changes: Changes | None = None,
) -> Granted:
    """Retry one session of the chain `root_id` as `sessions_retry` does. Raises its refusal."""
    asked = {session_id: root_id}
    outcome = sessions_retry(asked, by=by, resources=resources, changes=changes)[session_id]
    if isinstance(outcome, DomainError):
        raise outcome
    return outcome


def sessions_retry(
    roots: Mapping[UUID, UUID],
    *,
    by: str,
    resources: Resources | None = None,
    changes: Changes | None = None,
    blocked: bool = False,
) -> dict[UUID, Granted | DomainError]:
    """Give the chains of sessions another attempt at once, on behalf of `by`.

    `roots` maps the sessions to their roots; `changes` (`core/retry_changes.py`) are made to what
    the attempts would run, and `resources` are changes of resources alone. Takes one transaction
    and a fixed number of statements. Return the outcome of each session. A waiting retry is brought
    forward and pays from its own budget; any other counts under `manual`. A cancellation is
    cleared. The refusal is a `Conflict` if the session is not the newest attempt, succeeded, has
    not ended, or if retries are switched off. The storm limits do not hold these retries back, but
    count them. `blocked` attempts wait for their dependencies again.
    """
    with atomic_step("manual_retry") as writes:
        scopes, attempts, outcomes = _look(roots, _asked(by, resources, changes))
        now = database_now()
        _uncancel(writes, attempts, now)
        freed = [(each.tip.queue_id, slot) for each in attempts if (slot := each.slot(now))]
        slots_release(freed, now=now)
        slots_count([each.tip.queue_id for each in attempts], storm_limits_of(scopes), now=now)
        retries = [replace(each.retry, blocked=blocked) for each in attempts]
        children = children_create(writes, retries, scopes, now=now)
    pairs = zip(attempts, children, strict=True)
    made = {each.tip.id: each.granted(child.id) for each, child in pairs}
    return {session_id: outcomes.get(session_id) or made[session_id] for session_id in roots}


def sessions_retry_paced(
    roots: Mapping[UUID, UUID],
    *,
    by: str,
    resources: Resources | None = None,
    changes: Changes | None = None,
    dry_run: bool = False,
) -> dict[UUID, Granted | DomainError]:
    """Retry as `sessions_retry` does, but within the storm limits: the rest waits for slots.

    A retry that has a slot already keeps it. A `dry_run` returns the same and changes nothing.
    """
    with atomic_step("manual_retry") as writes:
        asked = _asked(by, resources, changes)
        scopes, attempts, outcomes = _look(roots, asked)
        now = database_now()
        new = [each for each in attempts if each.slot(now) is None]
        queues = [each.tip.queue_id for each in new]
        slots = slots_reserve(queues, storm_limits_of(scopes), now=now, dry_run=dry_run)
        due = {each.tip.id: each.slot(now) or now for each in attempts}
        due |= {each.tip.id: slot for each, slot in zip(new, slots, strict=True)}
        late = [each for each in attempts if due[each.tip.id] > now]
        ready = [each for each in attempts if due[each.tip.id] <= now]
        found: dict[UUID, Granted | DomainError] = dict(outcomes)
        found |= {each.tip.id: each.granted(due_at=due[each.tip.id]) for each in late}
        found |= {each.tip.id: each.granted() for each in ready}
        if not dry_run:
            _uncancel(writes, attempts, now)
            _request(writes, [each for each in late if _changes(each, now)], due, asked, now)
            children = children_create(writes, [each.retry for each in ready], scopes, now=now)
            made = zip(ready, children, strict=True)
            found |= {each.tip.id: each.granted(child.id) for each, child in made}
    return {session_id: found[session_id] for session_id in roots}


def _asked(by: str, resources: Resources | None, changes: Changes | None) -> _Asked:
    own = {"resources": resources} if resources else {}
    return _Asked(by, {**(changes or {}), **own})


_Looked = tuple[dict[int, RetryScope], list[_Attempt], dict[UUID, DomainError]]


def _look(roots: Mapping[UUID, UUID], asked: _Asked) -> _Looked:
    """Lock chains. Return their scopes, the attempts to create, and the refusals by session."""
    chains = lock_chains(list(set(roots.values())))
    scopes = retry_scopes({chain.tip.project_id for chain in chains.values()})
    refusals: dict[UUID, DomainError] = {}
    granted: list[LockedChain] = []
    for session_id, root_id in roots.items():
        refusal = _refusal(session_id, chains.get(root_id), scopes)
        if refusal is not None:
            refusals[session_id] = refusal
        else:
            granted.append(chains[root_id])
    decisions = read_decisions([chain.tip.id for chain in granted]) if granted else {}
    attempts = [_attempt(chain, decisions.get(chain.tip.id), asked.by) for chain in granted]
    wanted = [each.retry for each in attempts]
    made, refused = changed_retries(wanted, asked.changes, scopes, by=asked.by)
    refusals |= refused
    attempts = [replace(each, retry=made[each.tip.id]) for each in attempts if each.tip.id in made]
    attempts = _with_resources(attempts, asked.resources)
    unfit = unfit_retries([each.retry for each in attempts], asked.changes, scopes)
    refusals |= {key: why for key, why in unfit.items() if isinstance(why, DomainError)}
    return (
        scopes,
        [_warned(each, unfit) for each in attempts if each.tip.id not in refusals],
        refusals,
    )


def _warned(attempt: _Attempt, unfit: Mapping[UUID, str | DomainError]) -> _Attempt:
    why = unfit.get(attempt.tip.id)
    return replace(attempt, warnings=(why,)) if isinstance(why, str) else attempt


def _attempt(chain: LockedChain, decision: StoredDecision | None, by: str) -> _Attempt:
    # Nothing was granted to a parked chain.
    waits = chain.tip.retry_state in GRANTED_RETRY and decision is not None
    if decision is None or not waits:
        return _Attempt(chain, Retry(chain.tip, MANUAL, decision, by=by))
    retry = Retry(
        chain.tip,
        decision.paid_by,
        decision,
        by=by,
        resources=decision.resources,
        changes=decision.changes,
    )
    return _Attempt(chain, retry)


def _with_resources(attempts: Sequence[_Attempt], changes: Resources) -> list[_Attempt]:
    if not changes or not attempts:
        return list(attempts)
    rows = Session.objects.filter(pk__in=[each.tip.id for each in attempts])
    had = dict(rows.values_list("pk", "spec__resources"))
    return [replace(each, retry=_changed(each.retry, had, changes)) for each in attempts]


def _changed(retry: Retry, had: Mapping[UUID, Resources], changes: Resources) -> Retry:
    before = had[retry.parent.id] if retry.resources is None else retry.resources
    after = merged_resources(before, changes)
    resources = retry.resources if after == before else after
    return replace(retry, resources=resources, resources_before=before)


def _uncancel(writes: Writes, attempts: Sequence[_Attempt], now: datetime) -> None:
    cleared = [
        Change(each.chain.root, {"cancel_requested_at": None})
        for each in attempts
        if each.chain.root.cancel_requested_at is not None
    ]
    sessions_change(writes, cleared, now=now)


def _changes(attempt: _Attempt, now: datetime) -> bool:
    """Return whether the request changes a retry that may wait for its slot already."""
    decision = attempt.retry.decision
    asked = attempt.retry.changes != (decision.changes if decision else None)
    return attempt.slot(now) is None or asked or attempt.retry.resources_before is not None


def _request(
    writes: Writes,
    attempts: Sequence[_Attempt],
    due: Mapping[UUID, datetime],
    asked: _Asked,
    now: datetime,
) -> None:
    """Make attempts wait for their slots on behalf of the person who asked."""
    if not attempts:
        return
    requests = [_asked_for(each.retry, due[each.tip.id]) for each in attempts]
    decisions_request(requests, by=asked.by)
    pairs = list(zip(attempts, requests, strict=True))
    waiting = [_waiting(each.tip, request, asked.by) for each, request in pairs]
    sessions_change(writes, waiting, now=now)
    audit_append(writes, [_audit(each, due[each.tip.id], asked.by) for each in attempts], now=now)
    wakeups.retries_due_after_commit([due[each.tip.id] for each in attempts], now=now)


def _asked_for(retry: Retry, slot: datetime) -> RetryRequest:
    decision = retry.decision
    used, limit = (decision.used, decision.limit) if decision else (None, None)
    if retry.paid_by == MANUAL:
        used, limit = retry.parent.retry_counters.get(MANUAL, 0), None
    return RetryRequest(
        retry.parent.id, slot, retry.paid_by, used, limit, retry.resources, retry.changes
    )


def _waiting(tip: LockedSession, request: RetryRequest, by: str) -> Change:
    due_at = fact(request.due_at)
    decision = {
        "state": "scheduled",
        "due_at": due_at,
        "paid_by": request.paid_by,
        "used": request.used,
        "limit": request.limit,
    }
    facts = {"reason": OVER_THE_LIMIT, "by": by, "due_at": due_at, "decision": decision}
    event = Event("session.retry_scheduled", facts)
    return Change(tip, {"retry_state": RetryState.SCHEDULED.value}, [event])


def _audit(attempt: _Attempt, slot: datetime, by: str) -> AuditRow:
    retry = attempt.retry
    data: dict[str, Any] = {"due_at": fact(slot), "paid_by": retry.paid_by}
    if retry.resources_before is not None:
        data["resources_before"] = retry.resources_before
        data["resources"] = retry.resources or retry.resources_before
    if changes := changes_shown(retry.changes):
        data["changes"] = changes
    tip = attempt.tip
    return AuditRow(by, "retry.request", "session", str(tip.id), data, tip.project_id, tip.root_id)


def _refusal(
    session_id: UUID, chain: LockedChain | None, scopes: Mapping[int, RetryScope]
) -> DomainError | None:
    if chain is None:
        return NotFound("there is no such chain")
    refusal = _ended(session_id, chain.tip)
    if refusal is None and scopes[chain.tip.project_id].settings.mode is Mode.OFF:
        return Conflict("retries are switched off here, also retries by hand")
    return refusal


def _ended(session_id: UUID, tip: LockedSession) -> DomainError | None:
    if tip.id != session_id:
        return Conflict(
            f"only the newest attempt of a chain can be retried; it is {tip.id}", tip=str(tip.id)
        )
    if phase_of(tip.status) is not Phase.FINAL:
        return Conflict(f"the session is {tip.status.value}: it has not ended")
    if tip.status is Status.TERMINATED or tip.retry_state == RetryState.SUCCEEDED:
        return Conflict("the session succeeded: there is nothing to retry")
    return None
