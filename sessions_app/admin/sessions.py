"""The pages of sessions: show, cancel, preempt and retry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from sessions_app.admin.base import (
    STATUS_LABELS,
    LookedUpAdmin,
    OwnPage,
    actor_of,
    column,
    operator,
    read_only,
)
from sessions_app.admin.cells import change_url, past, short
from sessions_app.admin.decision_page import decision_context
from sessions_app.admin.filters import CauseFilter, RetryStateFilter, StatusFilter
from sessions_app.api.render.session_render import attempt_json, decision_of, session_json
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.core.states import Phase, Status
from sessions_app.eventlog.event_json import event_json
from sessions_app.models import Session
from sessions_app.selectors.resource_changes import resources_granted
from sessions_app.selectors.session_pages import ids_beginning
from sessions_app.selectors.sessions import chain_attempts, session_events, session_get
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.chains.manual_retry import Granted, sessions_retry, sessions_retry_paced
from sessions_app.services.sessions.cancel import chains_cancel
from sessions_app.services.sessions.logs import log_tail
from sessions_app.services.sessions.preempt import sessions_preempt

MOST = 500
"""Most sessions for one action."""
SLICE = 100
"""Sessions that are changed in one transaction, so that transactions stay short."""
EVENTS = 200
LOG_LINES = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action on one session."""

    session_id: UUID
    done: bool
    text: str
    child_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """An action of operators on sessions."""

    name: str
    title: str
    warning: str
    run: Callable[[Mapping[UUID, UUID], str], list[Outcome]]


def _cancel(roots: Mapping[UUID, UUID], by: str) -> list[Outcome]:
    refusals = chains_cancel(list(dict.fromkeys(roots.values())), by=by)
    return [
        Outcome(
            session_id, refusal is None, refusal.detail if refusal else "its chain is cancelled"
        )
        for session_id, refusal in ((each, refusals[root]) for each, root in roots.items())
    ]


def _preempt(roots: Mapping[UUID, UUID], by: str) -> list[Outcome]:
    refusals = sessions_preempt(list(roots), by=by)
    return [
        Outcome(session_id, refusal is None, refusal.detail if refusal else "it is preempted")
        for session_id, refusal in refusals.items()
    ]


def _retry(roots: Mapping[UUID, UUID], by: str) -> list[Outcome]:
    # A single retry is not delayed by storm limits, as everywhere else.
    retry = sessions_retry_paced if len(roots) > 1 else sessions_retry
    return [_retried(session_id, each) for session_id, each in retry(roots, by=by).items()]


def _retried(session_id: UUID, outcome: UUID | Granted | DomainError) -> Outcome:
    if isinstance(outcome, DomainError):
        return Outcome(session_id, False, outcome.detail)
    if isinstance(outcome, Granted) and outcome.due_at is not None:
        return Outcome(session_id, True, f"it has its slot at {outcome.due_at:%Y-%m-%d %H:%M:%S}")
    child = outcome.child_id if isinstance(outcome, Granted) else outcome
    return Outcome(session_id, True, "there is a new attempt:", child)


ACTS = {
    act.name: act
    for act in (
        Act(
            "cancel",
            "Cancel the chains",
            "What waits ends at once, what runs is stopped by its executor, and no retry follows.",
            _cancel,
        ),
        Act(
            "preempt",
            "Preempt",
            "Their executors stop them; what comes next is decided as after any preemption. What "
            "is not a batch session, or has no retry left, ends for good.",
            _preempt,
        ),
        Act(
            "retry",
            "Retry now",
            "Each gets another attempt, at once as far as the limits of retries a minute go; a "
            "retry that waits is brought forward and pays its own budget.",
            _retry,
        ),
    )
}


def act_on(act: Act, roots: Mapping[UUID, UUID], *, by: str) -> list[Outcome]:
    """Run the action on sessions (id -> root) in several transactions.

    Return an outcome for each session, in order.
    """
    pairs = list(roots.items())
    outcomes: list[Outcome] = []
    for start in range(0, len(pairs), SLICE):
        outcomes += act.run(dict(pairs[start : start + SLICE]), by)
    return outcomes


