"""Records for tests, made the way the product makes them; every argument has a default."""

from functools import cache
from itertools import count
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from base.podspec.quantity import parse
from interfaces.requests.bodies import SessionCreate
from retry.evidence.termination import Termination
from retry.policies.documents import PolicyDocument
from retry.policies.shared_budget import SharedBudget
from scheduler.locks import next_fencing_tokens
from scheduler.models import Executor, Preemption
from sessions_app.core.errors import NotFound
from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.core.states import EVENT_TYPES, Status
from sessions_app.db.writes import atomic_writes
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.locks import database_now, lock_sessions
from sessions_app.models import (
    Breaker,
    Domain,
    FailureHour,
    FailureSignature,
    Membership,
    Project,
    Queue,
    RetryBudgetState,
    RetryDay,
    RetryDecision,
    RetryPolicy,
    RetrySettings,
    Schedule,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.services.access.tokens import token_create
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.resources.policies import policy_apply
from sessions_app.services.resources.queues import queue_save
from sessions_app.services.resources.quotas import quotas_put
from sessions_app.services.schedules.saving import schedule_create
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import session_submit
from sessions_app.services.write.transitions import Change, Event, sessions_change

PASSWORD = "correct horse"
_numbers = count(1)


@cache
def _password() -> str:
    # Hashed once: a good hash is slow on purpose.
    return make_password(PASSWORD)


def domain(name: str = "") -> Domain:
    """A domain without projects."""
    return Domain.objects.create(name=name or f"domain-{next(_numbers)}")


def project(name: str = "", *, domain: str = "acme") -> Project:
    """A project with its default queue."""
    owner, _ = Domain.objects.get_or_create(name=domain)
    made = Project.objects.create(domain=owner, name=name or f"project-{next(_numbers)}")
    queue(made, "default", is_default=True)
    return made


def queue(project: Project, name: str = "", **fields: Any) -> Queue:
    """A queue of a project."""
    return Queue.objects.create(project=project, name=name or f"queue-{next(_numbers)}", **fields)


def user(
    name: str = "",
    *,
    project: Project | None = None,
    domain: Domain | None = None,
    role: Role = Role.MEMBER,
    superuser: bool = False,
) -> User:
    """Somebody who can sign in with `PASSWORD`, a member of `project` or `domain` if given."""
    made = User.objects.create(
        username=name or f"user-{next(_numbers)}",
        password=_password(),
        is_superuser=superuser,
        is_staff=superuser,
    )
    if project is not None or domain is not None:
        Membership.objects.create(user=made, project=project, domain=domain, role=role)
    return made


def token(user: User | None = None, **fields: Any) -> str:
    """The secret of a new token; `fields` as `token_create` takes them."""
    return token_create(name="test", user=user, **fields)


def executor(name: str = "", *, projects: tuple[Project, ...] = ()) -> Executor:
    """A registered executor that has never called."""
    made = Executor.objects.create(name=name or f"executor-{next(_numbers)}")
    made.projects.set(projects)
    return made


def policy(**fields: Any) -> dict[str, Any]:
    """An inline policy that retries three times, at once.

    A millisecond would be too long: whoever dispatches next may be faster.
    """
    return {"max_retries": 3, "retry_delay": 1e-6, "jitter": "none", **fields}


def named_policy(
    name: str = "", *, project: Project | None = None, domain: Domain | None = None, **spec: Any
) -> RetryPolicy:
    """A named policy of a project, a domain or else the cluster; `spec` as in the document."""
    document = {
        "apiVersion": "reprise/v1",
        "kind": "RetryPolicy",
        "metadata": {"name": name or f"policy-{next(_numbers)}"},
        "spec": spec,
    }
    scope = ConfigScope(domain, project)
    return policy_apply(PolicyDocument.model_validate(document), scope, by="root").policy


def quotas(scope: Project | Domain, **limits: Any) -> None:
    """Limits of a project or domain: `sessions`, `pending_sessions`, or a resource's amount."""
    at = ConfigScope(scope) if isinstance(scope, Domain) else ConfigScope(project=scope)
    named = {
        name if name in {SESSIONS, PENDING} else f"{RESOURCES}{name}": parse(limit)
        for name, limit in limits.items()
    }
    quotas_put(at, named, by="root", keep=True)


def submit(project: Project, *, owner: User | None = None, **fields: Any) -> Session:
    """The root of a new chain; `fields` are those of the creation request.

    Raises `NotFound` as the doors do if the queue is gone.
    """
    asked = SessionCreate.model_validate({"command": ["true"], **fields})
    wanted = {"name": asked.queue} if asked.queue else {"is_default": True}
    chosen = Queue.objects.filter(project=project, **wanted).first()
    if chosen is None:
        raise NotFound(f"no queue {asked.queue}")
    whose = (owner or user(project=project)).pk
    made = session_submit(Placed(chosen, whose, asked.submission()))
    return Session.objects.get(pk=made.session_id)


def schedule(project: Project, owner: User, **fields: Any) -> Schedule:
    """A schedule of every minute; `fields` are its columns."""
    values: dict[str, Any] = {"every": 60, "template": {"command": ["true"]}, **fields}
    made = Schedule(project=project, **{"name": f"schedule-{next(_numbers)}", **values})
    schedule_create(made, by=owner)
    return made


def start(session: Session, executor: str = "") -> Session:
    """Let a session run on `node-1` under a token, without a lease; `executor` is only a name."""
    (token,), _ = next_fencing_tokens(1)
    for status, time_field in ((Status.SCHEDULED, "scheduled_at"), (Status.RUNNING, "started_at")):
        with atomic_writes() as writes:
            (locked,) = lock_sessions([session.pk])
            now = database_now()
            values = {"status": status, time_field: now, "node": "node-1", "fencing_token": token}
            values |= {"executor": executor} if executor else {}
            event = Event(EVENT_TYPES[status], {"fencing_token": token})
            sessions_change(writes, [Change(locked, values, [event])], now=now)
    session.refresh_from_db()
    return session


def settle(session: Session, **facts: Any) -> Session:
    """End a session with these facts of its termination (by default exit code 1)."""
    sessions_settle({session.pk: End(Termination(**({"exit_code": 1} | facts)))})
    session.refresh_from_db()
    return session


def room_made(executor: Executor, victim: Session, taker: Session, **fields: Any) -> Preemption:
    """A record that one session made room for another; `fields` are its columns."""
    now = database_now()
    sides = {
        f"{side}_{name}": value
        for side, each in (("victim", victim), ("taker", taker))
        for name, value in (("id", each.pk), ("project_id", each.project_id), ("rank", 0))
    }
    values = {"planned_at": now, "until": now, "rule": "priority", "nodes": ["n1"], **sides}
    values["executor_name"] = executor.name
    return Preemption.objects.create(executor=executor, **{"dry_run": False, **values, **fields})


def retry(session: Session, *, by: str, **asked: Any) -> Session:
    """The next attempt of an ended session, by hand; `asked` as `session_retry` takes it."""
    session_retry(session.pk, session.root_id, by=by, **asked)
    return Session.objects.get(parent=session)


def failure(
    session: Session, *, key: str = "", image: str = "busybox:1", **fields: Any
) -> FailureSignature:
    """A failure as counted by its signature: one attempt of one chain."""
    now = database_now()
    key = key or session.failure_signature
    hour = now.replace(minute=0, second=0, microsecond=0)
    common = {"project_id": session.project_id, "key": key, "sessions": 1, "chains": 1}
    values = {"": "", "queue": session.queue.name, "node": session.node, "image": image}
    for dimension, value in values.items():
        FailureHour.objects.create(dimension=dimension, value=value, hour=hour, **common)
    about = {"cause": session.retry_cause, "title": session.failure_title, **fields}
    return FailureSignature.objects.create(
        first_seen=now, last_seen=now, example=session.pk, **common, **about
    )


def breaker(project: Project, *, signature: str = "0123456789ab", reason: str = "") -> Breaker:
    """An open breaker of a project."""
    scope = f"project:{project.pk}"
    return Breaker.objects.create(
        project=project,
        scope=scope,
        signature=signature,
        state="open",
        reason=reason,
        opened_by=reason,
    )


def parked(project: Project, **fields: Any) -> Session:
    """A chain whose only attempt failed and is parked."""
    if not RetryPolicy.objects.filter(name="once", project=project).exists():
        rule = {"name": "never", "action": "Retry", "onCauses": ["kernel_nonzero_exit"]}
        named_policy("once", project=project, rules=[{**rule, "retryLimit": 0}])
    asked = policy(max_retries=0, on_exhausted="park")
    return settle(start(submit(project, retry_policy=asked, retry_policies=["once"], **fields)))


def spent_budget(scope: Project | Queue | None) -> RetryBudgetState:
    """A shared budget of a project, a queue or the cluster, which has been spent since now."""
    budget = SharedBudget(burst=0).stored()
    if isinstance(scope, Queue):
        Queue.objects.filter(pk=scope.pk).update(retry_budget=budget)
        key = f"queue:{scope.pk}"
    else:
        RetrySettings.objects.update_or_create(
            domain=None, project=scope, defaults={"retry_budget": budget}
        )
        key = f"project:{scope.pk}" if scope else "cluster"
    now = database_now()
    return RetryBudgetState.objects.create(scope=key, spent_since=now, judged_at=now)


def retry_day(project: Project, *, value: str) -> None:
    """A chain that failed today, as counted for reports: of all, and of a cause of this name."""
    sums = ("chains", "given_up", "attempts", "run", "wasted")
    none = ("retried", "recovered", "cancelled", "rescued", "waiting")
    figures: dict[str, Any] = dict.fromkeys(sums, 1) | dict.fromkeys(none, 0) | {"recoveries": []}
    for dimension, each in (("", ""), ("cause", value)):
        RetryDay.objects.create(
            project=project, dimension=dimension, value=each, day=database_now().date(), **figures
        )


def reread(session: Session) -> Session:
    """The session as it is now, anew."""
    return Session.objects.get(pk=session.pk)


def tip(session: Session) -> Session:
    """The newest attempt of a session's chain."""
    return Session.objects.get(root=session.root_id, tip=True)


def decision(session: Session) -> RetryDecision:
    """Return the decision about the failure of a session."""
    return RetryDecision.objects.get(session=session)


def default_queue(project: Project) -> Queue:
    """The default queue of a project, with the names around it."""
    return Queue.objects.select_related("project__domain").get(project=project, is_default=True)


def attach(queue: Queue, *names: str) -> None:
    """Let a queue name these policies."""
    queue.retry_policies = list(names)
    queue_save(queue, by="ann", fields=["retry_policies"])


def body(**fields: Any) -> dict[str, Any]:
    """Return the body with which a call submits to `acme/work`."""
    return {"project": "acme/work", "command": ["true"], **fields}
