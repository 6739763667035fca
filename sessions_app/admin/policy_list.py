"""The list of named policies: what each says and where it is named, in a few queries for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import DropdownFilter

from sessions_app.admin.base import OperatorChangeList
from sessions_app.in_force.policy_uses import PolicyUses, policies_uses
from sessions_app.models import Project, RetryPolicy, RetryPolicyRevision
from sessions_app.selectors.policies import policies_within_reach, reading_of, revisions_current

OFFERED = 30
"""Policies that a form names as those to choose from."""
NAMED = 3
"""Queues that a line of the list names."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a line of the list says beside the policy's own row."""

    revision: RetryPolicyRevision
    uses: PolicyUses

    @property
    def rules(self) -> int:
        """How many rules it has."""
        return len(reading_of(self.revision).document.spec.rules or ())

    @property
    def places(self) -> list[str]:
        """Where it is named."""
        return [*(["the default"] if self.uses.default else []), *self.uses.queues]


class PolicyChangeList(OperatorChangeList):
    """Reads what belongs to the policies of a page in a few queries for all of them."""

    def get_results(self, request: HttpRequest) -> None:
        """Django's hook."""
        super().get_results(request)
        policies: list[Any] = list(self.result_list)  # type: ignore[has-type]  # likewise
        told = _told(policies)
        for policy in policies:
            policy.told = told[policy.pk]
        self.result_list = policies


def _told(policies: Sequence[RetryPolicy]) -> dict[int, Told]:
    revisions = revisions_current(policies)
    uses = policies_uses(policies)
    return {each.pk: Told(revisions[each.pk], uses[each.pk]) for each in policies}


class PolicyFilter(DropdownFilter):  # type: ignore[misc]  # the theme is untyped
    """Base: one of a few words, each with its condition."""

    words: dict[str, Q]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Django's hook."""
        return [(word, word) for word in self.words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Django's hook; what is no word of the list filters nothing."""
        return queryset.filter(self.words.get(str(self.value()), Q()))


class StateFilter(PolicyFilter):
    """Whether it can be named."""

    title = "state"
    parameter_name = "state"
    words = {
        "in force": Q(archived_at__isnull=True),
        "archived": Q(archived_at__isnull=False),
    }


class LevelFilter(PolicyFilter):
    """The kind of scope that it belongs to."""

    title = "level"
    parameter_name = "level"
    words = {
        "cluster": Q(domain=None, project=None),
        "domain": Q(domain__isnull=False),
        "project": Q(project__isnull=False),
    }


def policies_offered(project: Project | None) -> str:
    """What can be named within a project, or (None) as the cluster's default, in words."""
    known = policies_within_reach(project)
    names = [str(name) for name in known.values_list("name", flat=True)[: OFFERED + 1]]
    if not names:
        return "there is none within reach yet"
    return f"within reach: {', '.join(names[:OFFERED])}{' and more' * (len(names) > OFFERED)}"
