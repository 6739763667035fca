"""The pages of decisions after failures: what, when, why, and which budget pays."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter, DropdownFilter

from interfaces.admin.base import LookedUpAdmin, OwnPage, column, read_only
from interfaces.admin.cells import coming, past, session_link, short
from interfaces.admin.decision_page import decision_context
from interfaces.admin.filters import CauseFilter, RetryStateFilter
from retry.engine.decision import BREAKER, PARKED, SHARED_BUDGET, SWITCH
from retry.units.durations import in_words
from sessions_app.models import RetryDecision
from sessions_app.selectors.session_pages import ids_beginning


class DecisionCauseFilter(CauseFilter):
    """Filters by the cause of the failed session."""

    prefix = "session__"


class DecisionStateFilter(RetryStateFilter):
    """Filters by the retry state of the failed session."""

    prefix = "session__"


class HeldForFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """Filters by what holds a retry. Each kind has its index of held decisions."""

    title = "held for"
    parameter_name = "held_for"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, kind.replace("_", " ")) for kind in _HOLDS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return what is held so; unknown words filter nothing."""
        kind = str(self.value())
        return queryset.filter(state="held", held_for=kind) if kind in _HOLDS else queryset


_HOLDS = (SWITCH, BREAKER, SHARED_BUDGET, PARKED)
"""What can hold a retry."""


@admin.register(RetryDecision)
class RetryDecisionAdmin(OwnPage, LookedUpAdmin):
    """The decisions, one for each failed session, newest session first."""

    list_display = (
        "failed",
        "project",
        "verdict",
        "held",
        "reason",
        "cause",
        "payer",
        "seconds",
        "due",
        "child",
        "decided",
    )
    joined = ("session__project__domain",)
    list_filter = (
        DecisionStateFilter,
        HeldForFilter,
        DecisionCauseFilter,
        ("session__project", AutocompleteSelectFilter),
    )
    search_fields = ("pk",)
    search_help_text = "the start of the failed session's id"

    def found(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """Search by a range of ids."""
        ids = ids_beginning(text)
        return queryset.none() if ids is None else queryset.filter(pk__range=ids)

    def show(self, request: HttpRequest, object_id: str | None) -> HttpResponse:
        """Return a read-only page of the decision."""
        read_only(request, object_id)
        found = self.get_object(request, str(object_id))
        if found is None:
            return self.missing(request, object_id)
        return self.render(
            request,
            "decision",
            f"Decision about {found.session.name or found.pk}",
            original=found,
            session=found.session,
            **decision_context(found.session, found),
        )

    @column("failed session")
    def failed(self, decision: RetryDecision) -> SafeString:
        return short(decision.pk)

    @column("project")
    def project(self, decision: RetryDecision) -> str:
        return decision.session.project.address

    @column(
        "state",
        label={
            "scheduled": "info",
            "held": "warning",
            "dispatched": "success",
            "cancelled": "default",
            "final": "danger",
        },
    )
    def verdict(self, decision: RetryDecision) -> str:
        return decision.state

    @column("held for")
    def held(self, decision: RetryDecision) -> str:
        if decision.state != "held":
            return "-"
        kind = decision.held_for.replace("_", " ")
        return f"{kind}: {decision.held_key}" if decision.held_key else kind

    @column("rule or budget")
    def payer(self, decision: RetryDecision) -> str:
        if not decision.paid_by:
            return decision.rule or "-"
        of = "" if decision.limit is None else f" of {decision.limit}"
        return f"{decision.paid_by}: {(decision.used or 0) + 1}{of}"

    @column("delay")
    def seconds(self, decision: RetryDecision) -> str:
        return "-" if decision.delay is None else in_words(decision.delay)

    @column("due")
    def due(self, decision: RetryDecision) -> str:
        return coming(decision.due_at) if decision.state == "scheduled" else "-"

    @column("next attempt")
    def child(self, decision: RetryDecision) -> str:
        return session_link(decision.next_session_id) or "-"

    @column("decided")
    def decided(self, decision: RetryDecision) -> str:
        return past(decision.decided_at)
