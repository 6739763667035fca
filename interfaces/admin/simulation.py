"""The form that runs a draft policy against the past of a project. It changes nothing."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.http import HttpRequest

from interfaces.admin.base import KnownOnly, actor_of
from interfaces.admin.theme import themed
from interfaces.forms.simulated import simulated
from interfaces.forms.yaml_text import YamlField
from interfaces.http.policy_text import read_policies
from retry.policies.matching import NamedPolicy
from retry.simulate import Draft
from sessions_app.authorization import Actor
from sessions_app.core.errors import TooLarge
from sessions_app.locks import database_now
from sessions_app.models import Queue, RetryPolicy
from sessions_app.selectors.tenants import projects_all
from sessions_app.services.chains.simulate import simulate_history

DAYS = (7, 30, 90)
CHAINS = 200
"""Most changed chains that the page lists."""


class SimulateForm(forms.Form):
    """The form. After `is_valid`, `named` has the draft's policies in order."""

    text = YamlField(
        rows=22,
        label="Draft",
        help_text="The draft replaces all named policies of each chain. Separate several documents "
        "by a line of ---; they apply in this order. Each chain keeps its own inline policy.",
    )
    project = forms.ModelChoiceField(projects_all().select_related("domain"))
    days = forms.TypedChoiceField(
        label="Chains submitted in",
        coerce=int,
        choices=[(days, f"the last {days} days") for days in DAYS],
        initial=DAYS[1],
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
        self.named = read_policies(text)
        return text


def simulate_page(
    request: HttpRequest, site: AdminSite, draft: str, policy: RetryPolicy | None
) -> dict[str, Any]:
    """Return the page's context: the form and, if it was sent, the result."""
    project = policy.project_id if policy else None
    sent = request.POST if request.method == "POST" else None
    form = themed(SimulateForm(site, sent, initial={"text": draft, "project": project}))
    context = {"form": form, "media": form.media}
    if form.is_bound and form.is_valid():
        try:
            result = _result(actor_of(request), form)
            return context | {"result": result, "project": form.cleaned_data["project"]}
        except TooLarge as error:
            form.add_error("days", f"{error.title}: choose fewer days. {error.detail}")
    return context


def _result(actor: Actor, form: SimulateForm) -> dict[str, Any]:
    days = form.cleaned_data["days"]
    since = database_now() - timedelta(days=days)
    project = form.cleaned_data["project"]
    draft = Draft(named=form.named)
    past = simulate_history(actor, project=project, since=since, until=None, draft=draft)
    window = dict(form.fields["days"].choices)[days]  # type: ignore[attr-defined]
    return simulated(past.summary(), most=CHAINS) | {"window": window}
