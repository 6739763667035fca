"""The texts of a queue: its policies, its limits and its times, one in each line, and its breaker
and retry budget as JSON."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from interfaces.forms.json_settings import BREAKER, BUDGET, breaker_field, budget_field
from sessions_app.core.errors import InvalidInput
from sessions_app.core.time_limits import time_limits_check, time_limits_words
from sessions_app.models import Project, Queue
from sessions_app.selectors.policies import policies_in_scope
from sessions_app.services.resources.policy_names import FIELD, policies_require
from sessions_app.services.resources.queues import limits_check

LIMITS = "resource_limits"
TIMES = "time_limits"
OFFERED = 30
"""Most policies that a form suggests."""


def _lines() -> forms.Textarea:
    return forms.Textarea({"rows": 4, "class": "yaml-text"})


class QueueTexts(forms.Form):
    """The fields. The service checks them, so that every door refuses the same."""

    retry_policies = forms.CharField(
        required=False,
        max_length=2_000,
        widget=_lines(),
        help_text="one name per line; their rules are evaluated in this order, before the rules of "
        "policies that a session adds",
    )
    resource_limits = forms.CharField(
        required=False,
        max_length=2_000,
        widget=_lines(),
        help_text="the most that its running sessions may use together; one resource per line, "
        "such as cpu: 200 or sessions: 50",
    )

    time_limits = forms.CharField(
        required=False,
        max_length=1_000,
        widget=_lines(),
        help_text="seconds, one per line, such as queue_timeout default: 600 or batch_timeout max: "
        "86400; of queue_timeout, scheduling_timeout and batch_timeout",
    )

    breaker = breaker_field(widget=_lines())
    retry_budget = budget_field(widget=_lines())

    def clean_time_limits(self) -> dict[str, dict[str, float]]:
        """Parse the times, one `name default|max: seconds` in each line."""
        limits: dict[str, dict[str, float]] = {}
        for text in filter(None, map(str.strip, self.cleaned_data[TIMES].splitlines())):
            words, _, seconds = text.partition(":")
            try:
                name, kind = words.split()
                limits.setdefault(name, {})[kind] = float(seconds)
            except ValueError:
                why = f"{text}: write it as queue_timeout max: seconds"
                raise ValidationError(why) from None
        try:
            time_limits_check(limits)
        except InvalidInput as error:
            raise ValidationError(error.errors[TIMES]) from None
        return limits

    def clean_resource_limits(self) -> dict[str, str]:
        """Parse the limits, one `resource: amount` in each line."""
        limits = {}
        for text in self.cleaned_data[LIMITS].splitlines():
            name, colon, amount = (part.strip() for part in text.partition(":"))
            if name and not (colon and amount):
                raise ValidationError(f"{name}: write it as resource: amount")
            if name:
                limits[name] = amount
        try:
            limits_check(limits)
        except InvalidInput as error:
            raise ValidationError(error.errors[LIMITS]) from None
        return limits

    def read_policies(self, project: Project | None) -> None:
        """Make the names a list, and check that the project reaches them if it is known."""
        names = self.cleaned_data.get(FIELD, "").replace(",", " ").split()
        self.cleaned_data[FIELD] = names
        if project is not None:
            try:
                self.cleaned_data[FIELD] = policies_require(names, project=project)
            except InvalidInput as error:
                self.add_error(FIELD, error.errors[FIELD])


def texts_of(queue: Queue) -> dict[str, Any]:
    """Return the initial values of these fields."""
    return {
        FIELD: "\n".join(queue.retry_policies),
        LIMITS: "\n".join(f"{name}: {value}" for name, value in queue.resource_limits.items()),
        TIMES: "\n".join(time_limits_words(queue.time_limits)),
        BREAKER: queue.breaker,
        BUDGET: queue.retry_budget,
    }


def policies_offered(project: Project | None) -> str:
    """Return in words which policies a project, or (None) the cluster's default, can name."""
    known = policies_in_scope(project)
    names = [str(name) for name in known.values_list("name", flat=True)[: OFFERED + 1]]
    if not names:
        return "no policies can be used here yet"
    return f"available: {', '.join(names[:OFFERED])}{' and more' * (len(names) > OFFERED)}"
