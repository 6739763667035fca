"""The messages between executors and the server; described in docs/wire.md."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from base.podspec.labels import MAX_LABELS
from base.podspec.node_templates import MAX_TAINTS, MAX_TEMPLATES, MOST_NODES, NAME, read_templates
from base.podspec.pod_defaults import default_problem, placing_of
from base.podspec.quantity import parse_resource
from base.runlines.progress import CHECKPOINT_BYTES, NOTE_LENGTH, is_plain, number
from sessions_app.core.states import LIVE_STATUSES, Status

MAX_REPORTS = 5000
MAX_RUNS = 50_000
MAX_TROUBLES = 1000
MAX_WARNINGS = 100
LONGEST_REASON = 1024
LONGEST_TAIL = 16 * 1024


def _amount(value: Any) -> Any:
    parse_resource(value)
    return value


def _shortened(value: Any) -> Any:
    return value[:LONGEST_REASON] if isinstance(value, str) else value


def _tail(value: Any) -> Any:
    return value[-LONGEST_TAIL:] if isinstance(value, str) else value


Text = Annotated[str, Field(max_length=65_536)]
Shortened = Annotated[str, BeforeValidator(_shortened)]
Address = Annotated[str, Field(max_length=256)]
Token = Annotated[int, Field(ge=1, lt=2**63)]
Amount = Annotated[str | int | float, BeforeValidator(_amount)]


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


REPORTED = frozenset(LIVE_STATUSES[1:]) | {Status.TERMINATED, Status.ERROR}


class WireModel(BaseModel):
    """Unknown keys are ignored, so that a newer agent can talk to an older server."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Call(WireModel):
    """The fields that every call carries."""

    incarnation: Annotated[int, Field(ge=1, lt=2**63)]


class Node(WireModel):
    """One node of the executor's cluster; amounts are Kubernetes quantities."""

    name: Annotated[str, Field(max_length=253)]
    allocatable: dict[str, Amount] = {}
    free: dict[str, Amount] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, Any]] = []
    max_pods: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """How many runs of this executor it can hold at once; null: unknown."""


class NodeTemplate(WireModel):
    """A kind of nodes that the executor's cluster can add, up to `max` of them in all.

    Amounts are Kubernetes quantities. A node is of the template if it has all of its `labels`.
    """

    name: Annotated[str, Field(pattern=NAME)]
    resources: Annotated[dict[str, Amount], Field(min_length=1)]
    labels: Annotated[dict[str, str], Field(max_length=MAX_LABELS)] = {}
    taints: Annotated[list[dict[str, str]], Field(max_length=MAX_TAINTS)] = []
    max: Annotated[int, Field(ge=1, le=MOST_NODES)]


class Run(WireModel):
    """A lease that the executor holds."""

    session_id: UUID
    fencing_token: Token


def _step(value: Any) -> Any:
    found = number(value)
    if found is None:
        raise ValueError("must be a finite number of at least 0")
    return found


def _plain(value: Any) -> Any:
    if not is_plain(value) or len(value.encode()) > CHECKPOINT_BYTES:
        raise ValueError(f"must be text of at most {CHECKPOINT_BYTES} bytes, no control characters")
    return value


def _finite(value: Any) -> Any:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


Step = Annotated[
    int | float,
    BeforeValidator(_step),
    WithJsonSchema({"type": "number", "minimum": 0}),
]
PlainText = Annotated[str, BeforeValidator(_plain)]


class RunProgress(WireModel):
    """The progress of a run: how far it is, by the lines that it printed.

    `step`, `of` and `note` are of its last line, `checkpoint` and `checkpoint_step` of the last
    line that had a checkpoint; `best` is its highest step, `rate` its steps a second.
    """

    step: Step
    of: Step | None = None
    note: Annotated[PlainText, Field(max_length=NOTE_LENGTH)] = ""
    best: Step
    rate: Annotated[float | None, BeforeValidator(_finite)] = None
    checkpoint: PlainText = ""
    checkpoint_step: Step = 0


