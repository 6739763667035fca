"""Renders sessions, attempts, decisions and job sets."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from base.podspec.specification import without_values
from interfaces.render.by_shape import rendered
from interfaces.shapes import session_shapes as shapes
from retry.engine.budgets import MANUAL_BUDGET, marks_after
from retry.engine.decide import budgets, max_attempts, open_budgets
from retry.engine.decision import PARKED
from retry.explain.attempts import attempt_words
from retry.explain.sentences import explain
from retry.policies.inline import InlinePolicy
from retry.policies.matching import NamedPolicy
from retry.policies.merge import bounded
from retry.units.durations import in_words
from sessions_app.authorization import Action, Actor, permitted
from sessions_app.core.states import GRANTED_RETRY, WAITING_RETRY, RetryState
from sessions_app.core.stored_numbers import in_short
from sessions_app.eventlog.reading import JobSet
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope, scopes_of
from sessions_app.models import RetryDecision, Session
from sessions_app.selectors.dependencies import dependency_graph
from sessions_app.selectors.priority_classes import class_names
from sessions_app.selectors.sessions import chain_counts, chains_of, made_room_for
from sessions_app.selectors.suspects_met import suspects_met
from sessions_app.selectors.why_pending import why_pending

_FOLLOWED = GRANTED_RETRY | {RetryState.RETRIED}


def sessions_json(sessions: Sequence[Session]) -> list[dict[str, Any]]:
    """Return sessions without their specification, for lists, in a fixed number of queries."""
    counts = chain_counts(sessions)
    scopes = scopes_of(sessions)
    named = named_policies((each.project_id, each.retry_policies) for each in sessions)
    classes = class_names(each.rank for each in sessions)
    return [
        _session(
            session,
            counts[session.root_id],
            scopes[session.project_id],
            applied(named[session.project_id], session.retry_policies),
        )
        | {"priority_class": classes.get(session.rank)}
        for session in sessions
    ]


def session_json(session: Session, actor: Actor) -> dict[str, Any]:
    """Return one session with everything that the caller may see."""
    (body,) = with_chains([session], sessions_json([session]))
    (taker,) = made_room_for(actor, [session])
    more = {**spec_json(session, actor), "made_room_for": taker, **pending_json(session)}
    return {**body, **more}


def with_chains(
    sessions: Sequence[Session], rendered_sessions: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the output of `sessions_json` with the ids of each chain, oldest first."""
    chains = chains_of(sessions)
    return [
        {**body, "retry_chain": chains[session.root_id]}
        for session, body in zip(sessions, rendered_sessions, strict=True)
    ]


def spec_json(session: Session, actor: Actor) -> dict[str, Any]:
    """Return the specification of a session and the requests on it.

    The session was read with its spec and root. A caller who may not see the values of its
    variables gets nulls.
    """
    spec = session.spec
    shown = permitted(actor, Action.SESSION_VALUES, project=session.project)
    return {
        "image": spec.image,
        "command": spec.command,
        "environ": spec.environ if shown else dict.fromkeys(spec.environ),
        "secret_environ": spec.secret_names or [],
        "resources": spec.resources,
        "mounts": spec.mounts,
        "ports": spec.ports,
        "pod_spec": spec.pod_spec if shown else without_values(spec.pod_spec or {}) or None,
        "labels": spec.labels,
        "cluster_size": spec.cluster_size,
        "batch_timeout": spec.batch_timeout,
        "scheduling_timeout": spec.scheduling_timeout,
        "queue_timeout": spec.queue_timeout,
        "termination_grace_period": spec.termination_grace_period,
        "depends_on": _depends_on(session),
        "on_dependency_failure": spec.on_dependency_failure,
        "cancel_requested_at": session.root.cancel_requested_at,
        "preempt_requested_at": session.preempt_requested_at,
    }


def _depends_on(session: Session) -> list[dict[str, Any]]:
    """Return what its chain waits for: one statement, unless it was read, and none without any."""
    if not session.spec.on_dependency_failure:
        return []
    found = sorted(session.root.dependencies.all(), key=lambda each: each.place)
    return [
        {
            "session_id": each.on_root,
            "creation_id": each.creation_id,
            "when": each.wanted,
            "outcome": each.outcome or None,
            "met": each.met,
        }
        for each in found
    ]


