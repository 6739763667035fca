"""Checks what must hold over the whole database at every moment, whatever happened before.

Each check yields one line for each violation; `check_all` runs them all.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef

from scheduler.models import Executor, Lease, Preemption, Reservation
from scheduler.services.preemptions import REMEMBERED_FOR
from sessions_app.core.cadence import OF_SCHEDULES
from sessions_app.core.fold import DECISION_FACTS, FACTS, fold
from sessions_app.core.quotas import PENDING, running
from sessions_app.core.states import Phase, RetryState, Status, is_allowed
from sessions_app.locks import database_now
from sessions_app.models import (
    Breaker,
    Dependency,
    Project,
    ProjectUsage,
    RetryDecision,
    RetryTrace,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.models.events import ARCHIVED
from sessions_app.services.write.transitions import fact
from tests.told_log import await_all_told

_WAITING = frozenset({"scheduled", "held"})
# What a session shows for each state of its decision.
_SHOWN = {
    "scheduled": {RetryState.SCHEDULED},
    "held": {RetryState.HELD, RetryState.PARKED},
    "dispatched": {RetryState.RETRIED},
    "cancelled": {RetryState.CANCELLED},
    "final": {RetryState.EXHAUSTED, RetryState.NOT_RETRIED, RetryState.CANCELLED},
}


class Records:
    """Everything, or all of one project, read once."""

    def __init__(self, project: Project | None = None) -> None:
        of_project = {} if project is None else {"project": project}
        of_sessions = {} if project is None else {"session__project": project}
        events = {} if project is None else {"project_id": project.pk}
        self.sessions = {each.pk: each for each in Session.objects.filter(**of_project)}
        decisions = RetryDecision.objects.select_related("written_trace")
        self.decisions = {each.pk: each for each in decisions.filter(**of_sessions)}
        specs = SessionSpec.objects.all()
        if project is not None:
            specs = specs.filter(sessions__project=project).distinct()
        self.resources = dict(specs.values_list("pk", "resources"))
        self.pods = dict(specs.values_list("pk", "cluster_size"))
        self.domains = dict(Project.objects.values_list("pk", "domain"))
        self.leases = {lease.pk: lease for lease in Lease.objects.select_related("executor")}
        self.events: dict[UUID, list[SessionEvent]] = defaultdict(list)
        for event in SessionEvent.objects.filter(**events, type__startswith="session.").order_by(
            "session_id", "seq"
        ):
            self.events[event.session_id].append(event)
        self.chains: dict[UUID, list[Session]] = defaultdict(list)
        for session in sorted(self.sessions.values(), key=lambda each: each.retry_count):
            self.chains[session.root_id].append(session)


def check_all(project: Project | None = None) -> list[str]:
    """The violations of all invariants; empty if the records (of a project) are sound."""
    records = Records(project)
    return [f"{check.__name__}: {text}" for check in CHECKS for text in check(records)]


def log_folds_to_row(records: Records) -> Iterator[str]:
    """fold(events) is the row, in every fact and in every fact of the decision."""
    for session in records.sessions.values():
        folded = fold(event.data for event in records.events[session.pk])
        expected = {name: fact(getattr(session, name)) for name in FACTS}
        decision = records.decisions.get(session.pk)
        if decision is not None:
            expected["decision"] = {name: fact(getattr(decision, name)) for name in DECISION_FACTS}
        yield from _differences(session.pk, folded, expected)


def _differences(
    session_id: UUID, folded: dict[str, Any], expected: dict[str, Any]
) -> Iterator[str]:
    for name in expected.keys() | folded.keys():
        # What was never said has the value that a new row has.
        logged, is_ = folded.get(name), expected.get(name)
        if name == "decision" and isinstance(logged, dict) and isinstance(is_, dict):
            yield from _differences(session_id, logged, is_)
        elif (logged or None) != (is_ or None) and logged != is_:
            yield f"{session_id} {name}: the log says {logged!r}, the row {is_!r}"


def priorities_are_told(records: Records) -> Iterator[str]:
    """A session whose priority was changed has the one that its log says last."""
    for session in records.sessions.values():
        told = [
            event.data["priority"]
            for event in records.events[session.pk]
            if event.type == "session.priority_changed"
        ]
        if told and told[-1] != session.priority:
            yield f"{session.pk} has priority {session.priority}, its log says {told[-1]}"


def seq_is_gapless(records: Records) -> Iterator[str]:
    """A session's events are numbered 1, 2, 3 ... up to the row's `event_seq`."""
    for session in records.sessions.values():
        numbers = [event.seq for event in records.events[session.pk]]
        if numbers != list(range(1, session.event_seq + 1)):
            yield f"{session.pk} has events {numbers} and event_seq {session.event_seq}"


def steps_are_allowed(records: Records) -> Iterator[str]:
    """A session begins as PENDING, and the table of transitions allows each step of its log."""
    for session_id, events in records.events.items():
        statuses = [Status(event.data["status"]) for event in events if "status" in event.data]
        if statuses[:1] != [Status.PENDING]:
            yield f"{session_id} begins as {statuses[:1]}"
        for current, target in pairwise(statuses):
            if not is_allowed(current, target):
                yield f"{session_id} went from {current} to {target}"


def failures_are_decided(records: Records) -> Iterator[str]:
    """Every failed or cancelled session has a decision, and no other has one."""
    for session in records.sessions.values():
        decided = session.pk in records.decisions
        if decided != (session.status in {Status.ERROR, Status.CANCELLED}):
            yield f"{session.pk} is {session.status} and has {'a' if decided else 'no'} decision"


def decisions_have_their_trace(records: Records) -> Iterator[str]:
    """Every decision has a trace; no trace is left of a decision that is gone.

    The latter holds for traces of all projects.
    """
    for decision in records.decisions.values():
        if not decision.trace:
            yield f"the decision about {decision.pk} has no trace"
    decided = RetryDecision.objects.filter(pk=OuterRef("pk"))
    for trace in RetryTrace.objects.exclude(Exists(decided)):
        yield f"{trace} has a trace and no decision"


def breakers_know_what_they_hold(_records: Records) -> Iterator[str]:
    """Whatever a breaker holds names a breaker, and no closed breaker has a probe.

    Of all projects.
    """
    known = {f"{each.scope}/{each.signature}" for each in Breaker.objects.all()}
    for held in RetryDecision.objects.filter(state="held", held_for="breaker"):
        if held.held_key not in known:
            yield f"the retry of {held.pk} is held by {held.held_key!r}, which is no breaker"
    for breaker in Breaker.objects.filter(state="closed", probe__isnull=False):
        yield f"the breaker {breaker} is closed and has a probe"


def decision_is_shown(records: Records) -> Iterator[str]:
    """A session's `retry_state` says what its decision says."""
    for session in records.sessions.values():
        decision = records.decisions.get(session.pk)
        shown = RetryState(session.retry_state)
        if decision is not None:
            allowed = _SHOWN[decision.state]
        elif session.status == Status.TERMINATED:
            allowed = {RetryState.SUCCEEDED}
        else:
            allowed = {RetryState.NONE}
        if shown not in allowed:
            yield f"{session.pk} shows {shown}, expected {sorted(allowed)}"


