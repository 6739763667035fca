"""The records of executors, leases, and the usage of queues."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions_app.models import Project, Queue, Session
from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH


class Executor(models.Model):
    """A process beside one cluster. A renewal updates this one row, not each lease."""

    name = models.CharField(max_length=NAME_LENGTH, unique=True)
    projects = models.ManyToManyField(Project, blank=True)
    """The only projects that it serves; empty for all."""
    incarnation = models.BigIntegerField(default=0)
    round = models.BigIntegerField(default=0, db_default=0)
    """Number of the newest lease call of this incarnation."""
    state_id = models.CharField(max_length=64, blank=True, db_default="")
    """Id of its agent's state directory; "" if the agent did not report one."""
    fenced_at = models.DateTimeField(null=True)
    """Until when runs of the replaced agent may go on; the new agent does not know them."""
    driver = models.CharField(max_length=32, blank=True)
    nodes = models.JSONField(default=list)
    max_sessions = models.PositiveIntegerField(default=0)
    trouble = models.TextField(blank=True, default="", db_default="")
    """Why it cannot start anything now, in its own words; "" if nothing is wrong."""
    project_troubles = models.JSONField(default=dict, db_default={})
    """Why it cannot start sessions of some projects: by project id, the project's address as
    `project` and the `trouble`. Only projects with sessions that wait or start."""
    last_seen_at = models.DateTimeField(null=True)
    warned_at = models.DateTimeField(null=True)
    """When its silence was reported; empty once it is heard again."""
    cordoned = models.BooleanField(default=False)
    cordon_reason = models.CharField(max_length=256, blank=True, default="", db_default="")
    draining_since = models.DateTimeField(null=True)
    """Since when its runs are asked to stop, until it is uncordoned; a sweep finishes the work."""
    drained_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    drain_force = models.BooleanField(default=False, db_default=False)
    """Whether sessions of types that are never retried stop, too."""
    unconfirmed_after = models.FloatField(null=True, blank=True)
    """Seconds; empty: the setting; 0 or less: never."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(name__regex=LABEL_PATTERN), name="executor_name_label"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Lease(models.Model):
    """The right of one executor to run one session. It counts while its token is the session's."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="lease")
    executor = models.ForeignKey(Executor, models.PROTECT, related_name="leases")
    fencing_token = models.BigIntegerField(unique=True)
    granted_at = models.DateTimeField()
    accepted = models.BooleanField(default=False)
    lost_at = models.DateTimeField(null=True)
    """When the executor had been silent for too long."""
    run_deadline = models.DateTimeField(null=True)
    """When even a run without an executor must have ended: acceptance + batch timeout + grace."""

    verify_at = models.DateTimeField(null=True)
    """When to check whether the pod has started; empty: no check is due."""
    pod = models.JSONField(null=True)
    """The pod as the executor last reported it, until it runs."""
    pod_created_at = models.DateTimeField(null=True)
    initializing_since = models.DateTimeField(null=True)
    initializing_checks = models.SmallIntegerField(default=0, db_default=0)
    unknown_checks = models.SmallIntegerField(default=0, db_default=0)
    suspected = models.BooleanField(default=False, db_default=False)
    """Whether a check saw a problem that fails the start if the next check sees it, too."""

    class Meta:
        indexes = [
            models.Index("granted_at", condition=Q(accepted=False), name="lease_unaccepted"),
            models.Index("verify_at", condition=Q(verify_at__isnull=False), name="lease_verify"),
        ]

    def __str__(self) -> str:
        return str(self.session_id)


class QueueUsage(models.Model):
    """The amounts that a queue holds, and its decayed priority; costs are shares of the pool."""

    queue = models.OneToOneField(Queue, models.CASCADE, primary_key=True, related_name="usage")
    used = models.JSONField(default=dict)
    """Amounts by resource, as text; "sessions" is one of them."""
    cost = models.FloatField()
    current_priority = models.FloatField()
    computed_at = models.DateTimeField()

    class Meta:
        verbose_name = "usage of a queue"
        verbose_name_plural = "usage of queues"

    def __str__(self) -> str:
        return f"{self.queue_id}: {self.current_priority:.4f}"


class Pool(models.Model):
    """The total of all executors when it was last added up. One row."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    amounts = models.JSONField(default=dict)
    """Amounts by resource, as text; "sessions" is one of them."""
    computed_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="pool_is_one")]

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in sorted(self.amounts.items()))
