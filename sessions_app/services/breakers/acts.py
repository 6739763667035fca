"""What people decide about breakers: they open, close and mute them."""

from uuid import UUID

from retry.breakers import BreakerRule, scope_key
from sessions_app.core.errors import Conflict, NotFound
from sessions_app.db.steps import atomic_step
from sessions_app.locks import database_now, lock_breakers
from sessions_app.models import Breaker, Project, Queue
from sessions_app.models.breakers import BreakerState
from sessions_app.services.breakers.turns import breakers_turn, closed, opened
from sessions_app.services.write.audit import AuditRow, audit_append
from sessions_app.wakeups import sweep_after_commit


def breaker_open(
    project: Project | None, queue: Queue | None, signature: str, *, reason: str, by: str
) -> Breaker:
    """Open the breaker of a signature in the cluster, a project or a queue.

    It probes, and closes by a probe, like any other. It is not muted any more. Raises `Conflict` if
    it is open.
    """
    scope = scope_key(project.pk if project else None, queue.pk if queue else None)
    with atomic_step("breakers"):
        lock_breakers()
        now = database_now()
        breaker = Breaker.objects.filter(scope=scope, signature=signature).first()
        if breaker is None:
            breaker = Breaker(scope=scope, project=project, queue=queue, signature=signature)
        elif breaker.state == BreakerState.OPEN:
            raise Conflict(f"the breaker of {signature} is open already")
        stored = queue.breaker if queue is not None else None
        delay = BreakerRule.model_validate(stored or {}).probe_after
        breaker.projects = [project.pk] if project else breaker.projects
        breakers_turn([opened(breaker, now, delay=delay, reason=reason, by=by)], now=now)
        data = {"scope": breaker.address, "signature": signature, "reason": reason}
        project_id = project.pk if project else None
        row = AuditRow(by, "breaker.open", "breaker", str(breaker.pk), data, project_id)
        audit_append([row], now=now)
    return breaker


def breaker_close(breaker_id: UUID, *, reason: str, mute: bool, by: str) -> Breaker:
    """Close a breaker: what it held goes on at the pace of the storm limits.

    With `mute` it does not open by itself any more; muting a closed one is allowed. What is so
    already does not change. Raises `NotFound`.
    """
    with atomic_step("breakers"):
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
            breakers_turn(closed=[closed(breaker, now, reason=reason, by=by)], now=now)
        else:
            breaker.save(update_fields=["muted"])
        verb = "breaker.close" if was_open else "breaker.mute"
        data = {"scope": breaker.address, "signature": breaker.signature, "reason": reason}
        data |= {"muted": "yes"} if mute else {}
        audit_append(
            [AuditRow(by, verb, "breaker", str(breaker.pk), data, breaker.project_id)], now=now
        )
        sweep_after_commit()
    return breaker
