"""The records of executors, leases, and the usage of queues."""

from collections.abc import Mapping

from django.db import models
from django.db.models import Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.utils import timezone

from retry.signatures.signature import KEY_LENGTH
from sessions_app.models import Project, Queue, Session
from sessions_app.models.tenants import LABEL_PATTERN, NAME_LENGTH
from sessions_app.models.webhooks import Position

NODE_LENGTH = 253
CAUSE_LENGTH = 32
ACTOR_LENGTH = 150
MAX_REASON = 256


class Placement(models.TextChoices):
    """Who chooses the node of a pod."""

    NODE = "node", "the server: each pod is bound to the node that was planned"
    CLUSTER = "cluster", "the cluster's own scheduler alone"


class Avoids(models.TextChoices):
    """Who avoids the suspect nodes of an executor."""

    OFF = "off", "nobody: no node is suspected"
    RETRIES = "retries", "retries"
    ALL = "all", "retries and first attempts"


class Preempts(models.TextChoices):
    """Whether running sessions have to make room for others."""

    OFF = "off", "no"
    DRY_RUN = "dry_run", "no, but it is recorded which would"
    ON = "on", "yes"


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
    nodes_digest = models.CharField(max_length=32, blank=True, default="", db_default="")
    """Determines what its nodes are when empty, and its node templates; "" before its first
    call."""
    node_templates = models.JSONField(default=list, db_default=[])
    """The nodes that its cluster can add, as its agent declared them:
    `podspec/node_templates.py`."""
    pod_placing = models.JSONField(default=dict, db_default={})
    """What pods get here where sessions say nothing, as far as it decides on nodes: the fields of
    `podspec/pod_defaults.py` that do."""
    extended_tolerations = models.BooleanField(default=False, db_default=False)
    """Whether its cluster adds tolerations for the extended resources that pods ask for."""
    max_sessions = models.PositiveIntegerField(default=0)
    trouble = models.TextField(blank=True, default="", db_default="")
    """Why it cannot start anything now, in its own words; "" if nothing is wrong."""
    project_troubles = models.JSONField(default=dict, db_default={})
    """Why it cannot start sessions of some projects: by project id, the project's address as
    `project` and the `trouble`. Only projects with sessions that wait or start."""
    warnings = models.JSONField(default=list, db_default=[])
    """What it does not do as its administrator asked, as texts."""
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
    placement = models.CharField(
        max_length=8, choices=Placement, default=Placement.NODE, db_default=Placement.NODE
    )
    """Whether leases name the nodes that the round planned, or its cluster chooses them alone."""
    avoid_suspects = models.CharField(
        max_length=8, choices=Avoids, default=Avoids.OFF, db_default=Avoids.OFF
    )
    """Who avoids its suspect nodes; `off`: none of its nodes is suspected."""
    auto_quarantine = models.BooleanField(default=False, db_default=False)
    """Whether its suspect nodes get no leases at all."""
    refusals = models.JSONField(default=dict, db_default={})
    """Resources that its cluster said nodes lack, by node, since they were last reported."""
    preemption = models.CharField(
        max_length=8, choices=Preempts, blank=True, default="", db_default=""
    )
    """Whether sessions make room for others here; "": the setting."""
    labels = models.JSONField(default=dict, db_default={}, blank=True)
    """What rules choose executors by, as operators set it: texts by name."""
    unconfirmed_after = models.FloatField(null=True, blank=True)
    """Seconds; empty: the setting; 0 or less: never."""
    created_at = models.DateTimeField(default=timezone.now)

    reserved: Mapping[str, list[str]] | None = None
    """Its reservations, nodes by session id, if they were read with it."""
    nodes_out: Mapping[str, bool] | None = None
    """Its nodes that are suspect (false) or in quarantine (true), if they were read with it."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(name__regex=LABEL_PATTERN), name="executor_name_label"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def closed_nodes(self) -> frozenset[str]:
        """Return the names of the nodes that get no leases at all."""
        on = self.auto_quarantine and self.avoid_suspects != Avoids.OFF
        return frozenset(name for name, closed in (self.nodes_out or {}).items() if closed or on)

    @property
    def suspect_nodes(self) -> frozenset[str]:
        """Return the names of the nodes that are used only if nothing else fits."""
        if self.avoid_suspects == Avoids.OFF:
            return frozenset()
        return frozenset(self.nodes_out or ()) - self.closed_nodes


_NODES_OUT = RawSQL(
    "SELECT coalesce(jsonb_object_agg(n.name, n.quarantined_at IS NOT NULL), '{}')"
    " FROM scheduler_node n WHERE n.executor_id = scheduler_executor.id"
    " AND (n.suspected_until IS NOT NULL OR n.quarantined_at IS NOT NULL)",
    [],
    output_field=models.JSONField(),
)


def with_nodes_out(rows: models.QuerySet[Executor]) -> models.QuerySet[Executor]:
    """Return executors with their nodes that are suspect or in quarantine, in the same query."""
    return rows.annotate(nodes_out=_NODES_OUT)  # type: ignore[no-redef]  # their own field


class NodeReader(Position):
    """The position up to which the log was read for the figures of nodes: one row."""

    listed = models.JSONField(default=dict)
    """By executor id: the digest of its nodes when their rows were last made."""
    to_judge = models.BooleanField(default=False)
    """Whether failures were counted since nodes were last judged."""


class Node(models.Model):
    """A node of an executor: whether it is suspect, and whether it is in quarantine.

    One sweep writes the rows and the suspicions; people write quarantines, and clear suspicions.
    """

    executor = models.ForeignKey(Executor, models.CASCADE, related_name="node_rows", db_index=False)
    name = models.CharField(max_length=NODE_LENGTH)
    address = models.CharField(max_length=NAME_LENGTH + 1 + NODE_LENGTH, unique=True)
    """`executor/name`."""
    present = models.BooleanField(default=False)
    """Whether its executor reports it."""
    counted_from = models.DateTimeField(null=True)
    """Attempts that ended before count no longer: a suspicion ended then."""
    suspected_at = models.DateTimeField(null=True)
    """When the present suspicion began, or the last one."""
    suspected_until = models.DateTimeField(null=True)
    """When the present suspicion ends; null: the node is not suspect."""
    cleared_at = models.DateTimeField(null=True)
    """When the last suspicion ended."""
    reason = models.TextField(blank=True, default="")
    """Why it is suspect, or was, in words."""
    ratio = models.FloatField(null=True)
    """How many times the expected odds of a failure it had then."""
    quarantined_at = models.DateTimeField(null=True)
    quarantined_by = models.CharField(max_length=ACTOR_LENGTH, blank=True, default="")
    quarantine_reason = models.CharField(max_length=MAX_REASON, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint("executor", "name", name="node_of_executor")]
        indexes = [
            models.Index(
                "executor",
                condition=Q(suspected_until__isnull=False) | Q(quarantined_at__isnull=False),
                name="node_out",
            ),
        ]

    def __str__(self) -> str:
        return self.address

    @property
    def state(self) -> "NodeState":
        """Return its state; its executor must be loaded."""
        suspect = self.suspected_until is not None and self.executor.avoid_suspects != Avoids.OFF
        if self.quarantined_at is not None or (suspect and self.executor.auto_quarantine):
            return NodeState.QUARANTINED
        return NodeState.SUSPECT if suspect else NodeState.OPEN


class NodeState(models.TextChoices):
    """What a node gets."""

    OPEN = "open", "leases as they come"
    SUSPECT = "suspect", "sessions that avoid it only if nothing else fits"
    QUARANTINED = "quarantined", "no leases"

    @property
    def condition(self) -> Q:
        """Return the condition for nodes in this state."""
        suspect = Q(suspected_until__isnull=False) & ~Q(executor__avoid_suspects=Avoids.OFF)
        closed = Q(quarantined_at__isnull=False) | suspect & Q(executor__auto_quarantine=True)
        if self is NodeState.QUARANTINED:
            return closed
        return suspect & ~closed if self is NodeState.SUSPECT else ~suspect & ~closed


class NodeAttempt(models.Model):
    """An ended attempt on a node: one of the newest 200 there."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="attempts", db_index=False)
    ended_at = models.DateTimeField()
    work = models.BigIntegerField()
    """A hash of its job set, or without one of its project and image."""
    chain = models.UUIDField()
    cause = models.CharField(max_length=CAUSE_LENGTH, blank=True)
    """"" for a success."""
    signature = models.CharField(max_length=KEY_LENGTH, blank=True)

    class Meta:
        indexes = [models.Index("node", "id", name="node_attempt_newest")]

    def __str__(self) -> str:
        return str(self.pk)


