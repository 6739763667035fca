"""Decisions about ended sessions: reads the inputs of a batch at once, then decides each."""

import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from retry.breakers import holder
from retry.engine.budgets import marks_after
from retry.engine.decide import Chain, Decision, Rulebook, decide
from retry.evidence.causes import RetryCause
from retry.evidence.ended import Ended
from retry.evidence.termination import Termination
from retry.policies.inline import parse_policy_json
from retry.policies.matching import NamedPolicy
from retry.signatures.signature import Signature
from sessions_app.db.bulk import array
from sessions_app.in_force.named_policies import applied, named_policies
from sessions_app.in_force.retry_scope import (
    SCOPES,
    RetryScope,
    retry_scopes,
    scopes_in,
    versions_of,
)
from sessions_app.in_force.shared_budgets import spent_budgets
from sessions_app.locks import LockedSession
from sessions_app.selectors.fitting import Asked, most_memory
from sessions_app.services.chains.chain_past import NOTHING, PASTS, chain_pasts
from sessions_app.services.chains.decisions import NewDecision

# The lower of the memory quotas of project and domain, divided by the number of pods.
_RESOURCES = """
    SELECT s.id, c.resources, c.termination_grace_period, (
        SELECT min(u."limit") FROM sessions_app_projectusage u
        WHERE u.name = 'resources.memory' AND (u.project_id = p.id OR u.domain_id = p.domain_id)
        ) / c.cluster_size, c.cluster_size, c.pod_spec
    FROM sessions_app_session s JOIN sessions_app_sessionspec c ON c.id = s.spec_id
    JOIN sessions_app_project p ON p.id = s.project_id
    WHERE s.id = ANY(%s::uuid[])
"""


KNOWN = f"json_build_array(({SCOPES}), ({PASTS}))"
"""SQL of one value about the sessions of a table `l`, for `Known.of`."""


class Known(NamedTuple):
    """What the statement that locks sessions reads for decisions about them."""

    scopes: Mapping[int, RetryScope]
    """Those of their projects."""
    pasts: Mapping[str, Sequence[Any]]
    """The value of `PASTS`."""

    @classmethod
    def of(cls, value: Sequence[Any], sessions: Iterable[LockedSession]) -> "Known":
        """Return what the value of `KNOWN` says about the sessions that it is of."""
        scopes, pasts = value
        return cls(scopes_in(scopes, (session.project_id for session in sessions)), pasts or {})


class _Spec(NamedTuple):
    """The session's resources, its grace period in seconds, and what limits its memory in bytes."""

    resources: dict[str, Any]
    grace: float
    memory_ceiling: Decimal | None
    node_memory: Decimal | None = None


_UNREAD = _Spec({}, 0.0, None)


class _Rules(NamedTuple):
    """What says which rules decide about a session; many have it in common."""

    project_id: int
    queue_id: int
    retry_policy: str
    retry_policies: tuple[str, ...]


def _rules_of(session: LockedSession) -> _Rules:
    return _Rules(
        session.project_id, session.queue_id, session.retry_policy, session.retry_policies
    )


