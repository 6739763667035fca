"""The form that runs a draft policy against the past of a project. It changes nothing."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSelectWidget

from retry.policies.documents import MAX_POLICIES
from retry.policies.matching import NamedPolicy, compile_policy
from retry.simulate import MAX_CHANGED, Draft
from sessions_app.admin.base import KnownOnly
from sessions_app.admin.policy_document import read_policy
from sessions_app.admin.yaml_text import YamlField
from sessions_app.core.errors import TooLarge
from sessions_app.locks import database_now
from sessions_app.models import Queue, RetryPolicy
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.chains.simulate import simulate_history
from sessions_app.templatetags.reprise import duration, words

DAYS = (7, 30, 90)
CHAINS = 200
"""Most changed chains that the page lists."""
_BETWEEN = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)


class SimulateForm(forms.Form):
    """The form. After `is_valid`, `named` has the draft's policies in order."""

    text = YamlField(
        rows=22,
        label="Draft",
        help_text="It takes the place of all named policies of each chain; several documents, with "
        "a line of --- between them, apply in this order. What a chain asked for itself stays.",
    )
    project = forms.ModelChoiceField(projects_all().select_related("domain"))
    days = forms.TypedChoiceField(
        label="Chains submitted in",
        coerce=int,
        choices=[(days, f"the last {days} days") for days in DAYS],
        initial=DAYS[1],
        widget=UnfoldAdminSelectWidget,
    )

    named: tuple[NamedPolicy, ...]

    def __init__(self, site: AdminSite, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["project"]
        field.widget = KnownOnly(Queue._meta.get_field("project"), site)
        field.widget.choices = field.choices

    def clean_text(self) -> str:
        """Parse the documents of the draft."""
        text: str = self.cleaned_data["text"]
        parts = [part for part in _BETWEEN.split(text) if part.strip()]
        if not 0 < len(parts) <= MAX_POLICIES:
            raise forms.ValidationError(f"Give 1 to {MAX_POLICIES} documents.")
        self.named = tuple(compile_policy(read_policy(part), revision=None) for part in parts)
        names = Counter(policy.name for policy in self.named)
        if repeated := [name for name, number in names.items() if number > 1]:
            raise forms.ValidationError(f"Two documents have the name {repeated[0]}.")
        return text


def simulate_page(
    request: HttpRequest, site: AdminSite, draft: str, policy: RetryPolicy | None
) -> dict[str, Any]:
    """Return the page's context: the form and, if it was sent, the result."""
    project = policy.project_id if policy else None
    sent = request.POST if request.method == "POST" else None
    form = SimulateForm(site, sent, initial={"text": draft, "project": project})
    context = {"form": form, "media": form.media}
    if form.is_bound and form.is_valid():
        try:
            return context | {"result": _result(form), "project": form.cleaned_data["project"]}
        except TooLarge as error:
            form.add_error("days", f"{error.title}: choose fewer days. {error.detail}")
    return context


def _result(form: SimulateForm) -> dict[str, Any]:
    days = form.cleaned_data["days"]
    since = database_now() - timedelta(days=days)
    project = form.cleaned_data["project"]
    draft = Draft(named=form.named)
    summary = simulate_history(project=project, since=since, until=None, draft=draft).summary()
    changed: list[dict[str, str]] = summary["changed"]
    return {
        **summary,
        "window": dict(form.fields["days"].choices)[days],  # type: ignore[attr-defined]
        "added": f"{summary['added_attempts']:+d}",
        "added_run": _signed(summary["added_run_seconds"]),
        "tables": [
            ("Retries by cause", _bars(summary["by_cause"], words)),
            ("Retries by rule", _bars(summary["by_rule"], str)),
            ("Decisions by reason", _bars(summary["by_reason"], words)),
        ],
        "changed": changed[:CHAINS],
        "changed_count": len(changed),
        "capped": len(changed) >= MAX_CHANGED,
        "turns": [
            (*turn, number)
            for turn, number in Counter(
                (each["was"], each["would_be"]) for each in changed
            ).most_common()
        ],
    }


def _signed(seconds: float) -> str:
    """Return the seconds in words, such as `+3 h 20 min`."""
    return f"{'-' if seconds < 0 else '+'}{duration(abs(seconds))}"


def _bars(counts: Mapping[str, int], shown: Callable[[str], str]) -> list[tuple[str, int, int]]:
    """Return (name, number, largest number) for each entry, the largest first."""
    most = max(counts.values(), default=0)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(shown(name), number, most) for name, number in ordered]
