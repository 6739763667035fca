"""The filters of session lists. Each uses an index or looks at the newest sessions only."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter, TextFilter

from retry.evidence.causes import CANCELLED_CAUSES, RetryCause
from sessions_app.core.states import PENDING_PHASES, Phase, RetryState, Status, phase_of
from sessions_app.selectors.counts import newest_behind
from sessions_app.selectors.tenants import projects_all

NEWEST = 100_000
"""Most sessions to look at if no index serves a filter."""
PROJECT = "project__id__exact"


def newest_only(rows: QuerySet[Any], key: str) -> QuerySet[Any]:
    """Return the rows of the newest sessions; `key` is the path from a row to the session's id."""
    first = newest_behind(NEWEST)
    return rows if first is None else rows.filter(**{f"{key}__gt": first})


class SessionFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """The base of filters with a short list of words to choose from."""

    words: ClassVar[list[str]] = []
    prefix: ClassVar[str] = ""
    """The path from the listed row to its session."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word.replace("_", " ")) for word in self.words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the matching rows; unknown words filter nothing."""
        if self.value() not in self.words:
            return queryset
        word = str(self.value())
        wanted = {f"{self.prefix}{name}": value for name, value in self.wanted(word).items()}
        found = queryset.filter(**wanted)
        in_project = any(name.endswith(PROJECT) for name in request.GET)
        if self.indexed(word, in_project=in_project):
            return found
        return newest_only(found, f"{self.prefix}pk")

    def wanted(self, word: str) -> dict[str, Any]:
        """Return the conditions on a session for a word."""
        raise NotImplementedError

    def indexed(self, word: str, *, in_project: bool) -> bool:
        """Return whether an index serves the filter; by default only within one project."""
        return in_project


# A final status implies these causes, and causes have an index.
_CAUSES = {
    Status.TERMINATED: [""],
    Status.CANCELLED: [each.value for each in CANCELLED_CAUSES],
    Status.ERROR: [each.value for each in RetryCause if each not in CANCELLED_CAUSES],
}


class StatusFilter(SessionFilter):
    """Filters by status.

    Waiting and live statuses have indexes, final ones only within a project.
    """

    title = "status"
    parameter_name = "status"
    words = [status.value for status in Status]

    def wanted(self, word: str) -> dict[str, Any]:
        phase = phase_of(Status(word))
        phases = (
            [each.value for each in PENDING_PHASES] if word == Status.PENDING else [phase.value]
        )
        causes = {"retry_cause__in": _CAUSES[Status(word)]} if phase is Phase.FINAL else {}
        return {"status": word, "phase__in": phases, **causes}

    def indexed(self, word: str, *, in_project: bool) -> bool:
        return in_project or phase_of(Status(word)) is not Phase.FINAL


class CauseFilter(SessionFilter):
    """Filters by the cause of the failure."""

    title = "cause"
    parameter_name = "retry_cause"
    words = [cause.value for cause in RetryCause]

    def wanted(self, word: str) -> dict[str, Any]:
        return {"retry_cause": word, "phase": Phase.FINAL.value}


class RetryStateFilter(SessionFilter):
    """Filters by the retry state, which says what follows the end."""

    title = "retry state"
    parameter_name = "retry_state"
    words = [state.value for state in RetryState]

    def wanted(self, word: str) -> dict[str, Any]:
        return {"retry_state": word}

    def indexed(self, word: str, *, in_project: bool) -> bool:
        return word == RetryState.HELD


class SignatureFilter(TextFilter):  # type: ignore[misc]  # the theme is untyped
    """Filters by the signature of the failure, in the index of each project."""

    title = "signature"
    parameter_name = "signature"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the failures with this signature; nothing typed filters nothing."""
        key = str(self.value() or "").strip().lower()
        if not key:
            return queryset
        return queryset.filter(failure_signature=key, project__in=projects_all())
