"""Submit: the first attempts of new chains, one or a thousand in the same few statements."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from uuid_utils.compat import uuid7

from retry.policies.inline import InlinePolicy, dump_set
from retry.policies.merge import Layer, merge, violations
from sessions_app import wakeups
from sessions_app.core.errors import Conflict, DomainError, InvalidInput, SecretUnreadable
from sessions_app.core.quotas import Quotas
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase, Status
from sessions_app.db.bulk import array, json_array
from sessions_app.db.deferred import closing
from sessions_app.db.steps import atomic_step
from sessions_app.in_force.quotas import quotas_read
from sessions_app.in_force.retry_scope import scopes_of
from sessions_app.models import Queue, Session
from sessions_app.services.chains.children import submitted_facts
from sessions_app.services.resources.policy_names import Asked, chains_policies
from sessions_app.services.secrets.stored import environ_read, environ_stored
from sessions_app.services.sessions.admission import Applicant, admission_refusals
from sessions_app.services.write.transitions import EventRow, events_append
from sessions_app.services.write.usage import Move, UsageFull, usage_note


@dataclass(frozen=True, slots=True)
class Submission:
    """A validated creation request: everything but the policy is as it will be stored."""

    name: str
    job_set: str
    creation_id: str | None
    session_type: str
    priority: int
    retry_policy: InlinePolicy
    retry_policies: tuple[str, ...]
    """Named policies, beside those of the queue."""
    spec: dict[str, Any]
    """The fields of `SessionSpec`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that only the run is told."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was asked for and has no effect."""
        asked = self.retry_policy.model_fields_set or self.retry_policies
        if self.session_type == "batch" or not asked:
            return ()
        told = "the retry policy has no effect: only batch sessions are retried"
        return (f"{told}, and this one is {self.session_type}",)

    def digest(self, queue: Queue) -> str:
        """SHA-256 of what was asked for, the `creation_id` and the values of secrets apart.

        Whoever has a hash of a secret can try what it may be.
        """
        asked = {
            "queue": queue.pk,
            "name": self.name,
            "job_set": self.job_set,
            "session_type": self.session_type,
            "priority": self.priority,
            "retry_policy": dump_set(self.retry_policy),
            "spec": self.spec,
        }
        if self.retry_policies:
            # Absent otherwise, as in the digests of before there were any.
            asked["retry_policies"] = self.retry_policies
        if self.secrets:
            asked["secret_environ"] = sorted(self.secrets)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Placed:
    """A submission, where it goes, and the user whose it will be."""

    queue: Queue
    """It may come with its retry scope."""
    owner_id: int
    submission: Submission

    @property
    def project_id(self) -> int:
        return self.queue.project_id

    @property
    def asked(self) -> Asked:
        """What decides about the policies of its chain."""
        return Asked(self.project_id, self.queue.pk, self.submission.retry_policies)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A session, and whether it is new."""

    session_id: UUID
    created: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Root:
    """A session about to be inserted, as the writer of events wants it, and what it is made of."""

    id: UUID
    placed: Placed
    policy: InlinePolicy
    policy_text: str
    policies: list[str]
    digest: str
    spec_id: UUID
    retry_count: int = 0
    status: Status = Status.PENDING
    event_seq: int = 0

    @property
    def root_id(self) -> UUID:
        return self.id

    @property
    def project_id(self) -> int:
        return self.placed.project_id

    @property
    def job_set(self) -> str:
        return self.placed.submission.job_set

    @property
    def creation_id(self) -> str:
        return self.placed.submission.creation_id or str(self.id)

    def refused(self, error: DomainError) -> "_Refused":
        """In its place, unless it is there already."""
        return _Refused(self.placed, error, self.digest)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A submission that cannot be carried out, unless it was before."""

    placed: Placed
    error: DomainError
    digest: str

    @property
    def project_id(self) -> int:
        return self.placed.project_id

    @property
    def creation_id(self) -> str:
        return self.placed.submission.creation_id or ""


