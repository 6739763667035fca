"""Cancel and retry by filter: an outcome for each session that the filter means."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.api import responses
from sessions_app.api.filters import SessionConditions
from sessions_app.api.problems import problem_of
from sessions_app.api.requests import SessionRetry
from sessions_app.api.views import RestView, body_of
from sessions_app.authorization import Action
from sessions_app.errors import DomainError
from sessions_app.selectors import TipsPage, tips_page
from sessions_app.services.cancel import chains_cancel
from sessions_app.services.dispatch import BATCH
from sessions_app.services.manual_retry import Granted, sessions_retry_paced

MAX_SESSIONS = 1000
Done = TypeVar("Done")


class BulkAction(BaseModel):
    """Which sessions are meant, of a filter the newest attempts, and whether it is only a try."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    filter: SessionConditions
    dry_run: StrictBool = False
    """Say what would happen, and change nothing."""
    limit: Annotated[StrictInt, Field(ge=1, le=MAX_SESSIONS)] = MAX_SESSIONS
    """So many sessions in this call; `next` and `remaining` tell of the others."""
    after: UUID | None = None
    """`next` of the call before."""


class BulkCancel(BulkAction):
    """The body of `POST /sessions/bulk-cancel/`."""


class BulkRetry(BulkAction, SessionRetry):
    """The body of `POST /sessions/bulk-retry/`."""


class _BulkView(RestView):
    """Finds the sessions, has something done to those that it may be done to, tells of all."""

    body_limit = settings.BULK_BODY_LIMIT_BYTES

    def answer(
        self,
        asked: BulkAction,
        act: Callable[[Mapping[UUID, UUID]], Mapping[UUID, Done | DomainError]],
        render: Callable[[Done | DomainError], dict[str, Any]],
    ) -> Response:
        page = tips_page(
            self.actor,
            self.required_action,
            asked.filter.apply,
            after=asked.after,
            limit=asked.limit,
        )
        outcomes: dict[UUID, Done | DomainError] = dict(page.refusals)
        for part in _parts(page, whole=asked.dry_run):
            outcomes.update(act(part))
        body = {
            "dry_run": asked.dry_run,
            "results": [{"session_id": each, **render(outcomes[each])} for each in page.order],
            "next": page.next,
            "remaining": page.remaining,
        }
        return Response(body)


def _parts(page: TipsPage, *, whole: bool) -> Iterable[dict[UUID, UUID]]:
    """In transactions that are short; a dry run has to see all of them at once."""
    pairs = list(page.roots.items())
    size = len(pairs) if whole else BATCH
    return [dict(pairs[start : start + size]) for start in range(0, len(pairs), size or 1)]


class BulkRetryView(_BulkView):
    """`/sessions/bulk-retry/`."""

    actions: ClassVar = {"POST": Action.SESSION_RETRY}

    @extend_schema(
        operation_id="sessions_bulk_retry",
        request=BulkRetry,
        responses=responses.BulkRetryOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Retry by hand the newest attempts that a filter means, within the storm limits.

        Those over the limits are scheduled: each has its slot, and its retry comes then.
        """
        asked = BulkRetry.model_validate(body_of(request))

        def retry(roots: Mapping[UUID, UUID]) -> Mapping[UUID, Granted | DomainError]:
            return sessions_retry_paced(
                roots, by=self.actor.name, resources=asked.changes(), dry_run=asked.dry_run
            )

        return self.answer(asked, retry, _retry_json)


class BulkCancelView(_BulkView):
    """`/sessions/bulk-cancel/`."""

    actions: ClassVar = {"POST": Action.SESSION_CANCEL}

    @extend_schema(
        operation_id="sessions_bulk_cancel",
        request=BulkCancel,
        responses=responses.BulkCancelOutcomes,
    )
    def post(self, request: Request) -> Response:
        """Cancel the chains whose newest attempts a filter means."""
        asked = BulkCancel.model_validate(body_of(request))

        def cancel(roots: Mapping[UUID, UUID]) -> Mapping[UUID, DomainError | None]:
            refusals = chains_cancel(
                list(roots.values()), by=self.actor.name, dry_run=asked.dry_run
            )
            return {session_id: refusals[root_id] for session_id, root_id in roots.items()}

        return self.answer(asked, cancel, _cancel_json)


def _retry_json(outcome: Granted | DomainError) -> dict[str, Any]:
    if isinstance(outcome, DomainError):
        problem = problem_of(outcome)
        return {"outcome": "refused", "next_session_id": None, "due_at": None, "problem": problem}
    return {
        "outcome": "scheduled" if outcome.due_at else "retried",
        "next_session_id": outcome.child_id,
        "due_at": outcome.due_at,
        "problem": None,
    }


def _cancel_json(outcome: DomainError | None) -> dict[str, Any]:
    if outcome is None:
        return {"outcome": "cancelled", "problem": None}
    return {"outcome": "refused", "problem": problem_of(outcome)}
