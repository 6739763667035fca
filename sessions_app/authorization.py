"""The permissions: one table that every door goes through.

What one may not see does not exist (`NotFound`); what one may see but not do is `NotPermitted`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from sessions_app.core.errors import NotFound, NotPermitted
from sessions_app.models import Domain, Membership, Project
from sessions_app.models.tenants import Role

EXECUTORS_ONLY = "an executor's token is good for the executors' calls only"
RANK = {Role.VIEWER: 1, Role.MEMBER: 2, Role.MAINTAINER: 3, Role.DOMAIN_ADMIN: 4}


class Scope(StrEnum):
    """The kind of thing that an action is about."""

    SELF = "self"
    PROJECT = "project"
    DOMAIN = "domain"
    CLUSTER = "cluster"
    ANYWHERE = "anywhere"
    """A project, a domain or the cluster: whichever the thing belongs to."""
    EXECUTOR = "executor"


class Action(StrEnum):
    """Everything that somebody can ask for."""

    WHOAMI = "whoami"
    DOCUMENTATION = "documentation"
    OVERVIEW_READ = "overview.read"
    OPERATIONS_READ = "operations.read"
    SESSION_LIST = "session.list"
    SESSION_READ = "session.read"
    SESSION_VALUES = "session.values"
    SESSION_CREATE = "session.create"
    SESSION_UPDATE = "session.update"
    SESSION_CANCEL = "session.cancel"
    SESSION_PREEMPT = "session.preempt"
    SESSION_RETRY = "session.retry"
    SESSION_GIVE_UP = "session.give_up"
    JOB_SET_LIST = "job_set.list"
    JOB_SET_READ = "job_set.read"
    FAILURE_LIST = "failure.list"
    FAILURE_READ = "failure.read"
    FAILURE_WRITE = "failure.write"
    REPORT_READ = "report.read"
    BREAKER_LIST = "breaker.list"
    BREAKER_READ = "breaker.read"
    BREAKER_WRITE = "breaker.write"
    BUDGET_LIST = "retry_budget.list"
    PROJECT_DEFAULTS_READ = "retry_defaults.project.read"
    PROJECT_DEFAULTS_WRITE = "retry_defaults.project.write"
    DOMAIN_DEFAULTS_READ = "retry_defaults.domain.read"
    DOMAIN_DEFAULTS_WRITE = "retry_defaults.domain.write"
    CLUSTER_DEFAULTS_READ = "retry_defaults.cluster.read"
    CLUSTER_DEFAULTS_WRITE = "retry_defaults.cluster.write"
    POLICY_READ = "retry_policy.read"
    POLICY_WRITE = "retry_policy.write"
    POLICY_SIMULATE = "retry_policy.simulate"
    CATEGORY_READ = "failure_category.read"
    CATEGORY_WRITE = "failure_category.write"
    PRIORITY_CLASS_READ = "priority_class.read"
    PRIORITY_CLASS_WRITE = "priority_class.write"
    PREEMPTION_LIST = "preemption.list"
    DOMAIN_LIST = "domain.list"
    DOMAIN_READ = "domain.read"
    DOMAIN_WRITE = "domain.write"
    PROJECT_LIST = "project.list"
    PROJECT_READ = "project.read"
    PROJECT_CREATE = "project.create"
    PROJECT_DELETE = "project.delete"
    MEMBERSHIP_LIST = "membership.list"
    MEMBERSHIP_READ = "membership.read"
    MEMBERSHIP_WRITE = "membership.write"
    TOKEN_LIST = "token.list"
    TOKEN_READ = "token.read"
    TOKEN_CREATE = "token.create"
    TOKEN_REVOKE = "token.revoke"
    QUEUE_LIST = "queue.list"
    QUEUE_READ = "queue.read"
    QUEUE_WRITE = "queue.write"
    PROJECT_QUOTA_READ = "quota.project.read"
    PROJECT_QUOTA_WRITE = "quota.project.write"
    DOMAIN_QUOTA_READ = "quota.domain.read"
    DOMAIN_QUOTA_WRITE = "quota.domain.write"
    SCHEDULE_LIST = "schedule.list"
    SCHEDULE_READ = "schedule.read"
    SCHEDULE_PREVIEW = "schedule.preview"
    SCHEDULE_CREATE = "schedule.create"
    SCHEDULE_WRITE = "schedule.write"
    WEBHOOK_LIST = "webhook.list"
    WEBHOOK_READ = "webhook.read"
    WEBHOOK_WRITE = "webhook.write"
    EXECUTOR_READ = "executor.read"
    EXECUTOR_WRITE = "executor.write"
    EXECUTOR_WIRE = "executor.wire"
    NODE_LIST = "node.list"
    NODE_READ = "node.read"
    NODE_WRITE = "node.write"
    AUDIT_READ = "audit.read"
    ADMIN_USE = "admin.use"


@dataclass(frozen=True, slots=True)
class Rule:
    """The least role for an action; `own` is the least role where the thing is the actor's own."""

    scope: Scope
    role: Role | None = None
    """None: anybody with a valid token, or for the cluster and executors what the scope says."""
    own: Role | None = None
    write: bool = True


