"""Children: the next attempts of chains whose last one failed, with their related rows."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from uuid_utils.compat import uuid7

from retry.engine.budgets import MANUAL_BUDGET, marks_after
from retry.engine.decide import counters_after, max_attempts, open_budgets
from retry.policies.inline import parse_policy_json, whole
from retry.policies.limits import stored_number
from retry.policies.matching import NamedPolicy
from retry.policies.merge import bounded
from sessions_app import wakeups
from sessions_app.audit.context import ENGINE
from sessions_app.core.columns import NULL, SESSION, SPEC
from sessions_app.core.priorities import refolded_sql
from sessions_app.core.progress import CHAIN_PROGRESS
from sessions_app.core.retry_changes import SPEC_FIELDS, Changes, changes_shown
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase, RetryState, Status
from sessions_app.db.bulk import SentRows, inserted, json_text
from sessions_app.db.writes import Writes
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import RetryScope, versions_of
from sessions_app.locks import LockedSession, StoredDecision
from sessions_app.models.audit import DISPATCH
from sessions_app.services.chains.decisions import decisions_dispatched, decisions_paid_by_hand
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
    changes: Changes | None = None
    """What a person or a rule changes for the child and the attempts after it."""
    blocked: bool = False
    """Whether the child waits for the dependencies of its chain again."""

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
    def takes_new_spec(self) -> bool:
        return self.resources is not None or not SPEC_FIELDS.isdisjoint(self.changes or ())

    @property
    def avoid_executors(self) -> list[str]:
        """Return the executors that the child does not run on."""
        name = self.decision.avoid_executor if self.decision else ""
        return [name] if name else []

    @property
    def used_by_hand(self) -> int:
        """Return the number of manual retries before this one."""
        return self.parent.retry_counters.get(MANUAL, 0)


class Child(NamedTuple):
    """A session about to be inserted; `spec_id` None: it shares its parent's."""

    id: UUID
    root_id: UUID
    project_id: int
    job_set: str
    retry_count: int
    counters: dict[str, int]
    marks: dict[str, int]
    spec_id: UUID | None
    status: Status = Status.PENDING
    event_seq: int = 0


def children_create(
    writes: Writes, retries: Sequence[Retry], scopes: Mapping[int, RetryScope], *, now: datetime
) -> list[Child]:
    """Insert the children of locked, ended sessions with their related rows.

    `scopes` are those of the sessions' projects, by id. Return one child for each retry, in order.
    """
    if not retries:
        return []
    children = [_child(retry) for retry in retries]
    pairs = list(zip(retries, children, strict=True))
    _insert_specs(pairs)
    decisions_paid_by_hand(
        [
            (retry.parent.id, retry.used_by_hand)
            for retry in retries
            if retry.paid_by == MANUAL and retry.decision and retry.decision.paid_by != MANUAL
        ]
    )
    with writes.together():
        _insert_children(writes, pairs, now)
        decisions_dispatched(
            writes,
            [
                (retry.parent.id, child.id, retry.by, _dumped(retry.resources))
                for retry, child in pairs
                if retry.decision is not None
            ],
            now=now,
        )
        _change_parents(writes, pairs, now)
        audit_append(writes, _audits(pairs, scopes), now=now)
    # Counted but never refused: the chain was admitted once.
    limited = [child for retry, child in pairs if retry.parent.limited]
    usage_note(writes, [Move(each.id, each.project_id, None, Phase.WAITING) for each in limited])
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
        marks=marks_after(
            parent.retry_counters, parent.retry_marks or {}, advanced=bool(parent.advanced)
        ),
        spec_id=uuid7() if retry.takes_new_spec else None,
    )


