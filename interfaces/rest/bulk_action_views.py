"""Cancel, give up, preempt, retry and update by filter, with an outcome for each session."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.calls import bulk as operations
from interfaces.calls.bulk import (
    BulkCancel,
    BulkGiveUp,
    BulkPreempt,
    BulkRetry,
    BulkUpdate,
    Outcomes,
)
from interfaces.http.problems import problem_of
from interfaces.http.views import RestView, body_of
from interfaces.shapes import bulk_shapes
from sessions_app.authorization import Action
from sessions_app.core.errors import DomainError
from sessions_app.services.chains.manual_retry import Granted

Done = TypeVar("Done")


class _BulkView(RestView):
    """The base of views with an outcome for each session."""

    body_limit = settings.BULK_BODY_LIMIT_BYTES

    def answer(
        self, done: Outcomes[Done], render: Callable[[Done | DomainError], dict[str, Any]]
    ) -> Response:
        page = done.page
        body = {
            "dry_run": done.dry_run,
            "results": [{"session_id": each, **render(done.each[each])} for each in page.order],
            "next": page.next,
            "remaining": page.remaining,
            **({"downstream": done.downstream} if done.downstream else {}),
        }
        return Response(body)


class BulkRetryView(_BulkView):
    """`/sessions/bulk-retry/`."""

    actions: ClassVar = {"POST": Action.SESSION_RETRY}

    @extend_schema(
        operation_id="sessions_bulk_retry",
        request=BulkRetry,
        responses=bulk_shapes.BulkRetryOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Retry by hand the newest attempts that match a filter, within the storm limits.

        Retries over the limits are scheduled: each gets a slot, and is retried at that time.
        With `downstream`, nothing is retried if one of the sessions downstream may not be.
        """
        return self.answer(operations.sessions_retry(self.actor, body_of(request)), _retry_json)


class BulkCancelView(_BulkView):
    """`/sessions/bulk-cancel/`."""

    actions: ClassVar = {"POST": Action.SESSION_CANCEL}

    @extend_schema(
        operation_id="sessions_bulk_cancel",
        request=BulkCancel,
        responses=bulk_shapes.BulkCancelOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Cancel the chains whose newest attempts match a filter."""
        done = operations.sessions_cancel(self.actor, body_of(request))
        return self.answer(done, partial(_done_json, "cancelled"))


class BulkGiveUpView(_BulkView):
    """`/sessions/bulk-give-up/`."""

    actions: ClassVar = {"POST": Action.SESSION_GIVE_UP}

    @extend_schema(
        operation_id="sessions_bulk_give_up",
        request=BulkGiveUp,
        responses=bulk_shapes.BulkGiveUpOutcomes,
    )
    def post(self, request: Request) -> Response:
        """End the parked chains whose newest attempts match a filter; they are exhausted then."""
        done = operations.sessions_give_up(self.actor, body_of(request))
        return self.answer(done, partial(_done_json, "given_up"))


class BulkPreemptView(_BulkView):
    """`/sessions/bulk-preempt/`."""

    actions: ClassVar = {"POST": Action.SESSION_PREEMPT}

    @extend_schema(
        operation_id="sessions_bulk_preempt",
        request=BulkPreempt,
        responses=bulk_shapes.BulkPreemptOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Preempt the newest attempts that match a filter and run."""
        done = operations.sessions_preempt_matching(self.actor, body_of(request))
        return self.answer(done, partial(_done_json, "preempted"))


class BulkUpdateView(_BulkView):
    """`/sessions/bulk-update/`."""

    actions: ClassVar = {"POST": Action.SESSION_UPDATE}

    @extend_schema(
        operation_id="sessions_bulk_update",
        request=BulkUpdate,
        responses=bulk_shapes.BulkUpdateOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Change the priority of the newest attempts that match a filter and wait."""
        done = operations.sessions_update(self.actor, body_of(request))
        return self.answer(done, partial(_done_json, "updated"))


def _retry_json(outcome: Granted | DomainError) -> dict[str, Any]:
    if isinstance(outcome, DomainError):
        problem = problem_of(outcome)
        return {"outcome": "refused", "next_session_id": None, "due_at": None, "problem": problem}
    told = {"secrets_dropped": outcome.secrets_dropped, "warnings": outcome.warnings}
    return {
        "outcome": "scheduled" if outcome.due_at else "retried",
        "next_session_id": outcome.child_id,
        "due_at": outcome.due_at,
        "problem": None,
        **{name: value for name, value in told.items() if value},
    }


def _done_json(word: str, outcome: DomainError | None) -> dict[str, Any]:
    if outcome is None:
        return {"outcome": word, "problem": None}
    return {"outcome": "refused", "problem": problem_of(outcome)}
