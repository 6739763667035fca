"""What the agent asks of whatever runs sessions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from reprise_client.wire import LeaseKey, Node, Spec, Termination

from executor.runs import RunFiles

FOUND = "FOUND"
"""The status of an observation of a run that an earlier agent has started and this one does not
know."""
UNSTARTED = "UNSTARTED"
"""The status of an observation that nothing of the run is there nor will be, for a reason that is
neither the session's nor the cluster's: it may be given away."""


@dataclass(frozen=True)
class Order:
    """An accepted lease. `environ` wins over the spec's; `secrets` are variables that nothing but
    the run may hold.

    `avoid_node` is a node, "" for none, that the driver leaves alone as long as another one that
    is there could ever run the session.
    """

    key: LeaseKey
    spec: Spec
    environ: Mapping[str, str]
    files: RunFiles
    avoid_node: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Observation:
    """Something that became true of a run: a status of the wire, with its raw facts.

    An end (`TERMINATED`, `ERROR`) comes once for each order, comes with `termination`, and means
    that nothing of the run is left. `stopped` says that the run had been told to stop before.
    """

    key: LeaseKey
    status: str
    node: str = ""
    message: str = ""
    termination: Termination | None = None
    stopped: bool = False
    pod: Mapping[str, Any] | None = None


def facts(
    exit_code: int | None,
    reason: str = "",
    message: str = "",
    node: str = "",
    *,
    pod_message: str = "",
) -> Termination:
    """A termination without containers and conditions of its own.

    `message` is what the workload said, `pod_message` what the driver has to say.
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


class Driver(Protocol):
    """Runs sessions. All calls come from the agent's main thread, but for `nodes` and `wake`,
    which any thread may call."""

    @property
    def name(self) -> str: ...

    @property
    def keeps_files(self) -> bool:
        """Whether its runs have a directory each and write output there."""
        ...

    @property
    def outlives_agent(self) -> bool:
        """Whether its runs go on while there is no agent, and wait for the next one."""
        ...

    @property
    def surveyed(self) -> bool:
        """Whether it has told all the runs that it found."""
        ...

    @property
    def trouble(self) -> str:
        """Why it can start nothing at present, whatever the session; "" if nothing is wrong. Any
        thread may ask."""
        ...

    @property
    def project_troubles(self) -> Mapping[str, str]:
        """Why it can start nothing of some projects at present, by project (`domain/name`). Any
        thread may ask."""
        ...

    def forget_troubles(self, projects: Iterable[str]) -> None:
        """Nothing of these projects waits for this executor any more: their troubles are none."""
        ...

    def nodes(self, held: Iterable[Mapping[str, Any]]) -> list[Node]:
        """The nodes with what is free on them beside the `resources` of the leases held."""
        ...

    def refusal(self, spec: Spec) -> str | None:
        """Why this driver cannot run the session, if so."""
        ...

    def caveat(self, spec: Spec) -> str:
        """What the session asks for and will not get although it runs; "" for nothing."""
        ...

    def start(self, order: Order) -> None:
        """Starts the run. Whatever comes of it, a failure too, is observed by `poll`."""
        ...

    def stop(self, key: LeaseKey, grace: float) -> None:
        """Ends the run, by force after `grace` seconds. A repeated stop can only shorten that; one
        for a run that has ended does nothing."""
        ...

    def poll(self, timeout: float | None) -> list[Observation]:
        """What was observed since, in order; waits for something, `wake` or `timeout` seconds."""
        ...

    def wake(self) -> None:
        """Lets a `poll` that waits, or else the next one, return at once."""
        ...

    def reclaim(self, files: RunFiles) -> bool:
        """Whether a run that an earlier agent started goes on, and is observed from now on; what
        is left of one that does not is ended."""
        ...

    def release(self, key: LeaseKey) -> None:
        """The end of the run was answered: nothing has to be kept as a proof of it."""
        ...

    def close(self) -> None:
        """The agent ends, and with it, by force, every run that does not outlive it."""
        ...
