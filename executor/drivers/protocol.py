"""The interface between the agent and the drivers that run sessions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from reprise_client.wire import LeaseKey, Node, Spec, Termination

from executor.runs import RunFiles

FOUND = "FOUND"
"""The status of an observation of a run that an earlier agent started and this one does not
know."""
UNSTARTED = "UNSTARTED"
"""The status of an observation that nothing of the run exists nor will.

The reason is neither the session's nor the cluster's fault, so the lease may go to another
executor. With a node it is the reason why that node, which was planned, refused the run.
"""
PLACEMENT_SECONDS = 15.0
"""How long a planned node may have no room before it counts as refused."""


@dataclass(frozen=True)
class Order:
    """An accepted lease.

    `environ` wins over the spec's. `secrets` are variables that only the run may hold. `avoid_node`
    is a node, "" for none. The driver avoids it as long as another existing node could ever run the
    session. `nodes` are those on which it must run, one a rank; empty if the driver chooses. If one
    of them cannot take it after all, the run ends as `UNSTARTED`, with the name of that node. A
    driver that chooses takes none of `avoid_nodes`, and only nodes with all `node_labels`: the
    cluster may have to add them. `priority_class` is the name of its class, "" if the server did
    not name it. `pod_defaults` are those of its project, for drivers that make pods.
    """

    key: LeaseKey
    spec: Spec
    environ: Mapping[str, str]
    files: RunFiles
    avoid_node: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    nodes: Sequence[str] = ()
    avoid_nodes: Sequence[str] = ()
    priority_class: str = ""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Observation:
    """A status of a run on the wire, with its raw facts.

    An end (`TERMINATED`, `ERROR`) comes once for each order, has a `termination`, and means that
    nothing of the run is left. `stopped` says that the run had been told to stop before. `output`
    is new output of a run that writes to no file. `failed_output` is the last output of what failed
    first, None if it is the end of the run's file.
    """

    key: LeaseKey
    status: str
    node: str = ""
    message: str = ""
    termination: Termination | None = None
    stopped: bool = False
    pod: Mapping[str, Any] | None = None
    output: bytes = b""
    failed_output: bytes | None = None


Emit = Callable[[Observation], None]
"""Hands an observation over to the agent; any thread may call it."""


def facts(
    exit_code: int | None,
    reason: str = "",
    message: str = "",
    node: str = "",
    *,
    pod_message: str = "",
) -> Termination:
    """Return a termination without containers and conditions.

    `message` comes from the workload, `pod_message` from the driver.
    """
    return Termination(
        exit_code=exit_code,
        conditions=[],
        reason=reason,
        message=message,
        pod_message=pod_message,
        node=node,
        lease_expired=False,
        containers=[],
    )


class Left(Enum):
    """What an earlier agent left of a run.

    It goes on and is observed from now on, it has ended with that agent, or nothing of it was ever
    started.
    """

    GOES_ON = auto()
    ENDED = auto()
    UNBEGUN = auto()


class Driver(Protocol):
    """Runs sessions.

    All calls come from the agent's main thread, except `nodes` and `wake`, which any thread may
    call.
    """

    @property
    def name(self) -> str: ...

    @property
    def keeps_files(self) -> bool:
        """Return whether each of its runs has a directory and writes its output there."""
        ...

    @property
    def outlives_agent(self) -> bool:
        """Return whether its runs go on without an agent and wait for the next one."""
        ...

    @property
    def surveyed(self) -> bool:
        """Return whether it has reported all the runs that it found."""
        ...

    @property
    def trouble(self) -> str:
        """Return why it can start nothing at present, whatever the session; "" if it can.

        Any thread may ask.
        """
        ...

    @property
    def project_troubles(self) -> Mapping[str, str]:
        """Return why it can start nothing of some projects at present, by project (`domain/name`).

        Any thread may ask.
        """
        ...

    @property
    def warnings(self) -> Sequence[str]:
        """Return what is not done as its administrator asked, although sessions can be started.

        Any thread may ask.
        """
        ...

    def forget_troubles(self, projects: Iterable[str]) -> None:
        """Forget the troubles of these projects: none of their sessions waits for this executor."""
        ...

    def nodes(self, held: Iterable[Mapping[str, Any]]) -> list[Node]:
        """Return the nodes with what is free on them, given the `resources` of the leases held."""
        ...

    @property
    def extended_tolerations(self) -> bool:
        """Return whether its cluster adds tolerations for the extended resources of a run.

        Any thread may ask.
        """
        ...

    def refusal(self, spec: Spec) -> str | None:
        """Return why this driver cannot run the session; None if it can."""
        ...

    def caveat(self, spec: Spec) -> str:
        """Return what the session asks for and will not get although it runs; "" for nothing."""
        ...

    def start(self, order: Order) -> None:
        """Start the run. `poll` observes the result, even a failure."""
        ...

    def stop(self, key: LeaseKey, grace: float) -> None:
        """End the run, by force after `grace` seconds.

        A repeated stop can only shorten that time. A stop of an ended run does nothing.
        """
        ...

    def poll(self, timeout: float | None) -> list[Observation]:
        """Return the new observations, in order.

        It waits for an observation, for `wake` or for `timeout` seconds.
        """
        ...

    def wake(self) -> None:
        """Make the present or else the next `poll` return at once."""
        ...

    def reclaim(self, files: RunFiles) -> Left:
        """Return what an earlier agent left of a run, as far as its files tell. They are complete.

        If the run does not go on, end what is left of it.
        """
        ...

    def retire(self) -> None:
        """Start nothing more, because the agent ends.

        Runs of which surely nothing was started are observed as `UNSTARTED`.
        """
        ...

    @property
    def retired(self) -> bool:
        """Return whether all that `retire` gives back was observed."""
        ...

    def release(self, key: LeaseKey) -> None:
        """Drop what is kept as proof of the run's end: the server has answered it."""
        ...

    def close(self) -> None:
        """End every run by force that does not outlive the agent, because the agent ends."""
        ...
