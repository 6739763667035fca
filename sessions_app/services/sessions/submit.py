"""Submit: the first attempts of new chains, one or a thousand in the same few statements."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from uuid_utils.compat import uuid7

from retry.policies.inline import InlinePolicy, dump_set
from sessions_app import wakeups
from sessions_app.core.columns import NULL, SESSION, SPEC
from sessions_app.core.errors import Conflict, DomainError, InvalidInput, SecretUnreadable
from sessions_app.core.quotas import Quotas
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase, Status
from sessions_app.db.bulk import arrays, from_array, inserted, json_text, unnested
from sessions_app.db.deferred import closing
from sessions_app.db.steps import atomic_step
from sessions_app.in_force.quotas import quotas_read
from sessions_app.models import Queue, Session
from sessions_app.services.chains.children import submitted_facts
from sessions_app.services.resources.policy_names import Asked, chains_policies
from sessions_app.services.secrets.stored import environ_read, environ_stored
from sessions_app.services.sessions.admission import Applicant, admission_refusals
from sessions_app.services.sessions.frozen_policies import PolicyFreezer
from sessions_app.services.write.transitions import EventRow, events_append
from sessions_app.services.write.usage import Move, UsageFull, usage_note


@dataclass(frozen=True, slots=True)
class Submission:
    """A validated creation request; all but the policy is as it will be stored."""

    name: str
    job_set: str
    creation_id: str | None
    session_type: str
    priority: int
    retry_policy: InlinePolicy
    retry_policies: tuple[str, ...]
    """Named policies, in addition to those of the queue."""
    spec: dict[str, Any]
    """The fields of `SessionSpec`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that only the run gets to know."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about requested settings that have no effect."""
        asked = self.retry_policy.model_fields_set or self.retry_policies
        if self.session_type == "batch" or not asked:
            return ()
        no_effect = "the retry policy has no effect: only batch sessions are retried"
        return (f"{no_effect}, and this one is {self.session_type}",)

    def digest(self, queue: Queue) -> str:
        """Return the SHA-256 of the request, without the `creation_id` and the values of secrets.

        The hash of a secret would allow guesses to be verified.
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
            # Only present if given, so that digests from before this field existed stay equal.
            asked["retry_policies"] = self.retry_policies
        if self.secrets:
            asked["secret_environ"] = sorted(self.secrets)
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Placed:
    """A submission, its queue, and its future owner."""

    queue: Queue
    """The queue, which may come with its retry scope."""
    owner_id: int
    submission: Submission

    @property
    def project_id(self) -> int:
        return self.queue.project_id

    @property
    def asked(self) -> Asked:
        """Return what decides about the policies of its chain."""
        return Asked(self.project_id, self.queue.pk, self.submission.retry_policies)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A session, and whether it is new."""

    session_id: UUID
    created: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Root:
    """A session about to be inserted with its events, and the values it is made of."""

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
        """Return a refusal in its place; a session that already exists still counts."""
        return _Refused(self.placed, error, self.digest)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A submission that is refused, unless its session already exists."""

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

    The same `creation_id` with the same request returns the first session again. Raises `Conflict`
    if it came with another request, `InvalidInput` if the policy exceeds a bound or a named one
    does not exist, `QuotaExceeded` if the project or its domain has no room.
    """
    (outcome,) = sessions_submit([placed])
    if isinstance(outcome, DomainError):
        raise outcome
    return outcome


def sessions_submit(wanted: Sequence[Placed]) -> list[Submitted | DomainError]:
    """Create many roots as `session_submit` does. Return an outcome for each, in their order."""
    with atomic_step("submit"):
        freezer = PolicyFreezer(placed.queue for placed in wanted)
        policies = chains_policies({placed.asked for placed in wanted})
        roots = [_root(placed, freezer, policies[placed.asked]) for placed in wanted]
        roots, created = _insert_within_quotas(roots)
        known = _known([r for r in roots if isinstance(r, _Refused) or r.id not in created])
    return [_outcome(root, created, known) for root in roots]


_Roots = list[_Root | _Refused]
_TRIES = 5


