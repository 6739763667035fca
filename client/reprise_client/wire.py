"""The protocol between executor and server: `docs/wire.md` as types and four calls."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict, cast
from urllib.parse import quote

from reprise_client.errors import ApiError, InvalidAnswer, RepriseError
from reprise_client.transport import Transport

LEASE_ANSWER_SECONDS = 10.0
"""Seconds that the answer of a lease call may take beyond the time it asked to be held."""


class LeaseKey(NamedTuple):
    """The key of a lease. A session that is leased again gets another fencing token."""

    session_id: str
    fencing_token: int

    def __str__(self) -> str:
        return f"{self.session_id} (token {self.fencing_token})"


class Spec(TypedDict):
    """The specification of a session's run.

    Times are in seconds; `resources` holds Kubernetes quantities.
    """

    name: str
    image: NotRequired[str | None]
    command: list[str]
    environ: NotRequired[dict[str, str]]
    resources: NotRequired[dict[str, Any]]
    mounts: NotRequired[list[Any]]
    cluster_size: NotRequired[int]
    batch_timeout: NotRequired[float | None]
    termination_grace_period: NotRequired[float]
    labels: NotRequired[dict[str, str]]
    ports: NotRequired[list[Any]]
    pod_spec: NotRequired[dict[str, Any] | None]


class Lease(TypedDict):
    """A lease. `avoid_node` is a node that the session should avoid, "" for none. `nodes` are those
    on which it must run, one a rank; empty or absent if the executor chooses, which then also
    leaves out `avoid_nodes`. `node_labels` are labels that its nodes must have. `pod_defaults`
    are what its pods get from its project where it says nothing. `priority_class` is
    absent from older servers."""

    session_id: str
    fencing_token: int
    attempt: int
    project: str
    queue: str
    priority_class: NotRequired[str]
    environ: dict[str, str]
    secret_environ: NotRequired[dict[str, str]]
    avoid_node: NotRequired[str]
    avoid_nodes: NotRequired[list[str]]
    nodes: NotRequired[list[str]]
    node_labels: NotRequired[dict[str, str]]
    pod_defaults: NotRequired[dict[str, Any]]
    spec: Spec


class Stop(TypedDict):
    """`reason` is `cancelled`, `preempted`, `start_failed` or `unknown`; `grace_period` in
    seconds, None for the session's own."""

    session_id: str
    fencing_token: int
    reason: str
    grace_period: float | None


class LeaseAnswer(TypedDict):
    """The answer to a lease call.

    `lease_ttl` and `lease_grace` are in seconds. `forget_troubles` are projects of which nothing
    waits for the executor any more.
    """

    leases: list[Lease]
    stops: list[Stop]
    lease_ttl: float
    lease_grace: float
    forget_troubles: NotRequired[list[str]]


class Node(TypedDict):
    name: str
    allocatable: dict[str, str]
    free: dict[str, str]
    labels: dict[str, str]
    taints: list[Any]
    max_pods: NotRequired[int]


class ContainerFacts(TypedDict):
    name: str
    init: bool
    sidecar: NotRequired[bool]
    exit_code: int | None
    reason: str
    message: str
    finished_at: float | None


class Termination(TypedDict):
    """The raw facts of an end. Only the server draws conclusions from them.

    `message` is the workload's own (its termination log), `pod_message` the cluster's. If there is
    a `pod`, in the Kubernetes API's form at its end, the facts are taken from it. `deleted_by_us`
    means that the executor asked for its deletion, `unfenced` that nobody saw its containers stop,
    and `rank` is its number among several pods.
    """

    exit_code: int | None
    conditions: list[str]
    reason: str
    message: str
    pod_message: str
    node: str
    lease_expired: bool
    containers: list[ContainerFacts]
    pod: NotRequired[Mapping[str, Any]]
    deleted_by_us: NotRequired[bool]
    unfenced: NotRequired[bool]
    rank: NotRequired[int]


class RunProgress(TypedDict):
    """The progress of a run: its last line, its best step, its steps a second.

    `of` is None if the run did not say of how many steps, `rate` until two lines came. `checkpoint`
    and `checkpoint_step` are of the last line that had a checkpoint.
    """

    step: float
    of: float | None
    note: str
    best: float
    rate: float | None
    checkpoint: NotRequired[str]
    checkpoint_step: NotRequired[float]


class ProgressNews(RunProgress):
    """The progress of the run with this lease."""

    session_id: str
    fencing_token: int


class Report(TypedDict):
    """A report on a run.

    `at` is seconds since the epoch on the executor's clock. `seq` counts from 1 in a lease, or
    grows from a higher number. `pod` is the cluster's present view of the run,
    `log_tail` the end of the output of what failed first, `progress` what an ended run told.
    """

    session_id: str
    fencing_token: int
    seq: int
    status: str
    at: float
    node: str
    message: str
    exit_code: int | None
    termination: Termination | None
    pod: NotRequired[Mapping[str, Any]]
    log_tail: NotRequired[str]
    progress: NotRequired[RunProgress]


class Outcome(TypedDict):
    """The server's answer to a report: `applied`, `duplicate`, `stale`, `busy` or `invalid`."""

    session_id: str
    fencing_token: int
    seq: int
    outcome: str
    detail: str


class Return(TypedDict):
    session_id: str
    fencing_token: int
    reason: str
    own_trouble: NotRequired[bool]
    refused_node: NotRequired[str]


