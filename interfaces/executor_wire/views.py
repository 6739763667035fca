"""The wire protocol of executors as REST; described in docs/wire.md."""

import base64
import binascii
from typing import ClassVar

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from interfaces.http.parsing import FactsJSONParser
from interfaces.http.views import RestView, body_of
from scheduler import wire
from scheduler.services.executors import executor_check
from scheduler.services.polling import lease_once
from scheduler.services.progress import progress_note
from scheduler.services.reports import reports_apply
from scheduler.services.returns import returns_apply
from sessions_app.authorization import Action, authorize
from sessions_app.core.errors import Conflict, InvalidInput
from sessions_app.services.sessions.logs import LogEnd, LogPiece, logs_append


class WireView(RestView):
    """The base of the calls that only the executor itself may make."""

    actions: ClassVar = {"POST": Action.EXECUTOR_WIRE}
    body_limit = settings.EXECUTOR_BODY_LIMIT_BYTES
    parser_classes = [FactsJSONParser]
    # No throttle: a session would wait for its delayed report.
    throttle_classes = []

    def check(self, name: str) -> None:
        """Allow only the executor of this name."""
        authorize(self.actor, self.required_action, executor_name=name)


class LeaseView(WireView):
    """`/executors/{name}/lease/`, answered at once; the ASGI front makes a long poll of it."""

    @extend_schema(
        operation_id="executors_lease", request=wire.LeaseCall, responses=wire.LeaseAnswer
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        """Send a heartbeat, renew the leases and get new ones."""
        self.check(name)
        call = wire.LeaseCall.model_validate(body_of(request))
        return _response(lease_once(name, call))


class ReportsView(WireView):
    """`/executors/{name}/reports/`."""

    @extend_schema(
        operation_id="executors_reports", request=wire.ReportsCall, responses=wire.OutcomesAnswer
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        """Apply reports. The answer has one outcome for each."""
        self.check(name)
        call = wire.ReportsCall.model_validate(body_of(request))
        outcomes = reports_apply(name, call.incarnation, call.reports)
        return _response(wire.OutcomesAnswer(outcomes=outcomes))


class ReturnView(WireView):
    """`/executors/{name}/return/`."""

    @extend_schema(
        operation_id="executors_return", request=wire.ReturnCall, responses=wire.OutcomesAnswer
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        """Hand leases back. The answer has one outcome for each."""
        self.check(name)
        call = wire.ReturnCall.model_validate(body_of(request))
        outcomes = returns_apply(name, call.incarnation, call.returns)
        return _response(wire.OutcomesAnswer(outcomes=outcomes))


class LogsView(WireView):
    """`/executors/{name}/logs/`."""

    @extend_schema(operation_id="executors_logs", request=wire.LogsCall, responses=wire.LogsAnswer)
    def post(self, request: Request, name: str) -> HttpResponse:
        """Store output. The answer gives the next offset for each chunk."""
        self.check(name)
        call = wire.LogsCall.model_validate(body_of(request))
        replaced: Conflict | None = None
        try:
            executor_check(name, call.incarnation)
        except Conflict as error:
            replaced = error
        ends = logs_append(name, [_piece(i, chunk) for i, chunk in enumerate(call.chunks)])
        # A replaced agent still sends the output of its runs: their leases decide whether it
        # counts. If no chunk counts, the agent is told that it was replaced.
        if replaced is not None and all(end.stale for end in ends):
            raise replaced
        progress_note(name, call.progress)
        outcomes = [_stored(chunk, end) for chunk, end in zip(call.chunks, ends, strict=True)]
        return _response(wire.LogsAnswer(chunks=outcomes))


def _response(answer: wire.WireModel) -> HttpResponse:
    """Return a response that pydantic serializes, since these answers may be long."""
    return HttpResponse(answer.model_dump_json(), content_type="application/json")


def _stored(chunk: wire.Chunk, end: LogEnd) -> wire.ChunkOutcome:
    return wire.ChunkOutcome(
        session_id=chunk.session_id,
        next_offset=end.next_offset,
        full=end.full,
        outcome="stale" if end.stale else "applied",
        tail_from=end.tail_from,
        tail_bytes=end.tail_bytes,
    )


def _piece(position: int, chunk: wire.Chunk) -> LogPiece:
    try:
        data = base64.b64decode(chunk.data, validate=True)
    except binascii.Error as error:
        raise InvalidInput({f"chunks[{position}].data": [f"is not base64: {error}"]}) from None
    return LogPiece(chunk.session_id, chunk.fencing_token, chunk.offset, data, chunk.tail)
