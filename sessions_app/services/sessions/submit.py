"""Submit: the first attempts of new chains, one or a thousand in the same few statements."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection
from uuid_utils.compat import uuid7

from retry.policies.limits import stored_number
from sessions_app import wakeups
from sessions_app.core.columns import NULL, SESSION, SPEC
from sessions_app.core.errors import Conflict, DomainError, InvalidInput, SecretUnreadable
from sessions_app.core.priorities import folded
from sessions_app.core.quotas import Quotas
from sessions_app.core.scheduling_key import scheduling_key_sql
from sessions_app.core.states import Phase
from sessions_app.core.time_limits import LIMITED, Times, times_within
from sessions_app.db.bulk import arrays, from_array, inserted, json_text, unnested
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes, atomic_writes
from sessions_app.in_force.quotas import quotas_read
from sessions_app.locks.priority_classes import Named
from sessions_app.models import Session
from sessions_app.selectors.fitting import Asked, Unfit, unfits
from sessions_app.services.chains.children import submitted_facts
from sessions_app.services.chains.dependants import dependants_judge
from sessions_app.services.resources.policy_names import chains_policies
from sessions_app.services.resources.priority_classes import ranks_named
from sessions_app.services.secrets.stored import environ_read, environ_stored
from sessions_app.services.sessions.admission import Applicant, admission_refusals
from sessions_app.services.sessions.dependencies import (
    Item,
    Resolved,
    dependencies_insert,
    dependencies_resolve,
    dependencies_told,
)
from sessions_app.services.sessions.frozen_policies import PolicyFreezer
from sessions_app.services.sessions.new_roots import Refused, Root, Roots
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.write.transitions import EventRow, events_append
from sessions_app.services.write.usage import Move, UsageFull, usage_note


@dataclass(frozen=True, slots=True)
class Submitted:
    """A session, and whether it is new."""

    session_id: UUID
    created: bool
    warnings: tuple[str, ...] = ()


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
    for _ in range(_TRIES):
        try:
            return _submit(wanted)
        except _OvertakenError:
            continue
    # Somebody else submits the same ids all the time.
    busy = Conflict("sessions with the same creation_id are submitted at the same time; try again")
    return [busy for _ in wanted]


class _OvertakenError(Exception):
    """What a new chain waits for was just created by somebody else: it is looked for again."""


def _submit(wanted: Sequence[Placed]) -> list[Submitted | DomainError]:
    with atomic_step("submit") as writes:
        freezer = PolicyFreezer(placed.queue for placed in wanted)
        policies = chains_policies({placed.asked for placed in wanted})
        unfit = unfits([_asked_for(placed) for placed in wanted])
        named = [_class_named(placed) for placed in wanted]
        ranks = ranks_named({each for each in named if each})
        roots = [
            _root(placed, freezer, policies[placed.asked], why, ranks[name] if name else 0)
            for placed, why, name in zip(wanted, unfit, named, strict=True)
        ]
        resolved = dependencies_resolve([_item(root) for root in roots])
        roots = _refused_by(resolved.refusals, [_blocked(root, resolved) for root in roots])
        roots, created = _insert_within_quotas(writes, roots, resolved)
        _depend(writes, roots, created, resolved)
        known = _known([r for r in roots if isinstance(r, Refused) or r.id not in created])
    return [_outcome(root, created, known) for root in roots]


_TRIES = 5


def _item(root: Root | Refused) -> Item:
    asked, refused = root.placed.submission, isinstance(root, Refused)
    return Item(
        root.id,
        root.project_id,
        asked.creation_id,
        root.digest,
        asked.depends_on,
        asked.on_dependency_failure,
        refused,
    )


def _blocked(root: Root | Refused, resolved: Resolved) -> Root | Refused:
    found = resolved.found.get(root.id)
    if not found or isinstance(root, Refused):
        return root
    phase = Phase.BLOCKED if resolved.blocked(root.id) else Phase.WAITING
    return replace(root, phase=phase, depends_on=found)


def _refused_by(refusals: Mapping[UUID, DomainError], roots: Roots) -> Roots:
    return [
        root.refused(refusals[root.id]) if isinstance(root, Root) and root.id in refusals else root
        for root in roots
    ]


def _depend(writes: Writes, roots: Roots, created: set[UUID], resolved: Resolved) -> None:
    """Store the dependencies of the chains that were inserted. Cancel those that never begin."""
    new = [root for root in _accepted(roots) if root.depends_on and root.id in created]
    if not new:
        return
    inside = resolved.inside
    if not all(created.issuperset(inside[root.id]) for root in new):
        raise _OvertakenError
    wakeups.awaited_after_commit()
    dependencies_insert([each for root in new for each in root.depends_on])
    unmet = [root.id for root in new if resolved.unmet(root.id)]
    if unmet:
        dependants_judge(writes, unmet)


def _insert_within_quotas(
    writes: Writes, roots: Roots, resolved: Resolved
) -> tuple[Roots, set[UUID]]:
    """Insert the roots that have room. Return all roots with refusals, and the ids inserted.

    The counters are changed last, so that nobody waits for us: at the end of a savepoint. If
    somebody takes the room in between, it is undone and tried again.
    """
    limited: set[int] = set()
    for _ in range(_TRIES):
        quotas = quotas_read({each.project_id for each in roots}, waiting=True, live=True)
        limited = quotas.projects
        if not limited:
            return roots, _insert(writes, _accepted(roots), limited)
        let_in = _let_in(roots, quotas)
        without_room = [each.id for each in let_in if isinstance(each, Refused)]
        let_in = _refused_by(resolved.refuse_with(without_room), let_in)
        try:
            with atomic_writes() as attempt:
                return let_in, _insert(attempt, _accepted(let_in), limited)
        except UsageFull:
            continue
    # Too busy: the room was never free for as long as an insert takes.
    busy = Conflict("too many sessions are submitted to this project at the same time; try again")
    rest = [
        root.refused(busy) if isinstance(root, Root) and root.project_id in limited else root
        for root in roots
    ]
    return rest, _insert(writes, _accepted(rest), set())


def _accepted(roots: Roots) -> list[Root]:
    return [root for root in roots if isinstance(root, Root)]


def _let_in(roots: Roots, quotas: Quotas) -> Roots:
    """Return the roots, with a refusal in place of those without room."""
    accepted = _accepted(roots)
    known = _known([root for root in accepted if root.placed.submission.creation_id])
    applicants = [
        Applicant(r.project_id, r.creation_id, r.placed.submission.spec) for r in accepted
    ]
    refusals = iter(admission_refusals(applicants, quotas, known))
    return [_unless(next(refusals), root) if isinstance(root, Root) else root for root in roots]


def _unless(refusal: DomainError | None, root: Root) -> Root | Refused:
    return root if refusal is None else root.refused(refusal)


def _asked_for(placed: Placed) -> Asked:
    spec = placed.submission.spec
    return Asked(placed.project_id, spec["resources"], spec["cluster_size"], spec["pod_spec"])


def _class_named(placed: Placed) -> Named | None:
    name = placed.submission.priority_class
    return Named(placed.project_id, placed.owner_id, name) if name else None


def _root(
    placed: Placed,
    freezer: PolicyFreezer,
    policies: list[str] | InvalidInput,
    unfit: Unfit | None,
    rank: int | InvalidInput,
) -> Root | Refused:
    digest = placed.submission.digest(placed.queue)
    try:
        policy, text = freezer.freeze(placed.project_id, placed.submission.retry_policy)
        if isinstance(policies, InvalidInput):
            raise policies
        if isinstance(rank, InvalidInput):
            raise rank
        if unfit is not None and unfit.field and freezer.refuses_unfittable(placed.project_id):
            raise InvalidInput({unfit.field: [unfit.why]})
        times = _times(placed)
    except InvalidInput as error:
        return Refused(placed, error, digest, uuid7())
    warnings = (*freezer.warnings(placed, policy), *([unfit.why] if unfit else []))
    return Root(
        uuid7(), placed, policy, text, policies, digest, uuid7(), warnings, times, rank=rank
    )


def _times(placed: Placed) -> Times:
    queue, server = placed.queue, settings.REPRISE["scheduling_timeout"]
    return times_within(placed.submission.spec, queue.time_limits, queue.name, scheduling=server)


_Source = Callable[[Root], Any]


def _asked(name: str) -> _Source:
    if SPEC[name] == "jsonb":
        return lambda root: _json_or_null(root.placed.submission.spec[name])
    return lambda root: root.placed.submission.spec[name]


def _time(name: str) -> _Source:
    return lambda root: root.times[name]


def _json_or_null(value: Any) -> str | None:
    return None if value is None else json_text(value)


# Where the values of columns come from; JSON as its text.
_SPEC_GIVEN: dict[str, _Source] = {name: _asked(name) for name in SPEC} | {
    "id": lambda root: root.spec_id,
    "request_digest": lambda root: root.digest,
    "secret_names": lambda root: _json_or_null(sorted(root.placed.submission.secrets) or None),
    "secret_environ": lambda root: environ_stored(root.placed.submission.secrets),
    "secrets_by": lambda _: None,
    "on_dependency_failure": lambda root: (
        root.placed.submission.on_dependency_failure if root.depends_on else None
    ),
    "executor_labels": lambda _: None,
    **{name: _time(name) for name in LIMITED},
}
# Of the specification, for the key and the deadline.
_KEYED = ("resources", "pod_spec", "cluster_size", "queue_timeout")
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
    "priority": lambda root: folded(root.rank, root.placed.submission.priority),
    "phase": lambda root: root.phase,
    "max_retries": lambda root: stored_number(root.policy.max_retries),
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
    "phase": "v.phase",
    "created_at": "now.at",
    "root_id": "v.id",
    "root_submitted_at": "now.at",
    "wait_deadline": f"""CASE v.phase WHEN '{Phase.WAITING}'
        THEN now.at + make_interval(secs => v.queue_timeout) END""",
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


def _insert(writes: Writes, roots: Sequence[Root], limited: set[int]) -> set[UUID]:
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
    events = [EventRow(root, 1, "session.submitted", _told(root, facts)) for root in new]
    events_append(writes, events, now=now)
    usage_note(
        writes,
        [
            Move(root.id, root.project_id, None, Phase.WAITING, guarded=True)
            for root in new
            if root.project_id in limited
        ],
    )
    wakeups.work_after_commit()
    return set(created)


def _told(root: Root, facts: dict[str, object]) -> dict[str, object]:
    """Return the facts of its first event."""
    schedule = root.placed.submission.schedule
    if root.depends_on:
        facts = {**facts, "depends_on": dependencies_told(root.depends_on)}
    return {**facts, "schedule": schedule} if schedule else facts


def _insert_specs(roots: Sequence[Root]) -> None:
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


def _known(roots: Sequence[Root | Refused]) -> _Known:
    """Return the sessions that already have the `creation_id` of these."""
    if not roots:
        return {}
    rows = Session.objects.filter(
        project__in={root.project_id for root in roots},
        creation_id__in={root.creation_id for root in roots},
    ).values_list("project_id", "creation_id", "pk", "owner_id", *_REQUEST)
    return {(project, creation): _Found(*found) for project, creation, *found in rows}


def _outcome(root: Root | Refused, created: set[UUID], known: _Known) -> Submitted | DomainError:
    if isinstance(root, Root) and root.id in created:
        return Submitted(root.id, True, root.warnings)
    found = known.get((root.project_id, root.creation_id))
    try:
        if found is not None and found.digest == root.digest and _same_secrets(found, root.placed):
            warnings = root.warnings if isinstance(root, Root) else ()
            return Submitted(found.id, False, warnings or root.placed.submission.warnings)
    except SecretUnreadable as error:
        return error
    if isinstance(root, Refused):
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