RULES = {
    Action.WHOAMI: Rule(Scope.SELF, write=False),
    # The OpenAPI document and its pages; people who are signed in may look, too.
    Action.DOCUMENTATION: Rule(Scope.SELF, write=False),
    # Of the projects that the actor may see; a cluster admin is shown the executors, too.
    Action.OVERVIEW_READ: Rule(Scope.SELF, write=False),
    # It names executors, workers, and queues of all tenants.
    Action.OPERATIONS_READ: Rule(Scope.CLUSTER, write=False),
    Action.SESSION_LIST: Rule(Scope.SELF, write=False),
    Action.SESSION_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    # What its variables are set to; whoever may read a session sees their names.
    Action.SESSION_VALUES: Rule(Scope.PROJECT, Role.MEMBER, write=False),
    Action.SESSION_CREATE: Rule(Scope.PROJECT, Role.MEMBER),
    Action.SESSION_UPDATE: Rule(Scope.PROJECT, Role.MAINTAINER, own=Role.MEMBER),
    Action.SESSION_CANCEL: Rule(Scope.PROJECT, Role.MAINTAINER, own=Role.MEMBER),
    # Also not one's own: it is the platform that makes room.
    Action.SESSION_PREEMPT: Rule(Scope.PROJECT, Role.MAINTAINER),
    Action.SESSION_RETRY: Rule(Scope.PROJECT, Role.MAINTAINER, own=Role.MEMBER),
    Action.SESSION_GIVE_UP: Rule(Scope.PROJECT, Role.MAINTAINER, own=Role.MEMBER),
    Action.JOB_SET_LIST: Rule(Scope.SELF, write=False),
    Action.JOB_SET_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    Action.FAILURE_LIST: Rule(Scope.SELF, write=False),
    Action.FAILURE_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    Action.FAILURE_WRITE: Rule(Scope.PROJECT, Role.MAINTAINER),
    Action.REPORT_READ: Rule(Scope.SELF, write=False),
    # Those of the projects that they see, and the cluster's, which may hold their retries.
    Action.BREAKER_LIST: Rule(Scope.SELF, write=False),
    Action.BREAKER_READ: Rule(Scope.SELF, write=False),
    Action.BREAKER_WRITE: Rule(Scope.ANYWHERE),
    Action.BUDGET_LIST: Rule(Scope.SELF, write=False),
    Action.PROJECT_DEFAULTS_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    Action.PROJECT_DEFAULTS_WRITE: Rule(Scope.PROJECT, Role.MAINTAINER),
    Action.DOMAIN_DEFAULTS_READ: Rule(Scope.DOMAIN, Role.VIEWER, write=False),
    Action.DOMAIN_DEFAULTS_WRITE: Rule(Scope.DOMAIN, Role.DOMAIN_ADMIN),
    Action.CLUSTER_DEFAULTS_READ: Rule(Scope.SELF, write=False),
    Action.CLUSTER_DEFAULTS_WRITE: Rule(Scope.CLUSTER),
    Action.POLICY_READ: Rule(Scope.SELF, write=False),
    Action.POLICY_WRITE: Rule(Scope.ANYWHERE),
    # Whoever asks for the past of a project has to be allowed to read its sessions, too.
    Action.POLICY_SIMULATE: Rule(Scope.SELF, write=False),
    Action.CATEGORY_READ: Rule(Scope.SELF, write=False),
    Action.CATEGORY_WRITE: Rule(Scope.CLUSTER),
    Action.PRIORITY_CLASS_READ: Rule(Scope.SELF, write=False),
    Action.PRIORITY_CLASS_WRITE: Rule(Scope.CLUSTER),
    # Those of the projects that the actor may see.
    Action.PREEMPTION_LIST: Rule(Scope.SELF, write=False),
    Action.DOMAIN_LIST: Rule(Scope.SELF, write=False),
    Action.DOMAIN_READ: Rule(Scope.DOMAIN, Role.VIEWER, write=False),
    Action.DOMAIN_WRITE: Rule(Scope.CLUSTER),
    Action.PROJECT_LIST: Rule(Scope.SELF, write=False),
    Action.PROJECT_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    Action.PROJECT_CREATE: Rule(Scope.DOMAIN, Role.DOMAIN_ADMIN),
    Action.PROJECT_DELETE: Rule(Scope.PROJECT, Role.DOMAIN_ADMIN),
    # Who sees a project or a domain sees who works there.
    Action.MEMBERSHIP_LIST: Rule(Scope.SELF, write=False),
    Action.MEMBERSHIP_READ: Rule(Scope.ANYWHERE, Role.VIEWER, write=False),
    Action.MEMBERSHIP_WRITE: Rule(Scope.ANYWHERE, Role.DOMAIN_ADMIN),
    # Everybody's own, within what their present token is good for; a cluster admin's: all.
    Action.TOKEN_LIST: Rule(Scope.SELF, write=False),
    Action.TOKEN_READ: Rule(Scope.SELF, write=False),
    Action.TOKEN_CREATE: Rule(Scope.SELF),
    Action.TOKEN_REVOKE: Rule(Scope.SELF),
    Action.QUEUE_LIST: Rule(Scope.SELF, write=False),
    Action.QUEUE_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    Action.QUEUE_WRITE: Rule(Scope.PROJECT, Role.MAINTAINER),
    Action.PROJECT_QUOTA_READ: Rule(Scope.PROJECT, Role.VIEWER, write=False),
    # Nobody gives themselves more: whoever is above the scope does.
    Action.PROJECT_QUOTA_WRITE: Rule(Scope.PROJECT, Role.DOMAIN_ADMIN),
    Action.DOMAIN_QUOTA_READ: Rule(Scope.DOMAIN, Role.VIEWER, write=False),
    Action.DOMAIN_QUOTA_WRITE: Rule(Scope.CLUSTER),
    Action.SCHEDULE_LIST: Rule(Scope.SELF, write=False),
    # Of times alone.
    Action.SCHEDULE_PREVIEW: Rule(Scope.SELF, write=False),
    # Its template has the values of variables, as for sessions.
    Action.SCHEDULE_READ: Rule(Scope.PROJECT, Role.MEMBER, write=False),
    Action.SCHEDULE_CREATE: Rule(Scope.PROJECT, Role.MEMBER),
    Action.SCHEDULE_WRITE: Rule(Scope.PROJECT, Role.MAINTAINER, own=Role.MEMBER),
    Action.WEBHOOK_LIST: Rule(Scope.SELF, write=False),
    # A URL may be a secret itself, and what is sent there is all that happens in the project.
    Action.WEBHOOK_READ: Rule(Scope.PROJECT, Role.MAINTAINER, write=False),
    Action.WEBHOOK_WRITE: Rule(Scope.PROJECT, Role.MAINTAINER),
    # Executors serve many projects: none of them is a tenant's.
    Action.EXECUTOR_READ: Rule(Scope.CLUSTER, write=False),
    Action.EXECUTOR_WRITE: Rule(Scope.CLUSTER),
    Action.EXECUTOR_WIRE: Rule(Scope.EXECUTOR),
    # Of the executors that serve a project that the actor sees, and without the figures; a cluster
    # admin is shown all.
    Action.NODE_LIST: Rule(Scope.SELF, write=False),
    Action.NODE_READ: Rule(Scope.SELF, write=False),
    Action.NODE_WRITE: Rule(Scope.CLUSTER),
    # Whoever configures a scope sees who else does. Members see who did what to their sessions in
    # the events of these.
    Action.AUDIT_READ: Rule(Scope.ANYWHERE, write=False),
    Action.ADMIN_USE: Rule(Scope.CLUSTER),
}