def session_submit(placed: Placed) -> Submitted:
    """Create the root of a chain, or find it again.

    The same `creation_id` with the same request finds the first session again. Raises `Conflict`
    if it came with another request, `InvalidInput` if the policy is over a bound or a named one
    does not exist, `QuotaExceeded` if the project or its domain has no room for it.
    """
    (outcome,) = sessions_submit([placed])
    if isinstance(outcome, DomainError):
        raise outcome
    return outcome


def sessions_submit(wanted: Sequence[Placed]) -> list[Submitted | DomainError]:
    """Create many roots as `session_submit` does one; an outcome for each, in their order."""
    with atomic_step("submit"):
        freezer = _Freezer(placed.queue for placed in wanted)
        policies = chains_policies({placed.asked for placed in wanted})
        roots = [_root(placed, freezer, policies[placed.asked]) for placed in wanted]
        roots, created = _insert_within_quotas(roots)
        known = _known([r for r in roots if isinstance(r, _Refused) or r.id not in created])
    return [_outcome(root, created, known) for root in roots]


_Roots = list[_Root | _Refused]
_TRIES = 5


def _insert_within_quotas(roots: _Roots) -> tuple[_Roots, set[UUID]]:
    """Insert the roots that there is room for: all of them, with refusals, and who was inserted.

    The counters are moved last, so that nobody waits for us; whoever took the room in between
    makes us look again.
    """
    limited: set[int] = set()
    for _ in range(_TRIES):
        quotas = quotas_read({each.project_id for each in roots}, waiting=True, live=True)
        limited = quotas.projects
        if not limited:
            return roots, _insert(_accepted(roots), limited)
        let_in = _let_in(roots, quotas)
        try:
            with transaction.atomic(), closing():
                return let_in, _insert(_accepted(let_in), limited)
        except UsageFull:
            continue
    # So busy that the room was never free for as long as an insert takes.
    busy = Conflict("too many are submitted to this project at once; try again")
    rest = [
        root.refused(busy) if isinstance(root, _Root) and root.project_id in limited else root
        for root in roots
    ]
    return rest, _insert(_accepted(rest), set())


def _accepted(roots: _Roots) -> list[_Root]:
    return [root for root in roots if isinstance(root, _Root)]


def _let_in(roots: _Roots, quotas: Quotas) -> _Roots:
    """The same, with a refusal in place of those without room."""
    accepted = _accepted(roots)
    known = _known([root for root in accepted if root.placed.submission.creation_id])
    applicants = [
        Applicant(r.project_id, r.creation_id, r.placed.submission.spec) for r in accepted
    ]
    refusals = iter(admission_refusals(applicants, quotas, known))
    return [_unless(next(refusals), root) if isinstance(root, _Root) else root for root in roots]


def _unless(refusal: DomainError | None, root: _Root) -> _Root | _Refused:
    return root if refusal is None else root.refused(refusal)


class _Freezer:
    """Merges the layers of defaults below each policy, as they are now: a chain keeps the policy
    that it began with. Equal policies of a project are merged once."""

    def __init__(self, queues: Iterable[Queue]):
        self._scopes = scopes_of(queues)
        self._merged: dict[tuple[int, str], tuple[InlinePolicy, str]] = {}

    def freeze(self, project_id: int, asked: InlinePolicy) -> tuple[InlinePolicy, str]:
        """The merged policy and its JSON text; raises `InvalidInput` if it is over a bound."""
        key = (project_id, json.dumps(dump_set(asked), sort_keys=True))
        if key not in self._merged:
            scope = self._scopes.get(project_id)
            if scope is None:
                raise InvalidInput({"project": ["was deleted"]})
            over = violations(asked, scope.bounds)
            if over:
                raise InvalidInput({f"retry_policy.{name}": texts for name, texts in over.items()})
            policy = merge([*scope.defaults, (Layer.SESSION, asked)]).policy
            self._merged[key] = (policy, policy.model_dump_json())
        return self._merged[key]


