"""Children: the next attempts of chains whose last one failed, with their related rows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from uuid_utils.compat import uuid7

from retry.engine.budgets import MANUAL_BUDGET
from retry.engine.decide import counters_after, max_attempts, open_budgets
from retry.policies.inline import parse_policy_json
from retry.policies.merge import bounded
from sessions_app import wakeups
from sessions_app.audit.context import ENGINE
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase, RetryState, Status
from sessions_app.db.bulk import array, columns, json_array
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.locks import LockedSession
from sessions_app.models.audit import DISPATCH
from sessions_app.services.chains.decisions import (
    StoredDecision,
    decisions_dispatched,
    decisions_paid_by_hand,
)
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.services.write.transitions import Change, Event, EventRow, fact, sessions_change
from sessions_app.services.write.usage import Move, usage_note

MANUAL = MANUAL_BUDGET
"""The counter of manual retries; it has no limit."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed session that gets a child now, the budget that pays, and who asked.

    `resources` are all resources of the child; None: those of its parent. `by` is "" for the
    engine.
    """

    parent: LockedSession
    paid_by: str
    decision: StoredDecision | None
    by: str = ""
    resources: Mapping[str, Any] | None = None
    resources_before: Mapping[str, Any] | None = None
    """The resources without the change by a person, if there was one."""

    @property
    def limit(self) -> int | None:
        """Return the limit of the budget that pays; None if it has none."""
        return self.decision.limit if self.decision and self.paid_by != MANUAL else None

    @property
    def payment(self) -> dict[str, object]:
        """Return the new payer of the decision; empty if it does not change."""
        if self.paid_by != MANUAL:
            return {}
        return {"paid_by": MANUAL, "used": self.used_by_hand, "limit": None}

    @property
    def used_by_hand(self) -> int:
        """Return the number of manual retries before this one."""
        return self.parent.retry_counters.get(MANUAL, 0)


@dataclass(frozen=True, slots=True)
class Child:
    """A session about to be inserted; `spec_id` None: it shares its parent's."""

    id: UUID
    root_id: UUID
    project_id: int
    job_set: str
    retry_count: int
    counters: dict[str, int]
    spec_id: UUID | None
    status: Status = Status.PENDING
    event_seq: int = 0


def children_create(
    retries: Sequence[Retry], scopes: Mapping[int, RetryScope], *, now: datetime
) -> list[Child]:
    """Insert the children of locked, ended sessions with their related rows.

    `scopes` are those of the sessions' projects, by id. Return one child for each retry, in order.
    """
    if not retries:
        return []
    children = [_child(retry) for retry in retries]
    pairs = list(zip(retries, children, strict=True))
    _insert_specs(pairs)
    _insert_children(pairs, now)
    # Counted but never refused: the chain was admitted once.
    usage_note(
        Move(child.id, child.project_id, None, Phase.WAITING)
        for retry, child in pairs
        if retry.parent.limited
    )
    decisions_paid_by_hand(
        [
            (retry.parent.id, retry.used_by_hand)
            for retry in retries
            if retry.paid_by == MANUAL and retry.decision and retry.decision.paid_by != MANUAL
        ]
    )
    decisions_dispatched(
        [
            (retry.parent.id, child.id, retry.by, _dumped(retry.resources))
            for retry, child in pairs
            if retry.decision is not None
        ],
        now=now,
    )
    _tell(pairs, now)
    audit_append(_audits(pairs, scopes), now=now)
    wakeups.work_after_commit()
    return children


def _child(retry: Retry) -> Child:
    parent = retry.parent
    return Child(
        id=uuid7(),
        root_id=parent.root_id,
        project_id=parent.project_id,
        job_set=parent.job_set,
        retry_count=parent.retry_count + 1,
        counters=counters_after(parent.retry_counters, retry.paid_by),
        spec_id=None if retry.resources is None else uuid7(),
    )


def _dumped(resources: Mapping[str, Any] | None) -> str | None:
    return None if resources is None else json.dumps(resources)


_Pairs = Sequence[tuple[Retry, Child]]

_INSERT_SPECS = """
    INSERT INTO sessions_app_sessionspec
        (id, request_digest, image, command, environ, resources, mounts, ports, labels, pod_spec,
         cluster_size, batch_timeout, scheduling_timeout, termination_grace_period, secret_names,
         secret_environ)
    SELECT v.id, c.request_digest, c.image, c.command, c.environ, v.resources::jsonb, c.mounts,
        c.ports, c.labels, c.pod_spec, c.cluster_size, c.batch_timeout, c.scheduling_timeout,
        c.termination_grace_period, c.secret_names, c.secret_environ
    FROM unnest(%s::uuid[], %s::uuid[], %s::text[]) AS v(id, parent_id, resources)
    JOIN sessions_app_session p ON p.id = v.parent_id
    JOIN sessions_app_sessionspec c ON c.id = p.spec_id
"""


def _insert_specs(pairs: _Pairs) -> None:
    """Insert specifications for children with other resources; their own children share them."""
    rows = [
        (child.spec_id, retry.parent.id, _dumped(retry.resources))
        for retry, child in pairs
        if child.spec_id is not None
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT_SPECS, columns(rows))