def _insert_within_quotas(roots: _Roots) -> tuple[_Roots, set[UUID]]:
    """Insert the roots that have room. Return all roots with refusals, and the ids inserted.

    The counters are changed last, so that nobody waits for us. If somebody takes the room in
    between, we try again.
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
    # Too busy: the room was never free for as long as an insert takes.
    busy = Conflict("too many are submitted to this project at once; try again")
    rest = [
        root.refused(busy) if isinstance(root, _Root) and root.project_id in limited else root
        for root in roots
    ]
    return rest, _insert(_accepted(rest), set())


def _accepted(roots: _Roots) -> list[_Root]:
    return [root for root in roots if isinstance(root, _Root)]


def _let_in(roots: _Roots, quotas: Quotas) -> _Roots:
    """Return the roots, with a refusal in place of those without room."""
    accepted = _accepted(roots)
    known = _known([root for root in accepted if root.placed.submission.creation_id])
    applicants = [
        Applicant(r.project_id, r.creation_id, r.placed.submission.spec) for r in accepted
    ]
    refusals = iter(admission_refusals(applicants, quotas, known))
    return [_unless(next(refusals), root) if isinstance(root, _Root) else root for root in roots]


def _unless(refusal: DomainError | None, root: _Root) -> _Root | _Refused:
    return root if refusal is None else root.refused(refusal)


def _root(
    placed: Placed, freezer: PolicyFreezer, policies: list[str] | InvalidInput
) -> _Root | _Refused:
    digest = placed.submission.digest(placed.queue)
    try:
        policy, text = freezer.freeze(placed.project_id, placed.submission.retry_policy)
        if isinstance(policies, InvalidInput):
            raise policies
    except InvalidInput as error:
        return _Refused(placed, error, digest)
    return _Root(uuid7(), placed, policy, text, policies, digest, uuid7())


_Source = Callable[[_Root], Any]


def _asked(name: str) -> _Source:
    if SPEC[name] == "jsonb":
        return lambda root: _json_or_null(root.placed.submission.spec[name])
    return lambda root: root.placed.submission.spec[name]


def _json_or_null(value: Any) -> str | None:
    return None if value is None else json_text(value)


# Where the values of columns come from; JSON as its text.
_SPEC_GIVEN: dict[str, _Source] = {name: _asked(name) for name in SPEC} | {
    "id": lambda root: root.spec_id,
    "request_digest": lambda root: root.digest,
    "secret_names": lambda root: _json_or_null(sorted(root.placed.submission.secrets) or None),
    "secret_environ": lambda root: environ_stored(root.placed.submission.secrets),
}
# Of the specification, for the key.
_KEYED = ("resources", "pod_spec", "cluster_size")
_GIVEN: dict[str, _Source] = {
    "id": lambda root: root.id,
    "spec_id": lambda root: root.spec_id,
    "project_id": lambda root: root.project_id,
    "queue_id": lambda root: root.placed.queue.pk,
    "owner_id": lambda root: root.placed.owner_id,
    "name": lambda root: root.placed.submission.name,
    "job_set": lambda root: root.job_set,
    "creation_id": lambda root: root.creation_id,
    "session_type": lambda root: root.placed.submission.session_type,
    "priority": lambda root: root.placed.submission.priority,
    "max_retries": lambda root: root.policy.max_retries,
    "retry_policy": lambda root: root.policy_text,
    "retry_policies": lambda root: json_text(root.policies),
    **{name: _SPEC_GIVEN[name] for name in _KEYED},
}
_SENT = {name: SPEC[name] if name in _KEYED else SESSION[name].type for name in _GIVEN}

_BORN = {
    name: column.born or from_array(name, column.type)
    for name, column in SESSION.items()
    if column.born != NULL
}
_BORN |= {
    "created_at": "now.at",
    "root_id": "v.id",
    "root_submitted_at": "now.at",
    "scheduling_key": scheduling_key_sql(
        resources="v.resources::jsonb",
        pods="v.cluster_size",
        pod_spec="v.pod_spec::jsonb",
        retry="false",
    ),
}
_INSERT = f"""
    {inserted("sessions_app_session", _BORN)}
    FROM {unnested(_SENT, numbered="position")}, (SELECT statement_timestamp()) AS now(at)
    ORDER BY v.project_id, v.creation_id, v.position
    ON CONFLICT (project_id, creation_id) DO NOTHING
    RETURNING id, created_at
"""
"""Ordered, so that two submissions of the same ids wait for each other in the same order."""


_INSERT_SPECS = f"""
    {inserted("sessions_app_sessionspec", {n: from_array(n, kind) for n, kind in SPEC.items()})}
    FROM {unnested(SPEC)}
"""


def _insert(roots: Sequence[_Root], limited: set[int]) -> set[UUID]:
    """Insert roots whose `creation_id` is new, with their specification and first event.

    Sessions of `limited` projects are counted, up to the quotas. Return the ids inserted.
    """
    if not roots:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, arrays(_GIVEN, roots))
        created = dict(cursor.fetchall())
    new = [root for root in roots if root.id in created]
    if not new:
        return set()
    now = created[new[0].id]  # one statement created them all
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


def _insert_specs(roots: Sequence[_Root]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_SPECS, arrays(_SPEC_GIVEN, roots))


class _Found(NamedTuple):
    """A session that already has a `creation_id`, with the digest of its request."""

    id: UUID
    owner_id: int | None
    digest: str
    secrets: str | None
    """As they are stored, encrypted."""


_REQUEST = ("spec__request_digest", "spec__secret_environ")
_Known = dict[tuple[int, str], _Found]


def _known(roots: Sequence[_Root | _Refused]) -> _Known:
    """Return the sessions that already have the `creation_id` of these."""
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
    """Return whether the values of secrets are the same, too; their names are in the digest.

    Only the owner of the session gets True: anybody else could guess a secret by trying.
    """
    secrets = placed.submission.secrets
    if not secrets:
        return True
    return found.owner_id == placed.owner_id and environ_read(found.secrets) == secrets
