"""Simulation as a call: what policies would decide about given ends or about the past."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field

from reprise_client.calls import Calls
from reprise_client.models import Answer

PATIENCE_SECONDS = 600.0
"""Timeout in seconds.

A hundred thousand decisions take long, and the answer starts late: nothing is sent before its first
megabyte.
"""


class SimulatedAttempt(Answer):
    """One attempt and the decision about its end. `action` is None after a success."""

    attempt: int = 0
    session_id: str = ""
    cause: str | None = None
    failure_category: str | None = None
    action: str | None = None
    reason: str | None = None
    rule: str | None = None
    paid_by: str | None = None
    used: int | None = None
    limit: int | None = None
    delay: float | None = None
    avoid_node: str | None = None
    resources: dict[str, Any] | None = None
    trace: list[Any] = Field(default_factory=list)


class SimulatedChain(Answer):
    """A simulated chain.

    `outcome` is succeeded, exhausted, not_retried, cancelled, or retrying if the given ends stop
    there.
    """

    outcome: str = ""
    attempts: list[SimulatedAttempt] = Field(default_factory=list)


class ChangedChain(Answer):
    """A chain of the past that would have ended differently."""

    root: str = ""
    was: str = ""
    would_be: str = ""


class SimulationSummary(Answer):
    """Sums: retries by cause and by rule, decisions by reason; run time in seconds.

    Only simulations of the past have what is added, and which chains changed (1,000 at most).
    """

    chains: int = 0
    retries: int = 0
    by_cause: dict[str, int] = Field(default_factory=dict)
    by_rule: dict[str, int] = Field(default_factory=dict)
    by_reason: dict[str, int] = Field(default_factory=dict)
    changed: list[ChangedChain] = Field(default_factory=list)
    added_attempts: int = 0
    added_run_seconds: float = 0.0


class Simulation(Answer):
    """All decisions, chain by chain, and the sums."""

    chains: list[SimulatedChain] = Field(default_factory=list)
    summary: SimulationSummary = Field(default_factory=SimulationSummary)


class SimulationCalls(Calls):
    """The calls that simulate a draft. They change nothing.

    A draft has any of `policies` (documents, in effective order), `retry_policy` (inline fields),
    `settings` and `failure_categories`. A 413 means that the simulation is too large for one call.
    """

    def simulate_chains(
        self,
        chains: Sequence[Mapping[str, Any]],
        *,
        draft: Mapping[str, Any],
        decisions: bool = True,
    ) -> Simulation:
        """Return what the draft and the shipped defaults decide about given ends.

        A chain has `terminations`, and may have a `session_type` and `resources`. Without
        `decisions` the answer has only the sums.
        """
        return self._simulate({**draft, "chains": list(chains)}, decisions)

    def simulate_history(
        self,
        since: datetime,
        until: datetime | None = None,
        *,
        draft: Mapping[str, Any],
        project: str | None = None,
        decisions: bool = True,
    ) -> Simulation:
        """Return what the draft would have decided about past chains of a project (`domain/name`).

        These are the chains whose first attempt was submitted from `since` to before `until`, or to
        now.
        """
        window = {
            "project": project or self.project,
            "since": since.isoformat(),
            "until": None if until is None else until.isoformat(),
        }
        return self._simulate({**draft, "history": window}, decisions)

    def _simulate(self, body: Mapping[str, Any], decisions: bool) -> Simulation:
        return self._send(
            Simulation,
            "POST",
            "/retry-policies/simulate/",
            body,
            params=None if decisions else {"chains": "false"},
            idempotent=True,
            timeout=PATIENCE_SECONDS,
        )