_KEY = scheduling_key_sql(
    resources="c.resources",
    pods="c.cluster_size",
    pod_spec="c.pod_spec",
    retry="true",
    avoid_node="v.avoid_node",
    avoid_node_of="CASE v.avoid_node WHEN '' THEN '' ELSE p.executor END",
    avoid_executors="v.avoid_executors::jsonb",
)
_INSERT_CHILDREN = f"""
    INSERT INTO sessions_app_session
        (id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type,
         priority, status, phase, status_message, created_at, node, executor, parent_id, root_id,
         root_submitted_at, tip, retry_count, max_retries, retry_policy, retry_policies,
         retry_counters, retry_cause, failure_category, retry_state, avoid_node, avoid_executors,
         lease_returns, report_seq, event_seq, scheduling_key)
    SELECT v.id, coalesce(v.spec_id, p.spec_id), p.project_id, p.queue_id, p.owner_id, p.name,
        p.job_set, r.creation_id || ':retry:' || (p.retry_count + 1), p.session_type,
        p.priority, 'PENDING', 'waiting', '', %s, '', '', p.id, p.root_id,
        p.root_submitted_at, true, p.retry_count + 1, p.max_retries, p.retry_policy,
        p.retry_policies, v.counters::jsonb, '', '', 'none', v.avoid_node, v.avoid_executors::jsonb,
        0, 0, 1, {_KEY}
    FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::text[])
        AS v(id, spec_id, parent_id, counters, avoid_node, avoid_executors)
    JOIN sessions_app_session p ON p.id = v.parent_id
    JOIN sessions_app_session r ON r.id = p.root_id
    JOIN sessions_app_sessionspec c ON c.id = coalesce(v.spec_id, p.spec_id)
"""  # noqa: S608  # the key is made of constants


def _insert_children(pairs: _Pairs, now: datetime) -> None:
    decisions = [retry.decision for retry, _ in pairs]
    avoided = [decision.avoid_executor if decision else "" for decision in decisions]
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT_CHILDREN,
            [
                now,
                array(child.id for _, child in pairs),
                array(child.spec_id for _, child in pairs),
                array(retry.parent.id for retry, _ in pairs),
                json_array(child.counters for _, child in pairs),
                array(decision.avoid_node if decision else "" for decision in decisions),
                json_array([name] if name else [] for name in avoided),
            ],
        )


def _tell(pairs: _Pairs, now: datetime) -> None:
    changes = [
        Change(
            retry.parent,
            {"tip": False, "retry_state": RetryState.RETRIED.value},
            [Event("session.retry_dispatched", _dispatched_facts(retry, child))],
        )
        for retry, child in pairs
    ]
    submitted = [
        EventRow(child, 1, "session.submitted", submitted_facts(child.counters, retry))
        for retry, child in pairs
    ]
    sessions_change(changes, now=now, beside=submitted)


def _dispatched_facts(retry: Retry, child: Child) -> dict[str, object]:
    told: dict[str, object] = {"next_session_id": str(child.id), "paid_by": retry.paid_by}
    if retry.resources is not None:
        told["resources"] = retry.resources
    if retry.decision is not None:
        told["decision"] = {
            "state": "dispatched",
            "next_session_id": str(child.id),
            "dispatched_by": retry.by,
            **retry.payment,
        }
    return told


def submitted_facts(counters: dict[str, int], retry: Retry | None = None) -> dict[str, object]:
    """Return the facts of a session's first event; for a retry also its parent."""
    facts: dict[str, object] = {
        "status": Status.PENDING.value,
        "retry_state": RetryState.NONE.value,
        "retry_counters": counters,
    }
    if retry is not None:
        facts["parent_session_id"] = fact(retry.parent.id)
        facts["paid_by"] = retry.paid_by
    return facts


def _audits(pairs: _Pairs, scopes: Mapping[int, RetryScope]) -> list[AuditRow]:
    named = named_policies(
        (retry.parent.project_id, retry.parent.retry_policies) for retry, _ in pairs
    )
    rows = []
    for retry, child in pairs:
        parent = retry.parent
        scope = scopes[parent.project_id]
        policy, _ = bounded(parse_policy_json(parent.retry_policy), scope.bounds)
        applying = applied(named[parent.project_id], parent.retry_policies)
        unspent = open_budgets(parent.session_type, child.counters, policy, applying)
        attempts = max_attempts(child.retry_count, unspent, scope.settings)
        rows.append(_audit(retry, child, attempts))
    return rows


def _audit(retry: Retry, child: Child, attempts: int | None) -> AuditRow:
    data: dict[str, Any] = {
        "child": str(child.id),
        "cause": retry.decision.cause if retry.decision else "",
        "paid_by": retry.paid_by,
        "attempt": child.retry_count + 1,
        "max_attempts": attempts,
        "limit": retry.limit,
    }
    if retry.resources is not None:
        data["resources"] = retry.resources
    if retry.resources_before is not None:
        data["resources_before"] = retry.resources_before
    about = str(retry.parent.id)
    return AuditRow(
        retry.by or ENGINE, DISPATCH, "session", about, data, child.project_id, child.root_id
    )