_ANYWHERE = {
    Scope.PROJECT: Rule(Scope.PROJECT, Role.MAINTAINER),
    Scope.DOMAIN: Rule(Scope.DOMAIN, Role.DOMAIN_ADMIN),
    Scope.CLUSTER: Rule(Scope.CLUSTER),
}
"""Who configures what belongs to which scope, where the rule names no role of its own."""


class Held(NamedTuple):
    """A role in one project, whose domain is `within`, or in every project of a domain."""

    role: str
    project_id: int | None
    domain_id: int | None
    within: int | None


class Actor:
    """A user or an executor, narrowed by the token that they came with.

    Who has just read the `memberships` of the user gives them along.
    """

    def __init__(
        self,
        *,
        user: User | None,
        executor_name: str = "",
        only_project_id: int | None = None,
        read_only: bool = False,
        token_name: str = "",
        token_prefix: str = "",
        memberships: Sequence[Held] | None = None,
    ):
        if memberships is not None:
            self._memberships = memberships
        self.user = user
        self.executor_name = executor_name
        self.only_project_id = only_project_id
        self.read_only = read_only
        self.token_name = token_name
        self.token_prefix = token_prefix
        self.is_authenticated = True

    @property
    def name(self) -> str:
        """For audit entries and messages."""
        return self.user.username if self.user else f"executor:{self.executor_name}"

    @property
    def is_superuser(self) -> bool:
        """A superuser, whose token may be narrowed to one project."""
        return bool(self.user and self.user.is_superuser)

    @property
    def is_cluster_admin(self) -> bool:
        """A superuser whose token is not narrowed to one project."""
        return bool(self.user and self.user.is_superuser and self.only_project_id is None)

    @cached_property
    def _memberships(self) -> Sequence[Held]:
        if self.user is None:
            return []
        held = Membership.objects.filter(user=self.user)
        columns = ("role", "project_id", "domain_id", "project__domain_id")
        return [Held(*row) for row in held.values_list(*columns)]

    def places_with_role(self) -> tuple[list[int], list[int]]:
        """The projects, and the domains with all their projects, in which the user has a role."""
        projects = [m.project_id for m in self._memberships if m.project_id is not None]
        return projects, [m.domain_id for m in self._memberships if m.domain_id is not None]

    def sees_all(self, domain_id: int | None) -> bool:
        """Return whether this actor may see every project of a domain; None: of the cluster."""
        if self.is_cluster_admin:
            return True
        return self.only_project_id is None and domain_id in self.places_with_role()[1]

    def rank_in_project(self, project: Project) -> int:
        """Return the rank of this actor in a project; 0 if they may not even see it."""
        if self.user is None or self.only_project_id not in {None, project.pk}:
            return 0
        if self.user.is_superuser:
            return max(RANK.values())
        return max(
            (
                RANK[Role(m.role)]
                for m in self._memberships
                if m.project_id == project.pk or m.domain_id == project.domain_id
            ),
            default=0,
        )

    def rank_in_domain(self, domain: Domain) -> int:
        """Return the rank of this actor in a domain itself; members of its projects may look."""
        if self.is_cluster_admin:
            return max(RANK.values())
        if self.user is None or self.only_project_id is not None:
            return 0
        ranks = [RANK[Role(m.role)] for m in self._memberships if m.domain_id == domain.pk]
        seen = any(m.within == domain.pk for m in self._memberships)
        return max([*ranks, RANK[Role.VIEWER] if seen else 0])

    def projects(self, *, least: Role = Role.VIEWER) -> QuerySet[Project]:
        """The projects that this actor may see, or in which they have at least a role."""
        if self.user is None:
            return Project.objects.none()
        visible = Project.objects.all()
        if self.only_project_id is not None:
            visible = visible.filter(pk=self.only_project_id)
        if self.user.is_superuser:
            return visible
        held = [m for m in self._memberships if RANK[Role(m.role)] >= RANK[least]]
        return visible.filter(
            Q(pk__in=[m.project_id for m in held]) | Q(domain__in=[m.domain_id for m in held])
        )