def dispatched_has_one_child(records: Records) -> Iterator[str]:
    """A dispatched decision has exactly its child; a session without one has no child."""
    children: dict[UUID | None, list[UUID]] = defaultdict(list)
    for session in records.sessions.values():
        children[session.parent_id].append(session.pk)
    for session in records.sessions.values():
        decision = records.decisions.get(session.pk)
        expected = [decision.next_session_id] if decision and decision.next_session_id else []
        if children[session.pk] != expected:
            yield f"{session.pk} has children {children[session.pk]}, its decision names {expected}"


def chains_are_in_order(records: Records) -> Iterator[str]:
    """Attempts count 0, 1, 2 ...; each is the child of the one before; the last is the tip."""
    for root_id, chain in records.chains.items():
        ids = [session.pk for session in chain]
        if [session.retry_count for session in chain] != list(range(len(chain))):
            yield f"{root_id} has attempts {[session.retry_count for session in chain]}"
        if [session.parent_id for session in chain] != [None, *ids[:-1]]:
            yield f"{root_id} is not one line of parents"
        if [session.pk for session in chain if session.tip] != ids[-1:]:
            yield f"{root_id} has tips {[session.retry_count for session in chain if session.tip]}"


def one_unfinished_a_chain(records: Records) -> Iterator[str]:
    """Only the newest attempt may be unfinished, and nothing waits beside it."""
    for root_id, chain in records.chains.items():
        unfinished = [session.retry_count for session in chain if session.phase != Phase.FINAL]
        waiting = [
            session.retry_count
            for session in chain
            if (decision := records.decisions.get(session.pk)) and decision.state in _WAITING
        ]
        if len(unfinished) + len(waiting) > 1 or any(n != len(chain) - 1 for n in unfinished):
            yield f"{root_id}: unfinished attempts {unfinished}, waiting retries of {waiting}"


