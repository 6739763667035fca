"""Simulation: what policies would decide about given ends or about a project's own past."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import ClassVar

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from interfaces.http.views import RestView, body_of
from interfaces.openapi.generator import query_parameters
from interfaces.requests.queries import query_of
from interfaces.requests.strict import StrictModel
from interfaces.simulate import shapes
from interfaces.simulate.body import SimulateBody
from interfaces.simulate.parser import BODY_LIMIT_BYTES, SimulateCall, SimulateParser
from interfaces.simulate.render import simulation_text
from interfaces.simulate.run import simulated, take_slot
from sessions_app.authorization import Action, authorize
from sessions_app.core.errors import InvalidInput

WHOLE = 1024 * 1024
"""Bytes from which an answer is streamed while it is made."""
_JSON = "application/json"


class SimulateQuery(StrictModel):
    """The query parameters of a simulation. `chains=false` leaves only the sums."""

    chains: bool = True


class SimulateView(RestView):
    """`/retry-policies/simulate/`."""

    actions: ClassVar = {"POST": Action.POLICY_SIMULATE}
    asks_when_writing = True
    body_limit = BODY_LIMIT_BYTES
    parser_classes = (SimulateParser,)

    @extend_schema(
        operation_id="retry_policies_simulate",
        parameters=query_parameters(SimulateQuery),
        request=SimulateBody,
        responses=shapes.Simulation,
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Simulate draft policies with the code of the engine. Nothing is changed.

        At most 100,000 terminations and a body of 64 MiB are accepted.
        """
        authorize(self.actor, self.required_action)
        query = query_of(SimulateQuery, request.query_params)
        with ExitStack() as held:
            take_slot(held)
            decided, summary = simulated(self.actor, _call_of(request))
            return _answer(simulation_text(decided, summary, chains=query.chains), held)


def _call_of(request: Request) -> SimulateCall:
    call = body_of(request).get("call")
    if not isinstance(call, SimulateCall):
        raise InvalidInput({"chains": ["give exactly one of chains and history"]})
    return call


def _answer(text: Iterator[bytes], held: ExitStack) -> HttpResponseBase:
    """Return a small answer at once, and stream a large one; `held` is released at its end."""
    begun: list[bytes] = []
    while sum(map(len, begun)) < WHOLE:
        piece = next(text, None)
        if piece is None:
            return HttpResponse(b"".join(begun), content_type=_JSON)
        begun.append(piece)
    sent = _Sent(chain(begun, text), held.pop_all())
    return StreamingHttpResponse(sent, content_type=_JSON)


class _Sent:
    """The pieces of an answer. Django closes it at the end, or when the client is gone."""

    def __init__(self, pieces: Iterator[bytes], held: ExitStack):
        self._pieces = pieces
        self._held = held

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        self._held.close()
