"""What people decide about breakers: they open, close and mute them."""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef

from retry.breakers import BreakerRule, scope_key
from retry.evidence.causes import FAILURE_CAUSES
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.db.steps import atomic_step
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.locks import database_now, lock_breakers
from sessions_app.models import Breaker, FailureSignature, Project, Queue
from sessions_app.models.breakers import BreakerState
from sessions_app.models.failures import OTHER
from sessions_app.selectors.retry_config import settings_of
from sessions_app.services.breakers.turns import breakers_turn, closed, opened
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.wakeups import sweep_after_commit

CONCERNED = timedelta(days=1)
"""A breaker of the cluster that a person opens is told to projects that failed so since then."""


def breaker_open(
    project: Project | None, queue: Queue | None, signature: str, *, reason: str, by: str
) -> Breaker:
    """Open the breaker of a signature in the cluster, a project or a queue.

    It probes as the rule of its scope says, or as the shipped one if there is none, and closes by a
    probe, like any other. It is not muted any more. The projects that it concerns have an event.
    Raises `Conflict` if it is open, or if such failures can have none there.
    """
    scope = scope_key(project.pk if project else None, queue.pk if queue else None)
    with atomic_step("breakers") as writes:
        lock_breakers()
        _require_openable(project, signature)
        now = database_now()
        breaker = Breaker.objects.filter(scope=scope, signature=signature).first()
        if breaker is None:
            breaker = Breaker(scope=scope, project=project, queue=queue, signature=signature)
        elif breaker.state == BreakerState.OPEN:
            raise Conflict(f"the breaker of {signature} is open already")
        delay = _rule(project, queue).probe_after
        breaker.projects = [project.pk] if project else _concerned(signature, now)
        breakers_turn(writes, [opened(breaker, now, delay=delay, reason=reason, by=by)], now=now)
        data = {"scope": breaker.address, "signature": signature, "reason": reason}
        project_id = project.pk if project else None
        row = AuditRow(by, "breaker.open", "breaker", str(breaker.pk), data, project_id)
        audit_append(writes, [row], now=now)
    return breaker


def breaker_refusal(key: str, cause: str, *, muted: bool) -> str:
    """Return why a failure with this key and cause can have no breaker; "" if it can."""
    if key == OTHER:
        return "it stands for failures of many signatures"
    if cause not in FAILURE_CAUSES:
        return f"its cause is {cause or 'not known'}, and only failures of the work itself have one"
    return "the project has muted it" if muted else ""


def _require_openable(project: Project | None, signature: str) -> None:
    """Refuse a failure that can have no breaker. What was never counted may have one.

    The cluster's does not look at the mutings: it holds nothing of a project that muted it. The
    cause is a part of the signature, so that all projects have the same.
    """
    known = FailureSignature.objects.filter(key=signature)
    if project is not None:
        known = known.filter(project=project)
    for cause, muted in known.order_by("project").values_list("cause", "muted")[:1]:
        refusal = breaker_refusal(signature, cause, muted=muted and project is not None)
        if refusal:
            raise Conflict(
                f"this failure can have no breaker: {refusal}", errors={"signature": [refusal]}
            )


def _rule(project: Project | None, queue: Queue | None) -> BreakerRule:
    """Return the rule of a scope itself; the shipped one if it has none."""
    if queue is not None:
        stored = queue.breaker
    else:
        settings = settings_of(ConfigScope(project=project))
        stored = settings.breaker if settings is not None else None
    return BreakerRule.model_validate(stored or {})


def _concerned(signature: str, now: datetime) -> list[int]:
    """Return the ids of the projects in which chains failed so of late, and did not mute it.

    The figures of failures say so, at most some seconds late; not all projects ask for breakers,
    and so not all have their failing chains counted.
    """
    failed = FailureSignature.objects.filter(
        project=OuterRef("pk"), key=signature, muted=False, last_seen__gt=now - CONCERNED
    )
    return list(Project.objects.filter(Exists(failed)).order_by("pk").values_list("pk", flat=True))


def breaker_close(breaker_id: UUID, *, reason: str, mute: bool, by: str) -> Breaker:
    """Close a breaker: what it held goes on at the pace of the storm limits.

    With `mute` it does not open by itself any more; muting a closed one is allowed. What is so
    already does not change. Raises `NotFound`.
    """
    with atomic_step("breakers") as writes:
        lock_breakers()
        breaker = Breaker.objects.filter(pk=breaker_id).first()
        if breaker is None:
            raise NotFound(f"no breaker {breaker_id}")
        was_open = breaker.state == BreakerState.OPEN
        if not was_open and (breaker.muted or not mute):
            return breaker
        now = database_now()
        breaker.muted = breaker.muted or mute
        if was_open:
            breakers_turn(writes, closed=[closed(breaker, now, reason=reason, by=by)], now=now)
        else:
            breaker.save(update_fields=["muted"])
        verb = "breaker.close" if was_open else "breaker.mute"
        data = {"scope": breaker.address, "signature": breaker.signature, "reason": reason}
        data |= {"muted": "yes"} if mute else {}
        row = AuditRow(by, verb, "breaker", str(breaker.pk), data, breaker.project_id)
        audit_append(writes, [row], now=now)
        sweep_after_commit()
    return breaker


def breakers_mute(breakers: Collection[UUID], *, muted: bool, by: str) -> int:
    """Keep breakers from opening by themselves, or take that back, in a fixed number of statements.

    One that is open stays open. Return the number of those that changed.
    """
    with atomic_step("breakers") as writes:
        lock_breakers()
        found = Breaker.objects.select_related("project__domain", "queue").order_by("pk")
        changed = list(found.filter(pk__in=breakers, muted=not muted))
        if changed:
            Breaker.objects.filter(pk__in=[each.pk for each in changed]).update(muted=muted)
            entries = [_muting(each, muted=muted, by=by) for each in changed]
            audit_append(writes, entries, now=database_now())
    return len(changed)


def _muting(breaker: Breaker, *, muted: bool, by: str) -> AuditRow:
    verb = "breaker.mute" if muted else "breaker.unmute"
    data = {"scope": breaker.address, "signature": breaker.signature}
    return AuditRow(by, verb, "breaker", str(breaker.pk), data, breaker.project_id)