def cancelled_chains_end(records: Records) -> Iterator[str]:
    """Of a cancelled chain nothing waits, and what lives is being stopped or ends cancelled.

    Nothing of it begins after that; once somebody retries it by hand, it is cancelled no more.
    """
    for root_id, chain in records.chains.items():
        cancelled_at = chain[0].cancel_requested_at
        if cancelled_at is None:
            continue
        for session in chain:
            if session.created_at > cancelled_at:
                yield f"{root_id} was cancelled, and attempt {session.retry_count} began after that"
        tip = chain[-1]
        decision = records.decisions.get(tip.pk)
        waits = tip.status == Status.PENDING or (decision and decision.state in _WAITING)
        if waits or tip.status == Status.TERMINATED:
            yield f"{root_id} was cancelled, but its tip is {tip.status}, {tip.retry_state}"


def counters_add_up(records: Records) -> Iterator[str]:
    """Counters sum to `retry_count`, and each attempt paid for one more than the one before: from
    the budget that its decision names."""
    for root_id, chain in records.chains.items():
        for session in chain:
            if sum(session.retry_counters.values()) != session.retry_count:
                yield f"{session.pk} is attempt {session.retry_count}: {session.retry_counters}"
        for before, after in pairwise(chain):
            paid = {
                name: used - before.retry_counters.get(name, 0)
                for name, used in after.retry_counters.items()
                if used != before.retry_counters.get(name, 0)
            }
            if list(paid.values()) != [1]:
                yield f"{root_id} attempt {after.retry_count} paid {paid}"
            decision = records.decisions.get(before.pk)
            if decision is not None and list(paid) != [decision.paid_by]:
                yield f"{before.pk} says that {decision.paid_by} paid, its child that {paid} did"


def resources_are_granted(records: Records) -> Iterator[str]:
    """An attempt shares the specification of the one before, unless its decision grants other
    resources, or a person has changed something else."""
    for root_id, chain in records.chains.items():
        for before, after in pairwise(chain):
            decision = records.decisions.get(before.pk)
            granted = decision.resources if decision else None
            shares = before.spec_id == after.spec_id
            if not shares and after.changes and granted is None:
                granted = records.resources.get(before.spec_id)
            got = None if shares else records.resources.get(after.spec_id)
            if got != granted:
                yield f"{root_id} attempt {after.retry_count} got {got}, granted was {granted}"


def leases_fit(records: Records) -> Iterator[str]:
    """Every live session has its lease; any other lease is an orphan, which counts for nothing."""
    for session in records.sessions.values():
        lease = records.leases.get(session.pk)
        if session.phase == Phase.LIVE:
            yield from _misfits(session, lease)
        elif session.status == Status.PENDING and session.fencing_token is not None:
            yield f"{session.pk} waits with fencing token {session.fencing_token}"


def _misfits(session: Session, lease: Lease | None) -> Iterator[str]:
    if lease is None or lease.fencing_token != session.fencing_token:
        yield f"{session.pk} is {session.status} without its lease"
        return
    if lease.executor.name != session.executor:
        yield f"{session.pk} runs on {session.executor}, leased to {lease.executor.name}"
    accepted = session.accepted_at is not None
    if lease.accepted != accepted or accepted != (session.status != Status.SCHEDULED):
        yield f"{session.pk} is {session.status}, accepted {accepted}, its lease {lease.accepted}"


def leases_follow_each_other(records: Records) -> Iterator[str]:
    """The fencing log: a session is leased again only after its lease went back, each time under
    a greater token that no other lease had, and what is told of a run is told under its token."""
    given: dict[int, UUID] = {}
    for session_id, events in records.events.items():
        token, held = 0, False
        for event in events:
            logged = event.data.get("fencing_token")
            if event.type == "session.scheduled":
                if held or logged <= token or logged in given:
                    yield f"{session_id} was leased under {logged} after {token}, held: {held}"
                token, held = logged, True
                given[logged] = session_id
            elif event.data.get("status") == Status.PENDING:
                held = False
            elif logged is not None and (logged != token or not held):
                yield f"{session_id}: {event.type} under {logged}, its lease was {token}"