class Chunk(NamedTuple):
    """A piece of a run's output: at most 256 KiB, starting at byte `offset` of its log.

    `tail` marks a piece of the end of an output that is too long and whose beginning was sent.
    """

    key: LeaseKey
    offset: int
    data: bytes
    tail: bool = False


class ChunkOutcome(TypedDict):
    """The server's answer to a chunk.

    If the log is `full`, `tail_from` says where the end of the output may continue, and
    `tail_bytes` how long it may be.
    """

    session_id: str
    next_offset: int
    full: bool
    outcome: str
    tail_from: NotRequired[int]
    tail_bytes: NotRequired[int]


class _Outcomes(TypedDict):
    outcomes: list[Outcome]


class _ChunkOutcomes(TypedDict):
    chunks: list[ChunkOutcome]


class SupersededError(RepriseError):
    """The server knows a newer incarnation of this executor, `current`."""

    def __init__(self, current: int):
        self.current = current
        super().__init__(f"a newer agent of this executor exists (incarnation {current})")


class Wire:
    """The four calls of the executor `name`. Each names the `incarnation` of the agent.

    Nothing is tried twice here: what to do after a failure depends on the call, so the agent
    decides. Raises `SupersededError` for the 409 of an old incarnation, and what `Transport`
    raises.
    """

    def __init__(self, transport: Transport, name: str):
        self._transport = transport
        self._path = f"/executors/{quote(name, safe='')}"

    def lease(
        self,
        incarnation: int,
        *,
        driver: str,
        nodes: Sequence[Node] | None,
        max_sessions: int,
        runs: Iterable[LeaseKey],
        wait_s: float,
        round_number: int,
        state_id: str = "",
        trouble: str = "",
        project_troubles: Mapping[str, str] | None = None,
        warnings: Sequence[str] = (),
        progress: Sequence[ProgressNews] = (),
        node_templates: Sequence[Mapping[str, Any]] = (),
        pod_placing: Mapping[str, Any] | None = None,
        extended_tolerations: bool = False,
    ) -> LeaseAnswer:
        """Send a heartbeat, renew the leases and ask for new ones; it may take `wait_s` seconds.

        `nodes` None means unchanged since an earlier call. `round_number` grows with each call, so
        that the server can detect one that arrives late. `state_id` names the agent's state
        directory: an agent without the earlier agent's state cannot speak for its runs. `trouble`
        says why the executor can start nothing at present, `project_troubles` the same for some
        projects; `warnings` is what it does not do as its administrator asked. `progress` is what
        runs told since the last call. `node_templates` are the nodes that the cluster can add.
        `pod_placing` are the pod defaults that decide on nodes, and `extended_tolerations` says
        whether the cluster adds tolerations for extended resources.
        """
        body: dict[str, Any] = {
            "driver": driver,
            "nodes": nodes,
            "limits": {"max_sessions": max_sessions},
            "runs": [run._asdict() for run in runs],
            "wait_s": wait_s,
            "round": round_number,
            "state_id": state_id,
            "secrets": True,
            "trouble": trouble,
            "project_troubles": dict(project_troubles or {}),
        }
        body |= {"warnings": list(warnings)} if warnings else {}
        body |= {"progress": progress} if progress else {}
        body |= {"node_templates": node_templates} if node_templates else {}
        body |= {"pod_placing": pod_placing} if pod_placing else {}
        body |= {"extended_tolerations": True} if extended_tolerations else {}
        timeout = wait_s + LEASE_ANSWER_SECONDS
        return cast("LeaseAnswer", self._call("lease", incarnation, body, LeaseAnswer, timeout))

    def report(self, incarnation: int, reports: Sequence[Report]) -> list[Outcome]:
        """Return one outcome for each report, in the same order."""
        answer = self._call("reports", incarnation, {"reports": reports}, _Outcomes)
        return cast("_Outcomes", answer)["outcomes"]

    def hand_back(self, incarnation: int, returns: Sequence[Return]) -> list[Outcome]:
        """Return one outcome for each lease that is handed back, in the same order."""
        answer = self._call("return", incarnation, {"returns": returns}, _Outcomes)
        return cast("_Outcomes", answer)["outcomes"]

    def log(
        self, incarnation: int, chunks: Sequence[Chunk], progress: Sequence[ProgressNews] = ()
    ) -> list[ChunkOutcome]:
        """Return where the log of each chunk's session continues, in the same order.

        `progress` is what runs told since the last call.
        """
        encoded = [
            {
                **chunk.key._asdict(),
                "offset": chunk.offset,
                "data": base64.b64encode(chunk.data).decode("ascii"),
                **({"tail": True} if chunk.tail else {}),
            }
            for chunk in chunks
        ]
        body: dict[str, Any] = {"chunks": encoded}
        if progress:
            body["progress"] = progress
        answer = self._call("logs", incarnation, body, _ChunkOutcomes)
        return cast("_ChunkOutcomes", answer)["chunks"]

    def _call(
        self,
        verb: str,
        incarnation: int,
        body: Mapping[str, Any],
        shape: type,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        path = f"{self._path}/{verb}/"
        sent = {"incarnation": incarnation, **body}
        try:
            answer = self._transport.request("POST", path, json=sent, timeout=timeout)
        except ApiError as error:
            current = error.problem.get("current_incarnation")
            if error.status == 409 and isinstance(current, int):
                raise SupersededError(current) from error
            raise
        needed: frozenset[str] = shape.__required_keys__  # type: ignore[attr-defined]
        if not isinstance(answer, dict) or not needed <= answer.keys():
            raise InvalidAnswer(self._transport.url + path, repr(answer)[:200])
        return answer
