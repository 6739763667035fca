"""Submit: the first attempts of new chains, one or a thousand in the same few statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from uuid import UUID

from django.conf import settings

from sessions_app import wakeups
from sessions_app.core.errors import Conflict, DomainError, InvalidInput, SecretUnreadable
from sessions_app.core.time_limits import Times, times_within
from sessions_app.db.steps import atomic_step
from sessions_app.db.writes import Writes, atomic_writes
from sessions_app.in_force.quotas import quotas_read
from sessions_app.locks.priority_classes import Named
from sessions_app.models import Session
from sessions_app.selectors.fitting import Asked, unfits
from sessions_app.services.chains.dependants import dependants_judge
from sessions_app.services.resources.policy_names import chains_policies
from sessions_app.services.resources.priority_classes import ranks_named
from sessions_app.services.secrets.stored import environ_read
from sessions_app.services.sessions.admission import roots_admit
from sessions_app.services.sessions.dependencies import (
    dependencies_insert,
    dependencies_resolve,
    inside,
    refuse_dependants,
)
from sessions_app.services.sessions.frozen_policies import PolicyFreezer
from sessions_app.services.sessions.new_root_rows import roots_insert
from sessions_app.services.sessions.new_roots import NewRoot
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.write.usage import UsageFull

Value = TypeVar("Value")


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
        roots = [NewRoot(placed) for placed in wanted]
        _freeze(roots)
        dependencies_resolve(roots)
        _insert_within_quotas(writes, roots)
        _depend(writes, roots)
        known = _known([root for root in roots if not root.inserted])
    return [_outcome(root, known) for root in roots]


_TRIES = 5


def _freeze(roots: Sequence[NewRoot]) -> None:
    """Find what each chain keeps from its beginning. Refuse what the rules of now forbid."""
    freezer = PolicyFreezer(root.placed.queue for root in roots)
    policies = chains_policies({root.placed.asked for root in roots})
    unfit = unfits([_asked_for(root.placed) for root in roots])
    named = [_class_named(root.placed) for root in roots]
    ranks = ranks_named({each for each in named if each})
    for root, name, why in zip(roots, named, unfit, strict=True):
        asked = root.placed.submission
        try:
            root.policy, root.policy_text = freezer.freeze(root.project_id, asked.retry_policy)
            root.policies = _or_refuse(policies[root.placed.asked])
            root.rank = _or_refuse(ranks[name]) if name else 0
            if why is not None and why.field and freezer.refuses_unfittable(root.project_id):
                raise InvalidInput({why.field: [why.why]})
            root.times = _times(root.placed)
            doubts = freezer.warnings(root.placed, root.policy)
            root.warnings = (*doubts, *([why.why] if why else []))
        except InvalidInput as error:
            root.refusal = error


def _or_refuse(value: Value | InvalidInput) -> Value:
    if isinstance(value, InvalidInput):
        raise value
    return value


def _asked_for(placed: Placed) -> Asked:
    spec = placed.submission.spec
    return Asked(placed.project_id, spec["resources"], spec["cluster_size"], spec["pod_spec"])


def _class_named(placed: Placed) -> Named | None:
    name = placed.submission.priority_class
    return Named(placed.project_id, placed.owner_id, name) if name else None


def _times(placed: Placed) -> Times:
    queue, server = placed.queue, settings.REPRISE["scheduling_timeout"]
    return times_within(placed.submission.spec, queue.time_limits, queue.name, scheduling=server)


def _insert_within_quotas(writes: Writes, roots: Sequence[NewRoot]) -> None:
    """Insert the roots that have room; refuse the others.

    The counters are changed last, so that nobody waits for us: at the end of a savepoint. If
    somebody takes the room in between, it is undone and tried again.
    """
    accepted = _accepted(roots)
    limited: set[int] = set()
    for _ in range(_TRIES):
        quotas = quotas_read({root.project_id for root in roots}, waiting=True, live=True)
        limited = quotas.projects
        if not limited:
            roots_insert(writes, accepted, limited)
            return
        roots_admit(accepted, quotas, _known([each for each in accepted if each.is_named]))
        refuse_dependants(roots)
        try:
            with atomic_writes() as attempt:
                roots_insert(attempt, _accepted(roots), limited)
            return
        except UsageFull:
            for root in accepted:
                root.refusal, root.inserted = None, False
    # Too busy: the room was never free for as long as an insert takes.
    for root in accepted:
        if root.project_id in limited:
            root.refusal = Conflict(
                "too many sessions are submitted to this project at the same time; try again"
            )
    refuse_dependants(roots)
    roots_insert(writes, _accepted(roots), set())


def _accepted(roots: Sequence[NewRoot]) -> list[NewRoot]:
    return [root for root in roots if root.refusal is None]


def _depend(writes: Writes, roots: Sequence[NewRoot]) -> None:
    """Store the dependencies of the chains that were inserted. Cancel those that never begin."""
    new = [root for root in roots if root.inserted and root.depends_on]
    if not new:
        return
    ours = {root.id: root for root in roots}
    if not all(other.inserted for root in new for other in inside(root, ours)):
        raise _OvertakenError
    wakeups.awaited_after_commit()
    dependencies_insert([each for root in new for each in root.depends_on])
    unmet = [root.id for root in new if root.unmet]
    if unmet:
        dependants_judge(writes, unmet)


class _Found(NamedTuple):
    """A session that already has a `creation_id`, with the digest of its request."""

    id: UUID
    owner_id: int | None
    digest: str
    secrets: str | None
    """As they are stored, encrypted."""


_REQUEST = ("spec__request_digest", "spec__secret_environ")
_Known = dict[tuple[int, str], _Found]


def _known(roots: Sequence[NewRoot]) -> _Known:
    """Return the sessions that already have the `creation_id` of these."""
    if not roots:
        return {}
    rows = Session.objects.filter(
        project__in={root.project_id for root in roots},
        creation_id__in={root.creation_id for root in roots},
    ).values_list("project_id", "creation_id", "pk", "owner_id", *_REQUEST)
    return {(project, creation): _Found(*found) for project, creation, *found in rows}


def _outcome(root: NewRoot, known: _Known) -> Submitted | DomainError:
    if root.inserted:
        return Submitted(root.id, True, root.warnings)
    found = known.get((root.project_id, root.creation_id))
    try:
        if found is not None and found.digest == root.digest and _same_secrets(found, root.placed):
            warnings = () if root.refusal else root.warnings
            return Submitted(found.id, False, warnings or root.placed.submission.warnings)
    except SecretUnreadable as error:
        return error
    if root.refusal is not None:
        return root.refusal
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