class ProgressNews(RunProgress, Run):
    """The progress of the run with this lease."""


def _readable(value: Any) -> Any:
    """Leave out what cannot be read: a heartbeat must not fail for it."""
    if not isinstance(value, list):
        return []
    return [read for each in value if (read := _news(each)) is not None]


def _news(value: Any) -> ProgressNews | None:
    try:
        return ProgressNews.model_validate(value)
    except ValidationError:
        return None


def _told(value: Any) -> Any:
    """Leave out what cannot be read: the end of a run counts all the same."""
    try:
        return None if value is None else RunProgress.model_validate(value)
    except ValidationError:
        return None


def _placing(value: Any) -> Any:
    if wrong := default_problem(value, ()):
        raise ValueError(wrong)
    return placing_of(value)


News = Annotated[list[ProgressNews], BeforeValidator(_readable), Field(max_length=MAX_RUNS)]
"""What runs told since the last call. Entries that cannot be read are left out."""


class Limits(WireModel):
    """The limits of what the executor runs at the same time."""

    max_sessions: Annotated[int, Field(ge=0, le=100_000)] = 1


class LeaseCall(Call):
    """A lease call: heartbeat, renewal and request for work."""

    driver: Annotated[str, Field(max_length=32)] = ""
    nodes: Annotated[list[Node], Field(max_length=20_000)] | None = []
    """null: unchanged since the last call of this incarnation."""
    node_templates: Annotated[
        list[NodeTemplate], BeforeValidator(read_templates), Field(max_length=MAX_TEMPLATES)
    ] = []
    """The nodes that its cluster can add. They count only in a call with `nodes`."""
    pod_placing: Annotated[
        dict[str, Any], BeforeValidator(_placing), WithJsonSchema({"type": "object"})
    ] = {}
    """What its pods get, as far as it decides on nodes: the `tolerations`, `nodeSelector` and
    `affinity` of its pod defaults. They count only in a call with `nodes`."""
    extended_tolerations: bool = False
    """Whether its cluster adds tolerations for extended resources. As above."""
    limits: Limits = Limits()
    runs: Annotated[list[Run], Field(max_length=MAX_RUNS)] = []
    round: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Grows with each lease call of an incarnation; 0: the agent does not number its calls."""
    state_id: Annotated[str, Field(max_length=64)] = ""
    """Id of the agent's state directory, which one agent at a time uses; "": not reported."""
    wait_s: Annotated[float, Field(ge=0, le=10)] = 0
    secrets: bool = False
    """Whether the agent passes `secret_environ` to runs; if not, it gets none with secrets."""
    trouble: Shortened = ""
    """Why it cannot start anything now; empty if nothing is wrong."""
    project_troubles: Annotated[dict[Address, Shortened], Field(max_length=MAX_TROUBLES)] = {}
    """Why it cannot start sessions of some projects, by project (`domain/name`)."""
    warnings: Annotated[list[Shortened], Field(max_length=MAX_WARNINGS)] = []
    """What it does not do as its administrator asked, although it can start sessions."""
    progress: News = []


class ReportsCall(Call):
    """A batch of reports. Each is handled separately, so a bad report does not block the others."""

    reports: Annotated[list[Any], Field(max_length=MAX_REPORTS)]


class Report(Run):
    """One observation of one run."""

    seq: Annotated[int, Field(ge=1, lt=2**31)]
    status: Annotated[Status, BeforeValidator(_upper)]
    at: float | None = None
    node: Annotated[str, Field(max_length=253)] = ""
    message: Text = ""
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    termination: dict[str, Any] | None = None
    log_tail: Annotated[str, BeforeValidator(_tail)] = ""
    """The end of the output of the first failed container or rank. It is used and not stored."""
    progress: Annotated[RunProgress | None, BeforeValidator(_told)] = None
    """What an ended run told; it comes with the end."""
    pod: dict[str, Any] | None = None
    """The run as its cluster shows it now: the pod as in the Kubernetes API, trimmed."""

    @field_validator("status")
    @classmethod
    def _an_executor_says_only(cls, status: Status) -> Status:
        if status not in REPORTED:
            raise ValueError(f"must be one of {', '.join(sorted(REPORTED))}")
        return status