class Decider:
    """Decides about locked sessions by the policies, bounds and switches of this moment.

    `unconfirmed` are sessions whose run nobody saw end. Without what is `known` of the sessions, it
    is read.
    """

    def __init__(
        self,
        sessions: Sequence[LockedSession],
        *,
        unconfirmed: Collection[UUID],
        now: datetime,
        known: Known | None = None,
    ):
        self._now = now
        self._unconfirmed = unconfirmed
        if known is None:
            known = Known(retry_scopes({session.project_id for session in sessions}), {})
        self._scopes = known.scopes
        groups: dict[_Rules, list[LockedSession]] = {}
        for session in sessions:
            groups.setdefault(_rules_of(session), []).append(session)
        named = named_policies(
            ((rules.project_id, rules.retry_policies) for rules in groups),
            versions_of(self._scopes),
        )
        self._rulebooks = {
            rules: self._rulebook(rules, named[rules.project_id]) for rules in groups
        }
        growing = [each for each in sessions if self._may_grow(each)]
        self._specs = _specs([s for s in sessions if self._waits_for_end(s)], growing)
        self._pasts = chain_pasts(
            ((members, self._rulebooks[rules]) for rules, members in groups.items()),
            now,
            known.pasts,
        )

    def decide(
        self,
        session: LockedSession,
        ended: Ended,
        failure: Signature | None = None,
        *,
        advanced: bool = False,
    ) -> Decision | None:
        """Return the decision about this end, with this signature of it; None after a success.

        `advanced` says whether the attempt made progress.
        """
        spec, past = self._specs.get(session.id, _UNREAD), self._pasts.get(session.id, NOTHING)
        signature, title = (failure.key, failure.title) if failure else ("", "")
        return decide(
            ended,
            Chain(
                session_id=str(session.id),
                session_type=session.session_type,
                retry_count=session.retry_count,
                root_created_at=session.root_submitted_at,
                counters=session.retry_counters,
                resources=spec.resources,
                memory_ceiling=spec.memory_ceiling,
                node_memory=spec.node_memory,
                # Without a stop, its end is the first observation of the preemption.
                preempted_at=session.terminating_at or self._now,
                confirmed=session.id not in self._unconfirmed,
                grace_period=spec.grace,
                signature=signature,
                failures=past.failures,
                paid=past.paid,
                advanced=advanced,
                marks=marks_after(
                    session.retry_counters, session.retry_marks or {}, advanced=advanced
                ),
                breaker=self._breaker(session, signature),
                gave_way=session.gave_way_to is not None,
                title=title,
            ),
            self._rulebooks[_rules_of(session)],
            self._now,
            random.random(),  # noqa: S311  # spreads load, guards nothing
        )

    def _breaker(self, session: LockedSession, signature: str) -> str:
        """Return the key of the open breaker that holds a retry after this failure, or ""."""
        breakers = self._scopes[session.project_id].breakers
        found = holder(breakers, session.queue_id, signature)
        return found.key if found else ""

    def record(
        self,
        session: LockedSession,
        decision: Decision,
        termination: Termination,
        avoid_executor: str,
    ) -> NewDecision:
        """Return the decision as it is stored, with the facts it is based on."""
        spec = self._specs.get(session.id, _UNREAD)
        changed = decision.resources is not None and decision.resources != spec.resources
        preempted = decision.cause is RetryCause.PREEMPTED
        return NewDecision(
            session.id,
            session.project_id,
            decision,
            termination.to_json(),
            avoid_executor,
            dict(decision.resources or {}) if changed else None,
            (session.terminating_at or self._now) if preempted else None,
        )

    def _rulebook(self, rules: _Rules, named: Mapping[str, NamedPolicy]) -> Rulebook:
        scope = self._scopes[rules.project_id]
        spent = spent_budgets(scope.budgets, rules.queue_id)
        return Rulebook(
            parse_policy_json(rules.retry_policy),
            applied(named, rules.retry_policies),
            scope.categories,
            scope.bounds,
            replace(scope.settings, spent=spent) if spent else scope.settings,
        )

    def _waits_for_end(self, session: LockedSession) -> bool:
        return session.terminating_at is not None or session.id in self._unconfirmed

    def _may_grow(self, session: LockedSession) -> bool:
        return any(each.grows_memory for each in self._rulebooks[_rules_of(session)].named)


def _specs(
    sessions: Sequence[LockedSession], growing: Sequence[LockedSession]
) -> dict[UUID, _Spec]:
    """Read the specifications that decisions need, in one query.

    One more tells what nodes could give to those that are `growing`.
    """
    wanted = {each.id: each for each in [*sessions, *growing]}
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_RESOURCES, [array(wanted)])
        rows = cursor.fetchall()
    found = {key: _Spec(json.loads(text), *limits) for key, text, *limits, _, _ in rows}
    ids = {each.id for each in growing}
    asked = {
        key: Asked(
            wanted[key].project_id, found[key].resources, pods, pod_spec and json.loads(pod_spec)
        )
        for key, *_, pods, pod_spec in rows
        if key in ids
    }
    for key, most in zip(asked, most_memory([*asked.values()]), strict=True):
        found[key] = found[key]._replace(node_memory=most)
    return found