def pending_json(session: Session) -> dict[str, Any]:
    """Return why a session waits; nulls if it does not."""
    why = why_pending(session)
    return {
        "pending_reason": None if why is None else why.message,
        "why_pending": None if why is None else {"reason": why.reason, "ahead": why.ahead},
    }


def _session(
    session: Session, chain_count: int, scope: RetryScope, named: Sequence[NamedPolicy]
) -> dict[str, Any]:
    policy = session.policy
    return {
        "id": session.pk,
        "name": session.name,
        "project": session.project.address,
        "queue": session.queue.name,
        "job_set": session.job_set,
        "creation_id": session.creation_id,
        "session_type": session.session_type,
        "priority": session.priority,
        "owner": session.owner.username if session.owner else None,
        "status": session.status,
        "status_message": session.status_message,
        "created_at": session.created_at,
        "scheduled_at": session.scheduled_at,
        "accepted_at": session.accepted_at,
        "started_at": session.started_at,
        "terminating_at": session.terminating_at,
        "finished_at": session.finished_at,
        "exit_code": session.exit_code,
        "node": session.node or None,
        "executor": session.executor or None,
        "parent_session_id": session.parent_id,
        "root_session_id": session.root_id,
        "retry_count": session.retry_count,
        "max_retries": policy["max_retries"],
        "retry_policy": in_short(policy),
        "retry_policies": session.retry_policies,
        "retry_cause": session.retry_cause or None,
        "failure_category": session.failure_category or None,
        "failure_signature": session.failure_signature or None,
        "retry_counters": session.retry_counters,
        "progress": progress_json(session),
        "chain_count": chain_count,
        "retry_state": retry_state_json(session, scope, named),
    }


def progress_json(session: Session) -> dict[str, Any] | None:
    """Return how far a session is or was; None if it told nothing."""
    told = in_short(session.progress)
    if told is None and session.live_progress is not None:
        told = json.loads(session.live_progress)
    if told is None:
        return None
    return {
        "step": told["step"],
        "of": told["of"],
        "note": told["note"],
        "best_step": told["best"],
        "rate": told["rate"],
        "checkpoint": told.get("checkpoint"),
        "checkpoint_step": told.get("checkpoint_step"),
        "updated_at": datetime.fromisoformat(told["at"]),
        "made_progress": told.get("advanced"),
    }


def decision_of(session: Session) -> RetryDecision | None:
    """Return the decision that was read with a session, or None."""
    return getattr(session, "decision", None)


def retry_state_json(
    session: Session, scope: RetryScope, named: Sequence[NamedPolicy]
) -> dict[str, Any]:
    """Return the retry state of a session; `attempt` counts from 0.

    `named` are the policies that apply to it, in order.
    """
    decision = decision_of(session)
    frozen = InlinePolicy.model_construct(**session.policy)
    policy, _ = bounded(frozen, scope.bounds)
    counters, count = session.retry_counters, session.retry_count
    marks = _marks(session)
    unspent = open_budgets(session.session_type, counters, policy, named, marks)
    followed = session.retry_state in _FOLLOWED
    return {
        "state": session.retry_state,
        "attempt": count,
        "max_attempts": max_attempts(count, unspent, scope.settings, followed=followed),
        "summary": attempt_words(
            count,
            _paid(decision),
            unspent,
            scope.settings,
            ended=session.finished_at is not None,
        ),
        "due_at": decision.due_at if decision and session.retry_state in WAITING_RETRY else None,
        "held_for": _held_for(session, decision),
        "next_session_id": decision.next_session_id if decision else None,
        "reason": decision.reason if decision else None,
        "rule": (decision.rule or None) if decision else None,
        "budgets": budgets(counters, policy, named, scope.settings, marks),
    }


def _held_for(session: Session, decision: RetryDecision | None) -> str | None:
    if decision is None or session.retry_state not in {RetryState.HELD, RetryState.PARKED}:
        return None
    return decision.held_for


