"""Checks that a measured run must pass before its figure may be printed.

The run did all the work that it seems to have done: one event for each transition, a decision with
its trace for each failure, an audit row for each dispatch, a log that folds to the rows, and nobody
behind who reads on.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

ATTEMPT = ("submitted", "scheduled", "preparing")
"""Events of every attempt of the load."""
FAILURE = ("error", "retry_scheduled", "retry_dispatched")


def require_whole(project: str, chains: int, failures: int) -> None:
    """Exit with the reason unless this many chains of a project have ended as they should.

    Each has this number of failures, and then a success. All invariants of the tests hold.
    """
    from sessions_app.models import Project, Session
    from tests.invariants import check_all

    place = Project.objects.get(name=project)
    sessions = Session.objects.filter(project=place)
    failed = list(sessions.filter(status="ERROR").values_list("pk", flat=True))
    attempts = sessions.count()
    _require("attempts", attempts, chains * (failures + 1))
    _require("failures", len(failed), chains * failures)
    _require_events(
        place.pk,
        dict.fromkeys(ATTEMPT, attempts) | dict.fromkeys(FAILURE, len(failed)),
        terminated=chains,
        retry_succeeded=chains,
    )
    require_decided(failed)
    _require_nobody_behind()
    if wrong := check_all(place):
        raise SystemExit(f"{len(wrong)} records are wrong, the first one: {wrong[0]}")


def require_decided(failed: Collection[UUID]) -> None:
    """Exit with the reason unless each of these was decided, dispatched and audited once."""
    from sessions_app.models import AutomaticDispatch, RetryDecision, RetryTrace, SessionEvent

    decisions = RetryDecision.objects.filter(session__in=failed, state="dispatched")
    decided = decisions.filter(next_session_id__isnull=False)
    traced = RetryTrace.objects.exclude(steps=[]).filter(decision__in=decided)
    _require("decisions with a trace and a child", traced.count(), len(failed))
    recorded = SessionEvent.objects.filter(session_id__in=failed)
    for kind in FAILURE:
        events = recorded.filter(type=f"session.{kind}")
        _require(
            f"sessions with one event {kind}",
            events.values("session_id").distinct().count(),
            len(failed),
        )
        _require(f"events {kind}", events.count(), len(failed))
    audited = AutomaticDispatch.objects.filter(object_id__in=[str(each) for each in failed])
    _require("audit rows", audited.count(), len(failed))


def _require_events(project_id: int, expected: Mapping[str, int], **others: int) -> None:
    from django.db.models import Count

    from sessions_app.models import SessionEvent

    recorded = SessionEvent.objects.filter(project_id=project_id).order_by()
    found = Counter(dict(recorded.values_list("type").annotate(number=Count("pk"))))
    wanted = {f"session.{kind}": number for kind, number in {**expected, **others}.items()}
    _require("events by type", dict(found), wanted)


def _require_nobody_behind() -> None:
    """Exit with the reason if a webhook has events left to send.

    That streams tell every event is one of the invariants.
    """
    from sessions_app.models import WebhookDelivery

    waiting = WebhookDelivery.objects.filter(finished_at=None)
    _require("webhook deliveries that wait", waiting.count(), 0)


def _require(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise SystemExit(f"the run is not what it seems: {what}: {found}, expected {expected}")
