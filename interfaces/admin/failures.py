"""The pages of failures: the signatures of all projects, with what became of them."""

import re
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from interfaces.admin.base import LookedUpAdmin, column, operator
from interfaces.admin.cells import link, past, session_link
from interfaces.admin.filters import CauseFilter
from retry.units.durations import in_words
from sessions_app.models import FailureSignature
from sessions_app.models.failures import OTHER
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.failures.mute import failures_mute

_BEGINNING = re.compile(r"[0-9a-f]{1,12}", re.ASCII)


class FailureCauseFilter(CauseFilter):
    """Filters by the cause. A project has few signatures, so none is left out."""

    def wanted(self, word: str) -> dict[str, Any]:
        return {"cause": word}

    def indexed(self, word: str, *, in_project: bool) -> bool:
        return True


@admin.register(FailureSignature)
class FailureAdmin(LookedUpAdmin):
    """The failures of all projects by their signatures, those seen last first."""

    list_display = (
        "key",
        "title",
        "cause_words",
        "exit_code",
        "project",
        "muted",
        "first",
        "last",
        "sessions",
        "chains",
        "recovered",
        "pages",
    )
    joined = ("project__domain",)
    list_filter = (FailureCauseFilter, "muted", ("project", AutocompleteSelectFilter))
    search_fields = ("key",)
    search_help_text = "the start of a key"
    ordering = ("-last_seen", "pk")
    fields = (
        "key", "title", "cause_words", "exit_code", "project", "muted", "first_seen", "last_seen",
        "sessions",
        "chains", "recovered_chains", "lost", "newest", "pages",
    )  # fmt: skip
    readonly_fields = ("cause_words", "lost", "newest", "pages")
    actions: Any = ("mute", "unmute")

    def found(self, queryset: QuerySet[Any], text: str) -> QuerySet[Any]:
        """Search by a range of keys, in the index of each project."""
        key = text.lower()
        found = queryset.filter(project__in=projects_all())
        if key == OTHER:
            return found.filter(key=key)
        if not _BEGINNING.fullmatch(key):
            return queryset.none()
        return found.filter(key__range=(key, key.ljust(12, "f")))

    def audited_as(self, record: Any) -> tuple[str, str]:
        """Return the type and the id in the audit log: no project is in them."""
        return "failure", record.key

    @admin.action(description="Mute", permissions=["view"])
    def mute(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Mute the chosen failures: they open no breaker, and lists of people leave them out."""
        self._mute(request, chosen, muted=True)

    @admin.action(description="Take back the muting", permissions=["view"])
    def unmute(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Take back the muting of the chosen failures."""
        self._mute(request, chosen, muted=False)

    def _mute(self, request: HttpRequest, chosen: QuerySet[Any], *, muted: bool) -> None:
        rows = list(chosen.values_list("pk", flat=True))
        done = failures_mute(rows, muted=muted, by=operator(request))
        noun = "failure is" if done == 1 else "failures are"
        messages.success(request, f"{done} {noun} {'muted' if muted else 'no longer muted'}.")

    @column("cause")
    def cause_words(self, failure: FailureSignature) -> str:
        return failure.cause.replace("_", " ")

    @column("first seen")
    def first(self, failure: FailureSignature) -> str:
        return past(failure.first_seen)

    @column("last seen")
    def last(self, failure: FailureSignature) -> str:
        return past(failure.last_seen)

    @column("recovered")
    def recovered(self, failure: FailureSignature) -> int:
        return failure.recovered_chains

    @column("lost run time")
    def lost(self, failure: FailureSignature) -> str:
        return in_words(failure.lost_run_seconds)

    @column("newest session")
    def newest(self, failure: FailureSignature) -> SafeString | str:
        return session_link(failure.example, str(failure.example))

    @column("pages")
    def pages(self, failure: FailureSignature) -> SafeString:
        """Return links to its sessions, to its breakers and to its page for users."""
        own = f"?signature={failure.key}&project__id__exact={failure.project_id}"
        sessions = f"{reverse('admin:sessions_app_session_changelist')}{own}"
        breakers = f"{reverse('admin:sessions_app_breaker_changelist')}?q={failure.key}"
        at = (failure.project.domain.name, failure.project.name, failure.key)
        shown = link(sessions, "sessions"), link(breakers, "breakers")
        page = link(reverse("project-failure", args=at), "page for users")
        return format_html("{} · {} · {}", *shown, page)
