"""The end of a session, understood: what its facts mean is found out once, and passed on. Pure."""

from functools import cached_property
from typing import Any

from retry.evidence.causes import RetryCause, classify, rule_conditions
from retry.evidence.ending_facts import ending_facts
from retry.evidence.termination import ContainerFacts, Termination, first_failed_container
from retry.evidence.workload_message import WorkloadMessage, workload_message_in


class Ended:
    """A termination and what it means; each meaning is found out when it is first asked for.

    `given` is a cause that is known already; else the facts say it.
    """

    def __init__(self, termination: Termination, given: RetryCause | None = None):
        self.termination = termination
        self.given = given

    @cached_property
    def cause(self) -> RetryCause:
        """Return why it ended."""
        return classify(self.termination) if self.given is None else self.given

    @cached_property
    def container(self) -> ContainerFacts | None:
        """Return the container that decided: the first that failed; None if none did."""
        return first_failed_container(self.termination)

    @cached_property
    def exit_code(self) -> int | None:
        """Return the deciding container's exit code, or without one the session's own.

        A success has the code 0, whatever happened to its sidecars and child processes.
        """
        if self.termination.status == "terminated":
            return 0
        return self.termination.exit_code if self.container is None else self.container.exit_code

    @cached_property
    def words(self) -> str:
        """Return the termination message of the deciding container, or else the session's."""
        own = self.container.message if self.container is not None else ""
        return own or self.termination.message

    @cached_property
    def wishes(self) -> WorkloadMessage:
        """Return what the workload wishes, as its words state it."""
        return workload_message_in(self.words)

    @cached_property
    def conditions(self) -> frozenset[str]:
        """Return the conditions that rules may test; several may hold."""
        return rule_conditions(self.termination)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Return the facts that a decision's trace stores, for the sentences about it."""
        return ending_facts(self.termination, self.container, self.exit_code)