@admin.register(Session)
class SessionAdmin(OwnPage, LookedUpAdmin):
    """All attempts, newest first."""

    list_display = (
        "short_id",
        "name",
        "line",
        "state",
        "attempt",
        "cause",
        "retry",
        "owner",
        "place",
        "created",
    )
    list_select_related = ("project__domain", "queue", "owner")
    list_filter = (
        StatusFilter,
        CauseFilter,
        RetryStateFilter,
        ("project", AutocompleteSelectFilter),
        ("queue", AutocompleteSelectFilter),
        ("owner", AutocompleteSelectFilter),
    )
    search_fields = ("pk",)
    search_help_text = "the beginning of an id, or of a chain's name"
    list_before_template = "admin/sessions_note.html"
    actions: Any = ("cancel_chains", "preempt_sessions", "retry_sessions")

    def found(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """Search by a range of ids, or by the beginning of a chain's name within each project."""
        ids = ids_beginning(text)
        if ids is not None and queryset.filter(pk__range=ids).exists():
            return queryset.filter(pk__range=ids)
        named = queryset.filter(name__startswith=text, parent__isnull=True).exclude(name="")
        return named.filter(project__in=projects_all())

    def get_urls(self) -> list[URLPattern]:
        """Add the address to which the buttons of a session post."""
        view = self.admin_site.admin_view(self.act_view)
        acting = path("<uuid:session_id>/act/", view, name="sessions_app_session_act")
        found: list[URLPattern] = super().get_urls()
        return [acting, *found]

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return a read-only page of the session."""
        read_only(request, object_id)
        try:
            found = session_get(actor_of(request), UUID(str(object_id)))
        except (ValueError, NotFound):
            return self.missing(request, object_id)
        title = found.name or str(found.pk)
        return self.render(request, "session", title, original=found, **_page(found, request))

    def act_view(self, request: HttpRequest, session_id: UUID) -> HttpResponse:
        """Do what the pressed button says, and show the page again."""
        act = ACTS.get(request.POST.get("do", ""))
        back = HttpResponseRedirect(change_url("session", session_id))
        if request.method != "POST" or act is None:
            messages.error(request, "A session can be cancelled, preempted or retried.")
            return back
        try:
            found = session_get(actor_of(request), session_id)
        except NotFound:
            return self.missing(request, session_id)
        (outcome,) = act_on(act, {found.pk: found.root_id}, by=operator(request))
        level = messages.SUCCESS if outcome.done else messages.ERROR
        text = "There is a new attempt: this one." if outcome.child_id else _sentence(outcome.text)
        messages.add_message(request, level, text)
        if outcome.child_id:
            return HttpResponseRedirect(change_url("session", outcome.child_id))
        return back

    @admin.action(description="Cancel the chains", permissions=["view"])
    def cancel_chains(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Cancel the chains of the chosen sessions."""
        return self._bulk(request, rows, "cancel")

    @admin.action(description="Preempt", permissions=["view"])
    def preempt_sessions(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Preempt the chosen sessions that run."""
        return self._bulk(request, rows, "preempt")

    @admin.action(description="Retry now", permissions=["view"])
    def retry_sessions(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Retry the chosen sessions that are the newest of their chains."""
        return self._bulk(request, rows, "retry")

    def _bulk(self, request: HttpRequest, rows: QuerySet[Any], name: str) -> HttpResponse | None:
        act = ACTS[name]
        chosen = dict(rows.order_by("-pk").values_list("pk", "root_id")[: MOST + 1])
        if len(chosen) > MOST:
            text = f"These are more than {MOST:,} sessions. Choose fewer: nothing was done."
            messages.error(request, text)
            return None
        context = {"act": act, "action_name": request.POST.get("action"), "chosen": chosen}
        if "confirmed" not in request.POST:
            return self.render(request, "act_confirm", act.title, **context)
        outcomes = act_on(act, chosen, by=operator(request))
        done = sum(outcome.done for outcome in outcomes)
        return self.render(request, "outcomes", act.title, outcomes=outcomes, done=done, **context)

    @column("session")
    def short_id(self, session: Session) -> SafeString:
        return short(session.pk)

    @column("queue")
    def line(self, session: Session) -> str:
        return f"{session.project.address}/{session.queue.name}"

    @column("status", label=STATUS_LABELS)
    def state(self, session: Session) -> str:
        return session.status

    @column("attempt")
    def attempt(self, session: Session) -> int:
        return session.retry_count + 1

    @column("cause")
    def cause(self, session: Session) -> str:
        code = "" if session.exit_code is None else f" ({session.exit_code})"
        return f"{session.retry_cause.replace('_', ' ')}{code}" if session.retry_cause else "-"

    @column("retry")
    def retry(self, session: Session) -> str:
        return "-" if session.retry_state == "none" else session.retry_state.replace("_", " ")

    @column("executor / node")
    def place(self, session: Session) -> str:
        return " / ".join(part for part in (session.executor, session.node) if part) or "-"

    @column("created")
    def created(self, session: Session) -> str:
        return past(session.created_at)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _page(found: Session, request: HttpRequest) -> dict[str, Any]:
    """Return the context of a session's page."""
    chain = chain_attempts(found)
    decision = decision_of(found)
    events = list(session_events(found)[: EVENTS + 1])
    granted = resources_granted(chain)
    tip = chain[-1]
    over = tip.phase == Phase.FINAL and tip.retry_state not in {"scheduled", "held"}
    failed = found.pk == tip.pk and found.status in {Status.ERROR, Status.CANCELLED}
    return {
        "session": session_json(found, actor_of(request)),
        "attempts": [_attempt(attempt) | {"granted": granted.get(attempt.pk)} for attempt in chain],
        "children": [a for a in chain if a.parent_id == found.pk],
        **(decision_context(found, decision) if decision else {"decision": None}),
        "events": [event_json(event) for event in events[:EVENTS]],
        "more_events": len(events) > EVENTS,
        "log": log_tail(found.pk, LOG_LINES),
        "log_lines": LOG_LINES,
        "cancellable": not over and found.root.cancel_requested_at is None,
        "preemptible": found.phase == Phase.LIVE and found.status != Status.TERMINATING,
        "retryable": failed,
        "status_label": STATUS_LABELS[found.status],
    }


def _attempt(attempt: Session) -> dict[str, Any]:
    decision = decision_of(attempt)
    return {
        **attempt_json(attempt),
        "label": STATUS_LABELS[attempt.status],
        "preemption": attempt.preemption,
        "delay": decision.delay if decision and decision.action == "retry" else None,
    }
