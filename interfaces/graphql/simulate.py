"""The root field `simulateRetryPolicy`: what draft policies would decide. It changes nothing."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import graphene
from pydantic_core import to_json

from interfaces.graphql.connections import PAGE, one
from interfaces.graphql.context import actor_of
from interfaces.graphql.enums import RetryCause
from interfaces.graphql.shapes import arguments_of, type_of
from interfaces.http.paging import MAX_PAGE
from interfaces.simulate import shapes
from interfaces.simulate.body import SimulateBody
from interfaces.simulate.parser import read_call
from interfaces.simulate.render import simulated_json
from interfaces.simulate.run import simulated, take_slot
from retry.simulate import Attempt, Outcome
from sessions_app.authorization import Action, authorize
from sessions_app.core.errors import InvalidInput

type_of(shapes.SimulatedAttempt, kinds={"cause": RetryCause})


class SimulateQueries:
    """The root field of simulations."""

    simulate_retry_policy = one(
        type_of(shapes.Simulation),
        "Simulates draft policies. The arguments are the body of `POST /retry-policies/simulate/`.",
        first=graphene.Int(
            default_value=PAGE,
            description="The maximum number of chains whose decisions are returned, 0 to "
            f"{MAX_PAGE}. The totals are of all chains.",
        ),
        **arguments_of(SimulateBody, whole=True),
    )

    @staticmethod
    def resolve_simulate_retry_policy(
        _root: None, info: Any, first: int | None, **asked: Any
    ) -> dict[str, Any]:
        """Return what `POST /retry-policies/simulate/` returns."""
        actor = actor_of(info)
        authorize(actor, Action.POLICY_SIMULATE)
        if first is None or not 0 <= first <= MAX_PAGE:
            raise InvalidInput({"first": [f"must be from 0 to {MAX_PAGE}"]})
        call = read_call(to_json({k: v for k, v in asked.items() if v is not None}))
        with ExitStack() as held:
            take_slot(held)
            decided, summary = simulated(actor, call)
            return {"chains": _chains(decided, first), "summary": summary()}


def _chains(decided: Iterable[Attempt | Outcome], first: int) -> list[dict[str, Any]]:
    """Return the first chains. The others are still run, for the sums."""
    chains: list[dict[str, Any]] = []
    attempts: list[dict[str, Any]] = []
    for each in decided:
        if len(chains) >= first:
            continue
        if isinstance(each, Attempt):
            attempts.append(simulated_json(each))
        else:
            chains.append({"attempts": attempts, "outcome": each.name})
            attempts = []
    return chains
