"""Running simulations, with a limit on how many run at once."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from threading import BoundedSemaphore
from typing import Any

from rest_framework.exceptions import APIException

from interfaces.simulate.body import HistoryWindow
from interfaces.simulate.parser import SimulateCall
from retry.engine.decide import Rulebook
from retry.simulate import SHIPPED, Attempt, Draft, Outcome, Past, Tally, simulate
from sessions_app.authorization import Action, Actor
from sessions_app.core.errors import InvalidInput
from sessions_app.selectors.sessions import project_resolve
from sessions_app.services.chains.simulate import HistorySimulation, simulate_history

SIMULATIONS = 8
"""Most simulations at once in one process: half of the front's threads, as readers may be slow."""
_SLOTS = BoundedSemaphore(SIMULATIONS)
Simulated = tuple[Iterable[Attempt | Outcome], Callable[[], dict[str, Any]]]
"""The decisions as they are made, and the sums, which are complete after the last decision."""


class Busy(APIException):
    """Enough simulations are running already."""

    status_code = 503
    default_detail = f"{SIMULATIONS} simulations are running already; try again"
    default_code = "busy"
    wait = 1


def take_slot(held: ExitStack) -> None:
    """Take a slot until `held` is closed. Raises `Busy`."""
    if not _SLOTS.acquire(blocking=False):
        raise Busy
    held.callback(_SLOTS.release)


def simulated(actor: Actor, call: SimulateCall) -> Simulated:
    """Run the simulation with the engine's own code. It changes nothing."""
    if call.history is not None:
        history = _history(actor, call.draft, call.history)
        return history, history.sums
    tally = Tally()
    return simulate(_cases(call.draft, call.chains or []), tally), tally.summary


def _history(actor: Actor, draft: Draft, window: HistoryWindow) -> HistorySimulation:
    try:
        project = project_resolve(actor, window.project, Action.SESSION_READ)
    except InvalidInput as error:
        errors = {f"history.{name}": texts for name, texts in error.errors.items()}
        raise InvalidInput(errors) from None
    return simulate_history(
        actor, project=project, since=window.since, until=window.until, draft=draft
    )


def _cases(draft: Draft, chains: list[Past]) -> Iterator[tuple[Past, Rulebook]]:
    rulebook = draft.over(SHIPPED)
    return ((past, rulebook) for past in chains)
