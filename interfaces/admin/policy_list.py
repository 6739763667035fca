"""The list of named policies: what each says and where it is used, in a few queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from interfaces.admin.base import OperatorChangeList
from sessions_app.in_force.policy_uses import PolicyUses, policies_uses
from sessions_app.models import RetryPolicy, RetryPolicyRevision
from sessions_app.selectors.policies import reading_of, revisions_current

NAMED = 3
"""Most queues that a row of the list names."""


@dataclass(frozen=True, slots=True)
class Details:
    """The further data of one row of the list."""

    revision: RetryPolicyRevision
    uses: PolicyUses

    @property
    def rules(self) -> int:
        """Return the number of rules."""
        return len(reading_of(self.revision).document.spec.rules or ())

    @property
    def places(self) -> list[str]:
        """Return the places that use the policy."""
        return [*(["the default"] if self.uses.default else []), *self.uses.queues]


class PolicyChangeList(OperatorChangeList):
    """The list. It reads the data of all policies of a page in a few queries."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the page, and attach the data of its policies."""
        super().get_results(request)
        policies: list[Any] = list(self.result_list)  # type: ignore[has-type]  # likewise
        details = _details_of(policies)
        for policy in policies:
            policy.details = details[policy.pk]
        self.result_list = policies


def _details_of(policies: Sequence[RetryPolicy]) -> dict[int, Details]:
    revisions = revisions_current(policies)
    uses = policies_uses(policies)
    return {each.pk: Details(revisions[each.pk], uses[each.pk]) for each in policies}


class PolicyFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """The base of filters with a short list of words, each with a condition."""

    words: dict[str, Q]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, word) for word in self.words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the matching rows; unknown words filter nothing."""
        return queryset.filter(self.words.get(str(self.value()), Q()))


class StateFilter(PolicyFilter):
    """Filters by whether new chains can use the policy."""

    title = "state"
    parameter_name = "state"
    words = {
        "in force": Q(archived_at__isnull=True),
        "archived": Q(archived_at__isnull=False),
    }


class LevelFilter(PolicyFilter):
    """Filters by the kind of scope that the policy belongs to."""

    title = "level"
    parameter_name = "level"
    words = {
        "cluster": Q(domain=None, project=None),
        "domain": Q(domain__isnull=False),
        "project": Q(project__isnull=False),
    }