class Return(Run):
    """A lease that the executor refuses."""

    reason: Shortened = ""
    own_trouble: bool = False
    """Whether the reason lies with the executor and nothing was started: then the session is not
    charged, and may have been accepted."""
    refused_node: Annotated[str, Field(max_length=253)] = ""
    """The planned node for which its cluster refused the pod, with `own_trouble`; "": no refusal.
    `reason` then has the cluster's words."""


class ReturnCall(Call):
    """Leases to hand back."""

    returns: Annotated[list[Return], Field(max_length=MAX_REPORTS)]


class Chunk(Run):
    """A piece of output. `data` is base64. `tail` is true for the end of an output that is too
    long."""

    offset: Annotated[int, Field(ge=0, lt=2**62)]
    data: Annotated[bytes, Field(max_length=512 * 1024)]
    tail: bool = False


class LogsCall(Call):
    """Output of runs."""

    chunks: Annotated[list[Chunk], Field(max_length=64)]
    progress: News = []


class LeasedSpec(WireModel):
    """The image, the command and the resources to run."""

    name: str
    image: str
    command: list[str]
    environ: dict[str, str]
    resources: dict[str, Any]
    mounts: list[dict[str, Any]]
    cluster_size: int
    batch_timeout: float | None
    termination_grace_period: float
    labels: dict[str, str]
    ports: list[str]
    pod_spec: dict[str, Any] | None


# What the server makes for each session is no model: pydantic takes eight times as long for one.
@dataclass(slots=True, kw_only=True)
class LeasedSession:
    """A lease, with everything that the executor needs to run the session.

    `avoid_node` is a node of this executor that the session must not use; "" for none. `nodes` are
    those that it must use, one a rank; empty if the executor's cluster chooses. Then `avoid_nodes`
    are further ones that it must not use: suspect nodes, nodes in quarantine, and nodes that are
    kept free for others. `node_labels` are labels that its nodes must have: those of a node
    template of which the cluster is to add nodes. `priority_class` is the name of its class.
    """

    session_id: UUID
    fencing_token: int
    attempt: int
    project: str
    queue: str
    priority_class: str
    environ: dict[str, str]
    secret_environ: dict[str, str] = field(default_factory=dict, repr=False)
    """Only for the run: nothing may store or log it."""
    avoid_node: str
    avoid_nodes: list[str] = field(default_factory=list)
    nodes: list[str]
    node_labels: dict[str, str] = field(default_factory=dict)
    pod_defaults: dict[str, Any] = field(default_factory=dict)
    """What pods get from its project where the session says nothing."""
    spec: LeasedSpec


StopReason = Literal["cancelled", "preempted", "start_failed", "unknown"]


class Stop(WireModel):
    """A run that must stop. `grace_period` is the number of seconds between the request and the
    kill."""

    session_id: UUID
    fencing_token: int
    reason: StopReason
    grace_period: float


class LeaseAnswer(WireModel):
    """The answer to a lease call. Times are in seconds.

    `forget_troubles` are projects in the call's `project_troubles` that have nothing waiting.
    """

    leases: list[LeasedSession]
    stops: list[Stop]
    lease_ttl: float
    lease_grace: float
    forget_troubles: list[str] = []


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of one report or return."""

    session_id: str | None
    fencing_token: int | None
    seq: int | None = None
    outcome: str
    detail: str = ""


class OutcomesAnswer(WireModel):
    """One outcome for each item, in the order of the call."""

    outcomes: list[Outcome]


class ChunkOutcome(WireModel):
    """The next offset of a session's log, and, if the log is full, the offset for the end of the
    output."""

    session_id: UUID
    next_offset: int
    full: bool
    outcome: str
    tail_from: int
    tail_bytes: int


class LogsAnswer(WireModel):
    """One outcome for each chunk, in the order of the call."""

    chunks: list[ChunkOutcome]