def authorize(
    actor: Actor,
    action: Action,
    *,
    project: Project | None = None,
    domain: Domain | None = None,
    executor_name: str = "",
    owner_id: int | None = None,
) -> None:
    """Let `actor` pass, or raise `NotFound` or `NotPermitted`.

    What the rule's scope needs must be given: the project, the domain or the executor. Where it
    is `ANYWHERE`, none of them stands for the cluster.
    """
    rule = RULES[action]
    if rule.scope is Scope.ANYWHERE:
        level = Scope.DOMAIN if domain else Scope.CLUSTER
        level = Scope.PROJECT if project else level
        usual = _ANYWHERE[level] if rule.role is None else replace(rule, scope=level)
        rule = replace(usual, write=rule.write)
    if rule.scope is Scope.EXECUTOR:
        _require_executor(actor, executor_name)
        return
    user = require_user(actor)
    rank = _rank(actor, rule, project, domain)
    if rank == 0:
        raise NotFound(f"no such {rule.scope}")
    if rule.write and actor.read_only:
        raise NotPermitted("this token may only read")
    own = rule.own is not None and owner_id is not None and owner_id == user.pk
    least = rule.own if own else rule.role
    if least is not None and rank < RANK[least]:
        raise NotPermitted(f"this needs the role {least.value} or more in the {rule.scope}")