class Lease(models.Model):
    """The right of one executor to run one session. It counts while its token is the session's."""

    session = models.OneToOneField(Session, models.CASCADE, primary_key=True, related_name="lease")
    executor = models.ForeignKey(Executor, models.PROTECT, related_name="leases", db_index=False)
    fencing_token = models.BigIntegerField()
    """From a sequence, which gives each number once."""
    granted_at = models.DateTimeField()
    accepted = models.BooleanField(default=False)
    queue_id = models.BigIntegerField()
    scheduling_key = models.BigIntegerField()
    """The key of the line from which it was granted: it determines what the session holds."""
    nodes = models.JSONField(null=True)
    """The planned nodes, one a rank; null if none were named to the executor."""
    template = models.CharField(max_length=63, blank=True, default="", db_default="")
    """The node template of which its cluster has to add nodes for it; "" for none."""
    lost_at = models.DateTimeField(null=True)
    """When the executor had been silent for too long."""
    run_deadline = models.DateTimeField(null=True)
    """When even a run without an executor must have ended: acceptance + batch timeout + grace."""

    progress = models.JSONField(null=True)
    """How far the run is, as its executor read it last: `sessions_app/core/progress.py`. No index
    contains it (HOT)."""
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
        # Acceptance writes to no index (HOT), so none has `accepted` in its condition. The sweep of
        # leases that nobody accepted reads all instead: 100,000 in some 10 ms, every 10 s.
        indexes = [
            models.Index("verify_at", condition=Q(verify_at__isnull=False), name="lease_verify"),
        ]
        constraints = [
            # The leases of an executor, by age.
            models.UniqueConstraint("executor", "fencing_token", name="lease_of_executor"),
        ]

    def __str__(self) -> str:
        return str(self.session_id)