def attempts_follow_each_other(records: Records) -> Iterator[str]:
    """An attempt begins after the one before it has ended."""
    for root_id, chain in records.chains.items():
        for before, after in pairwise(chain):
            if before.finished_at is None or after.created_at < before.finished_at:
                yield (
                    f"{root_id}: attempt {after.retry_count} began at {after.created_at}, "
                    f"the one before ended at {before.finished_at}"
                )


def usage_is_counted(records: Records) -> Iterator[str]:
    """The counter of each quota is what the sessions of its project or domain take of it."""
    for counter in ProjectUsage.objects.select_related("project__domain", "domain"):
        if counter.limit is None:
            continue
        taken = Decimal(0)
        for session in records.sessions.values():
            inside = records.domains[session.project_id]
            if counter.project_id == session.project_id or counter.domain_id == inside:
                taken += _taken(records, session, counter.name)
        if taken != counter.used:
            yield f"{counter} stands at {counter.used}, its sessions take {taken}"


def _taken(records: Records, session: Session, name: str) -> Decimal:
    if session.phase in {Phase.BLOCKED, Phase.WAITING}:
        return Decimal(name == PENDING)
    if session.phase == Phase.LIVE:
        live = running(records.resources[session.spec_id], records.pods[session.spec_id])
        return live.get(name, Decimal(0))
    return Decimal(0)


def archived_chains_are_whole(records: Records) -> Iterator[str]:
    """A session is a row, or its log ends with what is needed to make it again; so is its chain."""
    for session_id, events in records.events.items():
        last, is_row = events[-1], session_id in records.sessions
        if is_row == (last.type == ARCHIVED):
            yield f"{session_id} is {'archived and' if is_row else 'neither archived nor'} a row"
        if is_row or last.type != ARCHIVED:
            continue
        chain = [UUID(each) for each in last.data["archive"]["chain"]]
        whole = [each for each in chain if each in records.events]
        if session_id not in chain or chain[0] != last.root_id or whole != chain:
            yield f"{session_id} was archived with the chain {chain}"


def specifications_are_used(records: Records) -> Iterator[str]:
    """Every session has its specification, and every specification has a session."""
    used = {session.spec_id for session in records.sessions.values()}
    for spec_id in used ^ records.resources.keys():
        yield f"specification {spec_id} is {'missing' if spec_id in used else 'of no session'}"


def no_schedule_fires_twice(records: Records) -> Iterator[str]:
    """A time of a schedule has one chain; what was made by hand has an id that says so."""
    chains: dict[tuple[str, datetime], list[UUID]] = defaultdict(list)
    for session in records.sessions.values():
        if session.parent_id is not None or not session.creation_id.startswith(OF_SCHEDULES):
            continue
        _, schedule, time = session.creation_id.split(":", 2)
        with suppress(ValueError):  # of those made by hand
            chains[schedule, datetime.fromisoformat(time)].append(session.pk)
    for (schedule, at), roots in chains.items():
        if len(roots) > 1:
            yield f"schedule {schedule} fired at {at} as {roots}"


def dependants_wait(records: Records) -> Iterator[str]:
    """No dependant runs before its dependencies have ended, and each that waits has an open one.

    Only its first attempt waits: a retry by hand may go ahead.
    """
    chains: dict[UUID, list[Dependency]] = defaultdict(list)
    for each in Dependency.objects.filter(root__in=records.sessions.keys()):
        chains[each.root_id].append(each)
    for session in records.sessions.values():
        waits_for = chains.get(session.root_id, [])
        if session.phase == Phase.BLOCKED and all(each.outcome for each in waits_for):
            yield f"{session.pk} is blocked, and waits for nothing"
        if session.retry_count:
            continue
        leased = [e.time for e in records.events[session.pk] if e.type == "session.scheduled"]
        for each in waits_for if leased else []:
            tip = records.sessions.get(each.tip_id) if each.tip_id else None
            if not each.outcome:
                yield f"{session.pk} ran before {each.on_root} had ended"
            elif tip is not None and (tip.finished_at is None or tip.finished_at > leased[0]):
                yield f"{session.pk} ran at {leased[0]}, before {tip.pk} ended: {tip.finished_at}"


