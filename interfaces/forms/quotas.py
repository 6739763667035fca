"""The quotas of a project or a domain: two numbers, and resources one in each line."""

from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from base.podspec.resources import read_amount
from sessions_app.core.quotas import PENDING, RESOURCES, SESSIONS
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.quotas import quota_uses

MOST = 1_000_000_000
MOST_RESOURCES = 64
LONGEST_NAME = 128
COUNTS = {"quota_sessions": SESSIONS, "quota_pending_sessions": PENDING}
RESOURCES_FIELD = "quota_resources"


def _count_field(label: str, help_text: str) -> forms.IntegerField:
    return forms.IntegerField(
        required=False, min_value=0, max_value=MOST, label=label, help_text=help_text
    )


class QuotaTexts(forms.Form):
    """The limits; an empty field means no limit."""

    quota_sessions = _count_field(
        "sessions", "the most sessions on executors at the same time; further ones wait"
    )
    quota_pending_sessions = _count_field(
        "pending sessions",
        "the most sessions that wait at the same time; further ones are refused, but retries are "
        "not",
    )
    quota_resources = forms.CharField(
        required=False,
        max_length=10_000,
        label="resources",
        widget=forms.Textarea({"rows": 4, "class": "yaml-text"}),
        help_text="the most that the sessions on executors may request together; one resource per "
        "line, such as memory: 64Gi",
    )

    def clean_quota_resources(self) -> dict[str, Decimal]:
        """Return the limits by the names of their quotas."""
        found: dict[str, Decimal] = {}
        lines = [line for line in self.cleaned_data[RESOURCES_FIELD].splitlines() if line.strip()]
        if len(lines) > MOST_RESOURCES:
            raise ValidationError(f"Give at most {MOST_RESOURCES} resources.")
        for line in lines:
            name, colon, amount = (part.strip() for part in line.rpartition(":"))
            if not colon or not 0 < len(name) <= LONGEST_NAME:
                raise ValidationError(f"{line!r}: write it like memory: 64Gi.")
            try:
                found[f"{RESOURCES}{name}"] = read_amount(name, amount)
            except ValueError as error:
                raise ValidationError(f"{name}: {error}.") from None
        return found

    def limits(self) -> dict[str, Decimal | None]:
        """Return all limits of the scope by the names of the quotas."""
        counts = {name: self.cleaned_data.get(field) for field, name in COUNTS.items()}
        found: dict[str, Decimal | None] = {
            name: None if count is None else Decimal(count) for name, count in counts.items()
        }
        found.update(self.cleaned_data.get(RESOURCES_FIELD, {}))
        return found

    @property
    def changes_quotas(self) -> bool:
        """Return whether any limit was changed."""
        return bool({*COUNTS, RESOURCES_FIELD} & set(self.changed_data))


def quotas_of(scope: ConfigScope) -> dict[str, Any]:
    """Return the initial values for the limits of a scope."""
    own = {each.name: each.limit for each in quota_uses(scope) if each.scope == scope.name}
    counts = {field: int(own[name]) if name in own else None for field, name in COUNTS.items()}
    resources = "\n".join(
        f"{name.removeprefix(RESOURCES)}: {limit}"
        for name, limit in own.items()
        if name.startswith(RESOURCES)
    )
    return {**counts, RESOURCES_FIELD: resources}
