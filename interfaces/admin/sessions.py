"""The pages of sessions: show, cancel, preempt, reprioritize, retry and give up."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from base.runlines.progress import without_progress
from interfaces.admin.base import (
    STATUS_LABELS,
    LookedUpAdmin,
    OwnPage,
    actor_of,
    column,
    operator,
    read_only,
)
from interfaces.admin.cells import change_url, past, short
from interfaces.admin.decision_page import decision_context
from interfaces.admin.filters import (
    CauseFilter,
    RetryStateFilter,
    SignatureFilter,
    StatusFilter,
)
from interfaces.render.session_render import attempt_json, decision_of, session_json
from sessions_app.core.errors import DomainError, NotFound
from sessions_app.core.progress_words import progress_shown
from sessions_app.core.retry_changes import changes_words
from sessions_app.core.states import WAITING_RETRY, Phase, RetryState, Status
from sessions_app.eventlog.event_json import event_json
from sessions_app.models import Session
from sessions_app.selectors.resource_changes import resources_granted
from sessions_app.selectors.session_pages import ids_beginning
from sessions_app.selectors.sessions import chain_attempts, session_events, session_get
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.chains.downstream import (
    downstream_of,
    downstream_words,
    session_retry_downstream,
)
from sessions_app.services.chains.parked import chain_give_up
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.logs import log_tail
from sessions_app.services.sessions.preempt import session_preempt
from sessions_app.services.sessions.prepared_actions import MOST, action_prepare

EVENTS = 200
LOG_LINES = 100


_Done = tuple[UUID, str]


def _cancel(found: Session, by: str, _sent: QueryDict) -> _Done:
    chain_cancel(found.root_id, by=by)
    return found.pk, "Its chain is cancelled."


def _preempt(found: Session, by: str, _sent: QueryDict) -> _Done:
    session_preempt(found.pk, by=by)
    return found.pk, "It is preempted."


def _retry(found: Session, by: str, sent: QueryDict) -> _Done:
    # Cluster admins may retry them all.
    down = downstream_of([found.root_id]) if "downstream" in sent else {}
    made = session_retry_downstream(found.pk, found.root_id, down, by=by)
    return made.child_id or found.pk, made.words


def _give_up(found: Session, by: str, _sent: QueryDict) -> _Done:
    chain_give_up(found.pk, found.root_id, by=by)
    return found.pk, "The chain has ended; it is no longer parked."


_ACTS: dict[str, Callable[[Session, str, QueryDict], _Done]] = {
    "cancel": _cancel,
    "preempt": _preempt,
    "retry": _retry,
    "give_up": _give_up,
}
"""What the buttons of a page do. They return the session to show, and what is said then."""


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
        SignatureFilter,
        ("project", AutocompleteSelectFilter),
        ("queue", AutocompleteSelectFilter),
        ("owner", AutocompleteSelectFilter),
    )
    search_fields = ("pk",)
    search_help_text = "the start of an id, or of a chain's name"
    list_before_template = "admin/sessions_note.html"
    actions: Any = (
        *("cancel_chains", "preempt_sessions", "prioritize_sessions"),
        *("retry_sessions", "give_up_chains"),
    )

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
        act = _ACTS.get(request.POST.get("do", ""))
        back = HttpResponseRedirect(change_url("session", session_id))
        if request.method != "POST" or act is None:
            messages.error(request, "A session can be cancelled, preempted, retried or given up.")
            return back
        try:
            found = session_get(actor_of(request), session_id)
            shown, done = act(found, operator(request), request.POST)
        except NotFound:
            return self.missing(request, session_id)
        except DomainError as error:
            messages.error(request, f"{error.detail[:1].upper()}{error.detail[1:]}.")
            return back
        messages.success(request, done)
        return HttpResponseRedirect(change_url("session", shown))

    @admin.action(description="Cancel the chains", permissions=["view"])
    def cancel_chains(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Cancel the chains of the chosen sessions."""
        return self._bulk(request, rows, "cancel")

    @admin.action(description="Preempt", permissions=["view"])
    def preempt_sessions(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Preempt the chosen sessions that run."""
        return self._bulk(request, rows, "preempt")

    @admin.action(description="Change the priority", permissions=["view"])
    def prioritize_sessions(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Change the priority of the chosen sessions that wait."""
        return self._bulk(request, rows, "priority")

    @admin.action(description="Retry now", permissions=["view"])
    def retry_sessions(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """Retry the chosen sessions that are the newest of their chains."""
        return self._bulk(request, rows, "retry")

    @admin.action(description="Give up parked chains", permissions=["view"])
    def give_up_chains(self, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        """End the chains of the chosen sessions that are parked."""
        return self._bulk(request, rows, "give_up")

    def _bulk(self, request: HttpRequest, rows: QuerySet[Any], act: str) -> HttpResponse | None:
        """Find out on which of them the act is possible. The web pages ask, and do it."""
        chosen = list(rows.order_by("-pk").values_list("pk", flat=True)[: MOST + 1])
        if len(chosen) > MOST:
            text = f"More than {MOST:,} sessions were chosen. Nothing was done: choose fewer."
            messages.error(request, text)
            return None
        back = request.get_full_path()
        prepared = action_prepare(actor_of(request), act, chosen, query=back)
        return redirect("many-sessions", prepared.pk)

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


def _page(found: Session, request: HttpRequest) -> dict[str, Any]:
    """Return the context of a session's page."""
    chain = chain_attempts(found)
    decision = decision_of(found)
    events = list(session_events(found)[: EVENTS + 1])
    granted = resources_granted(chain)
    tip = chain[-1]
    over = tip.phase == Phase.FINAL and tip.retry_state not in WAITING_RETRY
    failed = found.pk == tip.pk and found.status in {Status.ERROR, Status.CANCELLED}
    shown = session_json(found, actor_of(request))
    return {
        "session": shown,
        "progress": progress_shown(shown["progress"], live=found.finished_at is None),
        "attempts": [_attempt(attempt) | {"granted": granted.get(attempt.pk)} for attempt in chain],
        "children": [a for a in chain if a.parent_id == found.pk],
        **(decision_context(found, decision) if decision else {"decision": None}),
        "events": [event_json(event) for event in events[:EVENTS]],
        "more_events": len(events) > EVENTS,
        "log": without_progress(log_tail(found.pk, LOG_LINES)),
        "log_lines": LOG_LINES,
        "cancellable": not over and found.root.cancel_requested_at is None,
        "preemptible": found.phase == Phase.LIVE and found.status != Status.TERMINATING,
        "retryable": failed,
        "parked": found.pk == tip.pk and found.retry_state == RetryState.PARKED,
        "downstream": downstream_words(found.root_id) if failed else "",
        "retry_changes_url": reverse("session-retry-changes", args=[found.pk]),
        "status_label": STATUS_LABELS[found.status],
    }


def _attempt(attempt: Session) -> dict[str, Any]:
    decision = decision_of(attempt)
    shown = attempt_json(attempt)
    return {
        **shown,
        "told": progress_shown(shown["progress"], live=attempt.finished_at is None),
        "changed": changes_words(attempt.changes),
        "label": STATUS_LABELS[attempt.status],
        "preemption": attempt.preemption,
        "delay": decision.delay if decision and decision.action == "retry" else None,
    }