def _marks(session: Session) -> dict[str, int]:
    advanced = bool(session.progress and session.progress["advanced"])
    return marks_after(session.retry_counters, session.retry_marks or {}, advanced=advanced)


def _paid(decision: RetryDecision | None) -> dict[str, Any] | None:
    names = ("reason", "rule", "paid_by", "used", "limit")
    return {name: getattr(decision, name) for name in names} if decision else None


def attempt_json(session: Session) -> dict[str, Any]:
    """Return one attempt as a row of its chain; `attempt` counts from 0."""
    decision = decision_of(session)
    return {
        "id": session.pk,
        "attempt": session.retry_count,
        "status": session.status,
        "cause": session.retry_cause or None,
        "failure_category": session.failure_category or None,
        "failure_signature": session.failure_signature or None,
        "exit_code": session.exit_code,
        "node": session.node or None,
        "executor": session.executor or None,
        "created_at": session.created_at,
        "scheduled_at": session.scheduled_at,
        "started_at": session.started_at,
        "finished_at": session.finished_at,
        "retry_state": session.retry_state,
        "decision": decision_line(decision) if decision else None,
        "changes": session.changes,
        "progress": progress_json(session),
    }


def decision_line(decision: RetryDecision) -> str:
    """Return a decision in one line: what, when, why, and which budget pays."""
    retries, by_hand = decision.action == "retry", decision.paid_by == MANUAL_BUDGET
    line = f"no retry: {decision.reason}"
    if retries:
        line = f"retry after {in_words(decision.delay or 0)}: {decision.cause}"
    if retries and not by_hand:
        line += f", pays {decision.paid_by} {(decision.used or 0) + 1}"
        line += "" if decision.limit is None else f" of {decision.limit}"
        done = decision.state in {"scheduled", "dispatched"}
        return line if done else f"{line} ({decision.state})"
    if retries:
        line += " (cancelled)"
    if decision.next_session_id:
        return f"{line}; retried by hand"
    if decision.held_for == PARKED:
        return f"{line}; parked"
    if decision.state in {"scheduled", "held"}:
        return f"{line}; {decision.requested_by} asked for one, which waits"
    return line


def decision_json(session: Session, decision: RetryDecision) -> dict[str, Any]:
    """Return the whole explanation, as data and as sentences."""
    return decisions_json([(session, decision)])[0]


def decisions_json(decided: Sequence[tuple[Session, RetryDecision]]) -> list[dict[str, Any]]:
    """Return the explanations of decisions about sessions, in one statement at most."""
    met = suspects_met([decision for _, decision in decided])
    return [_decision(session, decision, met.get(session.pk)) for session, decision in decided]


def _decision(
    session: Session, decision: RetryDecision, suspects: dict[str, Any] | None
) -> dict[str, Any]:
    fields = rendered(
        shapes.Decision,
        decision,
        leave_out={"explanation"},
        trace=in_short(decision.trace),
        failure_category=session.failure_category or None,
        rule=decision.rule or None,
        paid_by=decision.paid_by or None,
        avoid_node=decision.avoid_node or None,
        avoid_executor=decision.avoid_executor or None,
        dispatched_by=decision.dispatched_by or None,
        requested_by=decision.requested_by or None,
        held_for=decision.held_for or None,
        held_key=decision.held_key or None,
    )
    known = {**fields, "retry_state": session.retry_state, "suspect_nodes": suspects}
    explanation = explain(known, fields["trace"])
    return {**fields, "explanation": explanation}


def graph_json(session: Session) -> dict[str, Any]:
    """Return the dependencies around the chain of a session."""
    graph = dependency_graph(session.root_id)
    return {
        "session_id": graph.session_id,
        "nodes": [node._asdict() for node in graph.nodes],
        "edges": [edge._asdict() for edge in graph.edges],
        "truncated": graph.truncated,
    }


def job_set_json(each: JobSet) -> dict[str, Any]:
    """Return a job set with the times of its first and last event."""
    return rendered(shapes.JobSet, each, project=each.address)