def permitted(
    actor: Actor, action: Action, *, project: Project, owner_id: int | None = None
) -> bool:
    """Return whether `actor` may do something in a project, perhaps to what belongs to somebody."""
    try:
        authorize(actor, action, project=project, owner_id=owner_id)
    except (NotFound, NotPermitted):
        return False
    return True


def require_user(actor: Actor) -> User:
    """The person who asks; raises `NotPermitted` for an executor."""
    if actor.user is None:
        raise NotPermitted(EXECUTORS_ONLY)
    return actor.user


def _require_executor(actor: Actor, name: str) -> None:
    if not actor.executor_name:
        raise NotPermitted("only the executor's own token may make this call")
    if actor.executor_name != name:
        raise NotFound(f"no executor {name}")


def _rank(actor: Actor, rule: Rule, project: Project | None, domain: Domain | None) -> int:
    if rule.scope is Scope.PROJECT and project is not None:
        return actor.rank_in_project(project)
    if rule.scope is Scope.DOMAIN and domain is not None:
        return actor.rank_in_domain(domain)
    if rule.scope is Scope.CLUSTER and not actor.is_cluster_admin:
        raise NotPermitted("only a cluster admin may do this")
    if rule.scope in {Scope.PROJECT, Scope.DOMAIN}:
        raise AssertionError(f"{rule} was asked without its {rule.scope}")
    return max(RANK.values())