class Reservation(models.Model):
    """Nodes of an executor that are kept free for a session that waited for too long, or for which
    others make room.

    Rounds of the executor write it, and the sweep that makes room. It ends when the session is
    leased or ends, when a limit has held it back for too long, or when one of the nodes is gone;
    then others are chosen.
    """

    executor = models.ForeignKey(Executor, models.CASCADE, related_name="reservations")
    # A key in the database would be looked up whenever a session is deleted.
    session = models.ForeignKey(
        Session, models.DO_NOTHING, db_constraint=False, related_name="reservations"
    )
    nodes = models.JSONField()
    """Names of the nodes."""
    since = models.DateTimeField(default=timezone.now, db_default=Now())
    limited_since = models.DateTimeField(null=True)
    """Since when only a limit of its queue or a quota holds the session back, if one does."""

    class Meta:
        constraints = [
            models.UniqueConstraint("executor", "session", name="reservation_one_a_session")
        ]

    def __str__(self) -> str:
        return f"{self.executor_id}: {', '.join(self.nodes)}"


class Preemption(models.Model):
    """A session that made room for another one, or would have. The room is kept free `until`."""

    executor = models.ForeignKey(
        Executor, models.SET_NULL, null=True, related_name="preemptions", db_index=False
    )
    executor_name = models.CharField(
        "executor", max_length=NAME_LENGTH, default="", db_default="", editable=False
    )
    """The name stays when the executor is deleted."""
    planned_at = models.DateTimeField()
    until = models.DateTimeField()
    rule = models.CharField(max_length=16)
    """`priority` or `fair_share`."""
    dry_run = models.BooleanField()
    nodes = models.JSONField()
    """The nodes on which it made room, together with others of the same plan."""
    # No keys in the database: they would be looked up whenever a session is deleted.
    taker_id = models.UUIDField()
    """The waiting session for which it made room."""
    taker_project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    taker_rank = models.SmallIntegerField()
    """The value of its priority class."""
    victim_id = models.UUIDField()
    victim_project = models.ForeignKey(
        Project, models.CASCADE, related_name="+", db_index=False, db_constraint=False
    )
    victim_rank = models.SmallIntegerField()

    class Meta:
        indexes = [
            models.Index("planned_at", "id", name="preemption_newest"),
            models.Index("taker_id", name="preemption_taker"),
        ]

    def __str__(self) -> str:
        return f"{self.victim_id} for {self.taker_id}"


class QueueBelow(models.Model):
    """Since when a queue with waiting work has held too little of its share."""

    queue = models.OneToOneField(Queue, models.CASCADE, primary_key=True, related_name="below")
    since = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.queue_id}: {self.since}"


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
