"""The operators' changes to executors: create with a token, change, cordon and delete."""

from collections.abc import Collection, Sequence

from django.db import IntegrityError, transaction

from scheduler.locks import lock_executor
from scheduler.models import Executor, Lease
from sessions_app import wakeups
from sessions_app.audit.context import audited
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.models import Project
from sessions_app.services.access.tokens import executor_tokens_revoke, token_create
from sessions_app.services.write.records import cordon_check, record_save

LONGEST = 366 * 86_400
"""Maximum of `unconfirmed_after` in seconds; larger values would overflow the sweep."""
CORDON = frozenset({"cordoned", "cordon_reason"})
NO_DRAIN = {"draining_since": None, "drained_by": "", "drain_force": False}


def executor_create(executor: Executor, *, projects: Sequence[Project], by: str) -> str:
    """Create an executor for these projects (none: all). Return its token, which is not stored.

    Revokes tokens left by an earlier executor of the same name. Raises `Conflict` if the name is
    taken.
    """
    cordon_check(cordoned=executor.cordoned, reason=executor.cordon_reason)
    try:
        with transaction.atomic():
            record_save(executor, by=by, many={"projects": projects})
            return executor_token_renew(executor, by=by)
    except IntegrityError as error:
        if "scheduler_executor_name" not in str(error):
            raise
        why = f"there is an executor {executor.name!r} already"
        raise Conflict(why, errors={"name": ["is taken"]}) from error


def executor_save(
    executor: Executor,
    *,
    by: str,
    fields: Collection[str],
    projects: Sequence[Project] | None = None,
) -> None:
    """Write these fields of an existing executor, and if given the projects that it serves.

    Raises `InvalidInput` if it is cordoned without a reason, `NotFound` if it is gone.
    """
    cordon_check(cordoned=executor.cordoned, reason=executor.cordon_reason)
    many = {} if projects is None else {"projects": projects}
    verb = "change"
    if many.keys() | fields <= CORDON:
        verb = "cordon" if executor.cordoned else "uncordon"
    with transaction.atomic():
        if _locked(executor).draining_since is not None and verb == "uncordon":
            fields = {*fields, *NO_DRAIN}
            for name, value in NO_DRAIN.items():
                setattr(executor, name, value)
        record_save(executor, by=by, fields=fields, many=many, verb=verb)
        if not executor.cordoned:
            wakeups.work_after_commit()


def executor_cordon(executor: Executor, *, reason: str, by: str) -> None:
    """Cordon an executor: it gets no new leases, its runs continue."""
    executor.cordoned, executor.cordon_reason = True, reason
    executor_save(executor, by=by, fields=CORDON)


def executor_uncordon(executor: Executor, *, by: str) -> None:
    """Uncordon an executor: it gets leases again, and a drain ends."""
    executor.cordoned, executor.cordon_reason = False, ""
    executor_save(executor, by=by, fields=CORDON)


def executor_token_renew(executor: Executor, *, by: str) -> str:
    """Create the only token that its agent may use from now on. Return it; it is not stored.

    Raises `NotFound` if the executor is gone.
    """
    with transaction.atomic():
        name = _locked(executor).name
        executor_tokens_revoke(name, by=by)
        return token_create(name=f"executor {name}", executor_name=name, by=by)


def executor_delete(executor: Executor, *, by: str) -> None:
    """Delete an executor and its tokens. Raises `Conflict` while it holds leases."""
    with transaction.atomic():
        # A lease round for this executor takes the same lock.
        locked = _locked(executor)
        held = Lease.objects.filter(executor=locked).count()
        if held:
            text = f"it holds {held} lease{'s' * (held > 1)}: cordon it, and delete it when"
            raise Conflict(f"{text} its runs have ended", lease_count=held)
        executor_tokens_revoke(locked.name, by=by)
        with audited(by=by):
            locked.delete()


def _locked(executor: Executor) -> Executor:
    found = lock_executor(executor.name)
    if found is None:
        raise NotFound(f"no executor {executor.name}")
    return found