def _dumped(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json_text(value)


_Pairs = Sequence[tuple[Retry, Child]]

_SPECS = SentRows[[Retry, Child]](
    ("id", "uuid", lambda _, child: child.spec_id),
    ("parent_id", "uuid", lambda retry, _: retry.parent.id),
    ("resources", "jsonb", lambda retry, _: retry.resources),
    ("changes", "jsonb", lambda retry, _: retry.changes or {}),
)
_CHANGED = "v.changes::jsonb"
_SECRETS = f"({_CHANGED} -> 'secrets')"
_POD_SPEC = f"coalesce({_CHANGED} -> 'pod_spec', c.pod_spec, '{{}}')"
_SELECTOR = f"({_CHANGED} #> '{{placement,nodeSelector}}')"
_LABELS = f"({_CHANGED} #> '{{placement,executors,labels}}')"


def _selecting(path: str) -> str:
    """Return the pod specification with the labels of a rule over those at a path."""
    had = f"{_POD_SPEC} #> '{{{path}}}'"
    own = f"CASE jsonb_typeof({had}) WHEN 'object' THEN {had} ELSE '{{}}' END"
    return f"jsonb_set({_POD_SPEC}, '{{{path}}}', {own} || {_SELECTOR})"


def _secret(had: str, changed: str) -> str:
    """Return what changes make of a column of secrets; `{}` in `changed` are theirs."""
    return f"CASE WHEN {_SECRETS} IS NULL THEN {had} ELSE {changed.format(_SECRETS)} END"


_SPEC_BORN = {name: f"c.{name}" for name in SPEC}
_SPEC_BORN |= {
    "id": "v.id",
    "resources": "coalesce(v.resources::jsonb, c.resources)",
    "image": f"coalesce({_CHANGED} ->> 'image', c.image)",
    "command": f"coalesce({_CHANGED} -> 'command', c.command)",
    # A null removes a variable; no variable is null. Of two with one name the secret stays.
    "environ": f"""jsonb_strip_nulls(c.environ || coalesce({_CHANGED} -> 'environ', '{{}}'))
        - ARRAY(SELECT jsonb_array_elements_text({_SECRETS} -> 'names'))""",
    "secret_names": _secret("c.secret_names", "nullif({} -> 'names', '[]')"),
    "secret_environ": _secret("c.secret_environ", "{} ->> 'stored'"),
    "secrets_by": _secret("c.secrets_by", "({} ->> 'by')::int"),
    "batch_timeout": f"""CASE WHEN {_CHANGED} ? 'batch_timeout'
        THEN ({_CHANGED} ->> 'batch_timeout')::float8 ELSE c.batch_timeout END""",
    "pod_spec": f"""CASE WHEN {_SELECTOR} IS NULL
            THEN coalesce({_CHANGED} -> 'pod_spec', c.pod_spec)
        WHEN jsonb_typeof({_POD_SPEC} -> 'spec') = 'object' THEN {_selecting("spec,nodeSelector")}
        ELSE {_selecting("nodeSelector")} END""",
    "executor_labels": f"""CASE WHEN {_LABELS} IS NULL THEN c.executor_labels
        ELSE coalesce(c.executor_labels, '{{}}') || {_LABELS} END""",
}
_INSERT_SPECS = f"""
    {inserted("sessions_app_sessionspec", _SPEC_BORN)}
    FROM {_SPECS}
    JOIN sessions_app_session p ON p.id = v.parent_id
    JOIN sessions_app_sessionspec c ON c.id = p.spec_id
"""


def _insert_specs(pairs: _Pairs) -> None:
    """Insert specifications for children with other resources; their own children share them."""
    changed = [pair for pair in pairs if pair[1].spec_id is not None]
    if changed:
        with connection.cursor() as cursor:
            cursor.execute(_INSERT_SPECS, _SPECS.arrays(*zip(*changed, strict=True)))


_Source = Callable[[Retry, Child], Any]

# Where the values of columns come from.
_GIVEN: dict[str, _Source] = {
    "id": lambda _, child: child.id,
    "spec_id": lambda _, child: child.spec_id,
    "parent_id": lambda retry, _: retry.parent.id,
    "phase": lambda retry, _: Phase.BLOCKED if retry.blocked else Phase.WAITING,
    "retry_counters": lambda _, child: child.counters,
    "avoid_node": lambda retry, _: retry.decision.avoid_node if retry.decision else "",
    "avoid_executors": lambda retry, _: retry.avoid_executors,
    "changes": lambda retry, _: changes_shown(retry.changes),
    "retry_marks": lambda _, child: child.marks or None,
}


def _max_retries(retry: Retry) -> int | None:
    frozen = (retry.changes or {}).get("frozen")
    return None if frozen is None else stored_number(whole(frozen)["max_retries"])


# Of the person who asks; parts of `changes` with columns of their own.
_ASKED: dict[str, _Source] = {
    "priority": lambda retry, _: (retry.changes or {}).get("priority"),
    "retry_policy": lambda retry, _: (retry.changes or {}).get("frozen"),
    "max_retries": lambda retry, _: _max_retries(retry),
}
_CHILDREN = SentRows[[Retry, Child]](
    *((name, SESSION[name].type, source) for name, source in {**_GIVEN, **_ASKED}.items())
)
_BORN = {name: each.born or f"p.{name}" for name, each in SESSION.items() if each.born != NULL}
_BORN |= _CHILDREN.values
_BORN |= {name: f"coalesce({_CHILDREN.values[name]}, p.{name})" for name in _ASKED}
_BORN |= {
    # The class of a chain stays.
    "priority": f"coalesce({refolded_sql('p.priority', 'v.priority')}, p.priority)",
    "spec_id": "coalesce(v.spec_id, p.spec_id)",
    "creation_id": "r.creation_id || ':retry:' || (p.retry_count + 1)",
    "created_at": "%s",
    "retry_count": "p.retry_count + 1",
    "chain_progress": CHAIN_PROGRESS,
    "wait_deadline": f"""CASE v.phase WHEN '{Phase.WAITING}'
        THEN %s::timestamptz + make_interval(secs => c.queue_timeout) END""",
    "scheduling_key": scheduling_key_sql(
        resources="c.resources",
        pods="c.cluster_size",
        pod_spec="c.pod_spec",
        retry="true",
        avoid_node="v.avoid_node",
        avoid_node_of="CASE v.avoid_node WHEN '' THEN '' ELSE p.executor END",
        avoid_executors="v.avoid_executors::jsonb",
        executor_labels="c.executor_labels",
    ),
}
_INSERT_CHILDREN = f"""
    {inserted("sessions_app_session", _BORN)}
    FROM {_CHILDREN}
    JOIN sessions_app_session p ON p.id = v.parent_id
    JOIN sessions_app_session r ON r.id = p.root_id
    JOIN sessions_app_sessionspec c ON c.id = coalesce(v.spec_id, p.spec_id)
"""


def _insert_children(writes: Writes, pairs: _Pairs, now: datetime) -> None:
    children = _CHILDREN.arrays(*zip(*pairs, strict=True))
    writes.add(_INSERT_CHILDREN, [now, now, *children])


def _change_parents(writes: Writes, pairs: _Pairs, now: datetime) -> None:
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
    sessions_change(writes, changes, now=now, beside=submitted)


def _dispatched_facts(retry: Retry, child: Child) -> dict[str, object]:
    facts: dict[str, object] = {"next_session_id": str(child.id), "paid_by": retry.paid_by}
    if retry.resources is not None:
        facts["resources"] = retry.resources
    if changes := changes_shown(retry.changes):
        facts["changes"] = changes
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
        ((retry.parent.project_id, retry.parent.retry_policies) for retry, _ in pairs),
        versions_of(scopes),
    )
    known: dict[tuple[Hashable, ...], int | None] = {}
    rows = []
    for retry, child in pairs:
        parent = retry.parent
        # Most of a batch have all of this in common.
        key = (
            *(parent.project_id, parent.session_type, _inline(retry), parent.retry_policies),
            *(child.retry_count, tuple(child.counters.items()), tuple(child.marks.items())),
        )
        if key not in known:
            policies = applied(named[parent.project_id], parent.retry_policies)
            known[key] = _max_attempts(retry, child, policies, scopes[parent.project_id])
        rows.append(_audit(retry, child, known[key]))
    return rows


def _max_attempts(
    retry: Retry, child: Child, named: Sequence[NamedPolicy], scope: RetryScope
) -> int | None:
    policy, _ = bounded(parse_policy_json(_inline(retry)), scope.bounds)
    unspent = open_budgets(retry.parent.session_type, child.counters, policy, named, child.marks)
    return max_attempts(child.retry_count, unspent, scope.settings)


def _inline(retry: Retry) -> str:
    """Return the inline policy of the child, as it is stored."""
    return _dumped((retry.changes or {}).get("frozen")) or retry.parent.retry_policy


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
    if changes := changes_shown(retry.changes):
        data["changes"] = changes
    about = str(retry.parent.id)
    return AuditRow(
        retry.by or ENGINE, DISPATCH, "session", about, data, child.project_id, child.root_id
    )
