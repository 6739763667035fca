"""The messages between executors and the server; described in docs/wire.md."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from podspec.quantity import parse_resource
from sessions_app.core.states import LIVE_STATUSES, Status

MAX_REPORTS = 5000
MAX_RUNS = 50_000
MAX_TROUBLES = 1000
LONGEST_REASON = 1024


def _amount(value: Any) -> Any:
    parse_resource(value)
    return value


def _shortened(value: Any) -> Any:
    return value[:LONGEST_REASON] if isinstance(value, str) else value


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
    """What every call carries."""

    incarnation: Annotated[int, Field(ge=1, lt=2**63)]


class Node(WireModel):
    """One node of the executor's cluster; amounts are Kubernetes quantities."""

    name: Annotated[str, Field(max_length=253)]
    allocatable: dict[str, Amount] = {}
    free: dict[str, Amount] = {}
    labels: dict[str, str] = {}
    taints: list[dict[str, Any]] = []


class Run(WireModel):
    """A lease that the executor holds."""

    session_id: UUID
    fencing_token: Token


class Limits(WireModel):
    """The limits of what the executor runs at the same time."""

    max_sessions: Annotated[int, Field(ge=0, le=100_000)] = 1


class LeaseCall(Call):
    """A lease call: heartbeat, renewal and request for work."""

    driver: Annotated[str, Field(max_length=32)] = ""
    nodes: Annotated[list[Node], Field(max_length=20_000)] | None = []
    """null: unchanged since the last call of this incarnation."""
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


class LeasedSession(WireModel):
    """A lease, with everything that the executor needs to run the session.

    `avoid_node` is a node of this executor that the session must not use; "" for none.
    """

    session_id: UUID
    fencing_token: int
    attempt: int
    project: str
    queue: str
    environ: dict[str, str]
    secret_environ: dict[str, str] = Field(default={}, repr=False)
    """Only for the run: nothing may store or log it."""
    avoid_node: str
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


class Outcome(WireModel):
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