def _root(
    placed: Placed, freezer: _Freezer, policies: list[str] | InvalidInput
) -> _Root | _Refused:
    digest = placed.submission.digest(placed.queue)
    try:
        policy, text = freezer.freeze(placed.project_id, placed.submission.retry_policy)
        if isinstance(policies, InvalidInput):
            raise policies
    except InvalidInput as error:
        return _Refused(placed, error, digest)
    return _Root(uuid7(), placed, policy, text, policies, digest, uuid7())


_KEY = scheduling_key_sql(
    resources="v.resources::jsonb", pods="v.pods", pod_spec="v.pod_spec::jsonb", retry="false"
)
_INSERT = f"""
    INSERT INTO sessions_app_session
        (id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type,
         priority, status, phase, status_message, created_at, node, executor, root_id,
         root_submitted_at, tip, retry_count, max_retries, retry_policy, retry_policies,
         retry_counters, retry_cause, failure_category, retry_state, avoid_node, avoid_executors,
         lease_returns, report_seq, event_seq, scheduling_key)
    SELECT v.id, v.spec_id, v.project_id, v.queue_id, v.owner_id, v.name, v.job_set, v.creation_id,
        v.session_type, v.priority, 'PENDING', 'waiting', '', now.at, '', '', v.id, now.at, true, 0,
        v.max_retries, v.retry_policy::jsonb, v.retry_policies::jsonb, '{{}}', '', '', 'none', '',
        '[]', 0, 0, 1, {_KEY}
    FROM unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], %s::int[], %s::text[],
        %s::text[], %s::text[], %s::text[], %s::int[], %s::int[], %s::text[], %s::text[],
        %s::text[], %s::text[], %s::int[])
        WITH ORDINALITY
        AS v(id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type,
             priority, max_retries, retry_policy, retry_policies, resources, pod_spec, pods,
             position),
        (SELECT statement_timestamp()) AS now(at)
    ORDER BY v.project_id, v.creation_id, v.position
    ON CONFLICT (project_id, creation_id) DO NOTHING
    RETURNING id, created_at
"""  # noqa: S608  # the key is made of constants
"""Ordered, so that two submissions of the same ids wait for each other in the same order."""


def _columns(roots: Sequence[_Root]) -> list[str]:
    """The arrays that `_INSERT` makes rows of."""
    told = [root.placed.submission for root in roots]
    return [
        array(root.id for root in roots),
        array(root.spec_id for root in roots),
        array(root.project_id for root in roots),
        array(root.placed.queue.pk for root in roots),
        array(root.placed.owner_id for root in roots),
        array(submission.name for submission in told),
        array(submission.job_set for submission in told),
        array(root.creation_id for root in roots),
        array(submission.session_type for submission in told),
        array(submission.priority for submission in told),
        array(root.policy.max_retries for root in roots),
        array(root.policy_text for root in roots),
        json_array(root.policies for root in roots),
        json_array(submission.spec["resources"] for submission in told),
        json_array(submission.spec["pod_spec"] for submission in told),
        array(submission.spec["cluster_size"] for submission in told),
    ]


def _insert(roots: Sequence[_Root], limited: set[int]) -> set[UUID]:
    """Insert those whose `creation_id` is new, with their specification and first event.

    Those of projects that are `limited` are counted, no further than the quotas go.
    """
    if not roots:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, _columns(roots))
        created = dict(cursor.fetchall())
    new = [root for root in roots if root.id in created]
    if not new:
        return set()
    now = created[new[0].id]  # one statement made them all
    _insert_specs(new)
    facts = submitted_facts({})
    events_append([EventRow(root, 1, "session.submitted", facts) for root in new], now=now)
    usage_note(
        Move(root.id, root.project_id, None, Phase.WAITING, guarded=True)
        for root in new
        if root.project_id in limited
    )
    wakeups.work_after_commit()
    return set(created)


