"""Simulation as a call: what policies would decide about given ends or about the past."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from reprise_client.calls import Calls
from reprise_client.models import Simulation

PATIENCE_SECONDS = 600.0
"""Timeout in seconds.

A hundred thousand decisions take long, and the answer starts late: nothing is sent before its first
megabyte.
"""


class SimulationCalls(Calls):
    """The calls that simulate a draft. They change nothing.

    A draft has any of `policies` (documents, in effective order), `retry_policy` (inline fields),
    `settings` and `failure_categories`. Over history, `settings` may have a `breaker` and a
    `retry_budget`. A 413 means that the simulation is too large for one call.
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
        now. With breakers or shared budgets, the summary also says what they would have held, and
        what was assumed.
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