def room_is_made_for_somebody(records: Records) -> Iterator[str]:
    """Every session that was stopped to make room has its record, every record its session; and
    the taker has the room reserved at the same moment. Dry runs stop and reserve nothing."""
    made = list(Preemption.objects.filter(dry_run=False).select_related("executor"))
    for each in made:
        victim = records.sessions.get(each.victim_id)
        if victim is not None and victim.gave_way_to != each.taker_id:
            # A lease that nobody had accepted just goes back.
            later = [e.type for e in records.events[victim.pk] if e.time >= each.planned_at]
            if "session.lease_returned" not in later:
                yield f"{victim.pk} made room for {each.taker_id}, but says {victim.gave_way_to}"
        yield from _unreserved(records, each)
    known = {(each.victim_id, each.taker_id) for each in made}
    month = database_now() - REMEMBERED_FOR
    for session in records.sessions.values():
        if session.gave_way_to is None:
            continue
        asked = session.preempt_requested_at
        recent = asked is not None and asked > month
        if asked is None or (recent and (session.pk, session.gave_way_to) not in known):
            yield f"{session.pk} made room for {session.gave_way_to} without a record of it"


def _unreserved(records: Records, made: Preemption) -> Iterator[str]:
    """Once the executor has called again, its rounds see to the reservation."""
    executor, taker = made.executor, records.sessions.get(made.taker_id)
    if executor is None:
        return
    called = executor.last_seen_at
    if taker is None or taker.phase != Phase.WAITING or made.until <= database_now():
        return
    later = called is not None and called > made.planned_at
    if later and _may_give_up(records, taker, made, executor):
        return
    if not Reservation.objects.filter(executor=made.executor_id, session=taker.pk).exists():
        yield f"{made.victim_id} made room for {taker.pk}, which has none reserved"


def _may_give_up(records: Records, taker: Session, made: Preemption, executor: Executor) -> bool:
    """Return whether rounds of the executor may have had a reason to give up the reservation."""
    leased = [e.time for e in records.events[taker.pk] if e.type == "session.scheduled"]
    troubled = executor.cordoned or executor.trouble or executor.project_troubles
    there = {each["name"] for each in executor.nodes} >= {*made.nodes}
    out = executor.node_rows.exclude(suspected_until=None, quarantined_at=None).exists()
    since = any(time >= made.planned_at for time in leased)
    return bool(since or troubled or taker.queue.cordoned or out or not there)


# As streams read; what this very transaction wrote is told, too.
_EVENTS_AFTER = """
    SELECT e.epoch, e.xid::text, e.id FROM sessions_app_sessionevent e
    WHERE (e.epoch, e.xid, e.id) > (%s, %s::xid8, %s) AND (
        (e.epoch, e.xid) < (reprise_epoch(), pg_snapshot_xmin(pg_current_snapshot()))
        OR e.xid = pg_current_xact_id_if_assigned())
    ORDER BY e.epoch, e.xid, e.id LIMIT 5000
"""


def streams_tell_all(records: Records) -> Iterator[str]:
    """Check that a reader by (epoch, transaction, id), page by page, gets every event once. Not
    always those of one session by `seq`: a transaction that waited for another one's lock writes
    what came later under the smaller id.
    """
    await_all_told()
    counts: Counter[int] = Counter()
    place = (0, "0", 0)
    with connection.cursor() as cursor:
        while True:
            cursor.execute(_EVENTS_AFTER, place)
            rows = cursor.fetchall()
            if not rows:
                break
            counts.update(row[2] for row in rows)
            place = rows[-1]
    for events in records.events.values():
        for event in events:
            if counts[event.pk] != 1:
                yield f"event {event.pk} of {event.session_id} is told {counts[event.pk]} times"


CHECKS: tuple[Callable[[Records], Iterator[str]], ...] = (
    log_folds_to_row,
    priorities_are_told,
    seq_is_gapless,
    steps_are_allowed,
    failures_are_decided,
    decisions_have_their_trace,
    decision_is_shown,
    breakers_know_what_they_hold,
    dispatched_has_one_child,
    chains_are_in_order,
    one_unfinished_a_chain,
    cancelled_chains_end,
    counters_add_up,
    resources_are_granted,
    leases_fit,
    leases_follow_each_other,
    attempts_follow_each_other,
    usage_is_counted,
    archived_chains_are_whole,
    specifications_are_used,
    no_schedule_fires_twice,
    dependants_wait,
    room_is_made_for_somebody,
    streams_tell_all,
)