_INSERT_SPECS = """
    INSERT INTO sessions_app_sessionspec
        (id, request_digest, image, command, environ, resources, mounts, ports, labels, pod_spec,
         cluster_size, batch_timeout, scheduling_timeout, termination_grace_period, secret_names,
         secret_environ)
    SELECT v.id, v.request_digest, v.image, v.command::jsonb, v.environ::jsonb,
        v.resources::jsonb, v.mounts::jsonb, v.ports::jsonb, v.labels::jsonb,
        nullif(v.pod_spec, 'null')::jsonb, v.cluster_size, v.batch_timeout, v.scheduling_timeout,
        v.termination_grace_period, nullif(v.secret_names, '[]')::jsonb, v.secret_environ
    FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::float8[], %s::float8[],
        %s::float8[], %s::text[], %s::text[])
        AS v(id, request_digest, image, command, environ, resources, mounts, ports, labels,
             pod_spec, cluster_size, batch_timeout, scheduling_timeout, termination_grace_period,
             secret_names, secret_environ)
"""
_SPEC_JSON = ("command", "environ", "resources", "mounts", "ports", "labels", "pod_spec")
_SPEC_NUMBERS = (
    "cluster_size",
    "batch_timeout",
    "scheduling_timeout",
    "termination_grace_period",
)


def _insert_specs(roots: Sequence[_Root]) -> None:
    specs = [root.placed.submission.spec for root in roots]
    secrets = [root.placed.submission.secrets for root in roots]
    with connection.cursor() as cursor:
        cursor.execute(
            _INSERT_SPECS,
            [
                array(root.spec_id for root in roots),
                array(root.digest for root in roots),
                array(spec["image"] for spec in specs),
                *(json_array(spec[name] for spec in specs) for name in _SPEC_JSON),
                *(array(spec[name] for spec in specs) for name in _SPEC_NUMBERS),
                json_array(sorted(each) for each in secrets),
                array(environ_stored(each) for each in secrets),
            ],
        )


class _Found(NamedTuple):
    """A session that has a `creation_id` already, and what its request was."""

    id: UUID
    owner_id: int | None
    digest: str
    secrets: str | None
    """As they are stored."""


_REQUEST = ("spec__request_digest", "spec__secret_environ")
_Known = dict[tuple[int, str], _Found]


def _known(roots: Sequence[_Root | _Refused]) -> _Known:
    """The sessions that have the `creation_id` of these already."""
    if not roots:
        return {}
    rows = Session.objects.filter(
        project__in={root.project_id for root in roots},
        creation_id__in={root.creation_id for root in roots},
    ).values_list("project_id", "creation_id", "pk", "owner_id", *_REQUEST)
    return {(project, creation): _Found(*found) for project, creation, *found in rows}


def _outcome(root: _Root | _Refused, created: set[UUID], known: _Known) -> Submitted | DomainError:
    if isinstance(root, _Root) and root.id in created:
        return Submitted(root.id, True, root.placed.submission.warnings)
    found = known.get((root.project_id, root.creation_id))
    try:
        if found is not None and found.digest == root.digest and _same_secrets(found, root.placed):
            return Submitted(found.id, False, root.placed.submission.warnings)
    except SecretUnreadable as error:
        return error
    if isinstance(root, _Refused):
        return root.error
    return Conflict(
        f"creation_id {root.creation_id!r} was used for another request in this project",
        session_id=str(known[root.project_id, root.creation_id].id),
        errors={"creation_id": ["was used before with another request"]},
    )


def _same_secrets(found: _Found, placed: Placed) -> bool:
    """Whether the values are the same, too; the names are in the digest.

    Only to those whose session it is: anybody else could try what a secret may be.
    """
    secrets = placed.submission.secrets
    if not secrets:
        return True
    return found.owner_id == placed.owner_id and environ_read(found.secrets) == secrets
