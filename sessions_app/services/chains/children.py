"""Children: the next attempts of chains whose last one failed, with their related rows."""

import json
from collections.abc import Callable, Mapping, Sequence
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
from sessions_app.core.columns import NULL, SESSION, SPEC
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase, RetryState, Status
from sessions_app.db.bulk import arrays, from_array, inserted, json_text, unnested
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope
from sessions_app.locks import LockedSession, StoredDecision
from sessions_app.models.audit import DISPATCH
from sessions_app.services.chains.decisions import (
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
    def avoid_executors(self) -> list[str]:
        """Return the executors that the child does not run on."""
        name = self.decision.avoid_executor if self.decision else ""
        return [name] if name else []

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
    _change_parents(pairs, now)
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

_Source = Callable[[Retry, Child], Any]

# Where the values of columns come from; JSON as its text.
_SPEC_GIVEN: dict[str, _Source] = {
    "id": lambda _, child: child.spec_id,
    "parent_id": lambda retry, _: retry.parent.id,
    "resources": lambda retry, _: _dumped(retry.resources),
}
_SPEC_SENT = {"id": "uuid", "parent_id": "uuid", "resources": "jsonb"}
_SPEC_BORN = {name: f"c.{name}" for name in SPEC}
_SPEC_BORN |= {name: from_array(name, SPEC[name]) for name in ("id", "resources")}
_INSERT_SPECS = f"""
    {inserted("sessions_app_sessionspec", _SPEC_BORN)}
    FROM {unnested(_SPEC_SENT)}
    JOIN sessions_app_session p ON p.id = v.parent_id
    JOIN sessions_app_sessionspec c ON c.id = p.spec_id
"""


def _insert_specs(pairs: _Pairs) -> None:
    """Insert specifications for children with other resources; their own children share them."""
    changed = [pair for pair in pairs if pair[1].spec_id is not None]
    if changed:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT_SPECS, arrays(_SPEC_GIVEN, *zip(*changed, strict=True)))


_GIVEN: dict[str, _Source] = {
    "id": lambda _, child: child.id,
    "spec_id": lambda _, child: child.spec_id,
    "parent_id": lambda retry, _: retry.parent.id,
    "retry_counters": lambda _, child: json_text(child.counters),
    "avoid_node": lambda retry, _: retry.decision.avoid_node if retry.decision else "",
    "avoid_executors": lambda retry, _: json_text(retry.avoid_executors),
}
_SENT = {name: SESSION[name].type for name in _GIVEN}
_BORN = {name: each.born or f"p.{name}" for name, each in SESSION.items() if each.born != NULL}
_BORN |= {name: from_array(name, kind) for name, kind in _SENT.items()}
_BORN |= {
    "spec_id": "coalesce(v.spec_id, p.spec_id)",
    "creation_id": "r.creation_id || ':retry:' || (p.retry_count + 1)",
    "created_at": "%(now)s",
    "retry_count": "p.retry_count + 1",
    "scheduling_key": scheduling_key_sql(
        resources="c.resources",
        pods="c.cluster_size",
        pod_spec="c.pod_spec",
        retry="true",
        avoid_node="v.avoid_node",
        avoid_node_of="CASE v.avoid_node WHEN '' THEN '' ELSE p.executor END",
        avoid_executors="v.avoid_executors::jsonb",
    ),
}
_INSERT_CHILDREN = f"""
    {inserted("sessions_app_session", _BORN)}
    FROM {unnested(_SENT)}
    JOIN sessions_app_session p ON p.id = v.parent_id
    JOIN sessions_app_session r ON r.id = p.root_id
    JOIN sessions_app_sessionspec c ON c.id = coalesce(v.spec_id, p.spec_id)
"""


def _insert_children(pairs: _Pairs, now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_CHILDREN, {"now": now, **arrays(_GIVEN, *zip(*pairs, strict=True))})


def _change_parents(pairs: _Pairs, now: datetime) -> None:
    """Mark the parents as retried. Write their events and the first ones of the children."""
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
    facts: dict[str, object] = {"next_session_id": str(child.id), "paid_by": retry.paid_by}
    if retry.resources is not None:
        facts["resources"] = retry.resources
    if retry.decision is not None:
        facts["decision"] = {
            "state": "dispatched",
            "next_session_id": str(child.id),
            "dispatched_by": retry.by,
            **retry.payment,
        }
    return facts


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
