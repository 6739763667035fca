"""What another policy would have done with one chain, from one attempt on. It changes nothing."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from interfaces.forms.limits import LimitField
from interfaces.http.policy_text import read_policies
from interfaces.render.session_render import attempt_json
from interfaces.templatetags.reprise import duration, words
from interfaces.web.fragments import fragment, session_or_404
from interfaces.web.parts import Choice, Field
from retry.engine.decision import BREAKER, SHARED_BUDGET, Decision
from retry.explain.reasons import reason_words
from retry.policies.inline import MAX_RETRIES, InlinePolicy
from retry.policies.limits import UNLIMITED
from retry.policies.matching import NamedPolicy
from retry.simulate import Attempt, Draft
from sessions_app.in_force.named_policies import named_policies
from sessions_app.models import Session
from sessions_app.selectors.policies import policies_in_scope
from sessions_app.selectors.sessions import chain_attempts
from sessions_app.services.chains.simulate import simulate_from

POLICIES = 500
"""Most policies that the form offers. Any other one can be pasted."""
LONGEST = 200_000
"""Most characters of a pasted policy."""


class WhatIfForm(forms.Form):
    """The draft: a policy in reach of the project, pasted ones, a number of retries. After
    `is_valid`, `draft` is what they say together."""

    policy = forms.CharField(required=False, max_length=63)
    text = forms.CharField(required=False, max_length=LONGEST, strip=False)
    max_retries = LimitField(required=False, min_value=0, max_value=MAX_RETRIES)

    draft: Draft
    _pasted: tuple[NamedPolicy, ...] | None = None
    _chosen: tuple[NamedPolicy, ...] | None = None

    def __init__(self, found: Session, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found = found

    def clean_policy(self) -> str:
        """Find the chosen policy."""
        name: str = self.cleaned_data["policy"]
        if name:
            project = self.found.project_id
            policy = named_policies([(project, [name])])[project].get(name)
            if policy is None:
                raise forms.ValidationError(f"No policy {name} can be named in this project.")
            self._chosen = (policy,)
        return name

    def clean_text(self) -> str:
        """Read the pasted policies."""
        text: str = self.cleaned_data["text"]
        if text.strip():
            self._pasted = read_policies(text)
        return text

    def clean(self) -> None:
        """Put the draft together."""
        if self._chosen and self._pasted:
            self.add_error("policy", "Choose a policy or paste one, not both.")
        retries = self.cleaned_data.get("max_retries")
        inline = None if retries is None else InlinePolicy(max_retries=retries)
        self.draft = Draft(named=self._chosen or self._pasted, policy=inline)

    def shown(self) -> list[Field]:
        """Return the fields as the page shows them."""
        in_scope = policies_in_scope(self.found.project)
        names = list(in_scope.values_list("name", flat=True).distinct()[:POLICIES])
        return [
            Field(
                "policy",
                "Policy",
                self._value("policy"),
                "select",
                choices=[Choice(name, name) for name in names],
                empty="those of the session",
                help="It takes the place of all named policies of the session.",
                error=self._error("policy"),
            ),
            Field(
                "max_retries",
                "Retries for failures",
                self._value("max_retries"),
                help=f"In the session's own policy: a number, or {UNLIMITED}; empty: as it is.",
                error=self._error("max_retries"),
            ),
            Field(
                "text",
                "Or a policy as YAML",
                self._value("text"),
                "textarea",
                help="One document, or several with a line of --- between them.",
                error=self._error("text"),
                wide=True,
            ),
        ]

    def _value(self, name: str) -> str:
        return str(self.data.get(name, ""))

    def _error(self, name: str) -> str:
        return " ".join(str(each) for each in self.errors.get(name, []))


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@never_cache
def what_if(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the form and, if it was sent, the decisions of the draft beside the real ones."""
    found = session_or_404(request, session_id)
    title = "What another policy would have done"
    context: dict[str, Any] = {"title": title, "ended": found.finished_at is not None}
    status = 200
    if found.archived_chain is None and context["ended"]:
        form = WhatIfForm(found, request.POST if request.method == "POST" else None)
        if form.is_bound and form.is_valid():
            context |= _result(found, form.draft)
        elif form.is_bound:
            status = 400
        context["fields"] = form.shown()
    return fragment(request, "what_if", found, context, status)


def _result(found: Session, draft: Draft) -> dict[str, Any]:
    tried = simulate_from(found, draft)
    chain = [attempt_json(each) for each in chain_attempts(found)[found.retry_count :]]
    return {
        "outcome": _outcome(tried.outcome),
        "was": _outcome(tried.was),
        "differs": tried.outcome != tried.was,
        "rows": _rows(chain, tried.attempts),
    }


def _rows(chain: Sequence[dict[str, Any]], tried: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return each real attempt from here on, with what the draft says of its end."""
    decided = {each.number: _words(each.decision) for each in tried}
    ran_out = "would not have run"
    return [
        {
            **attempt,
            "would": decided.get(attempt["attempt"])
            or ("has not ended" if attempt["finished_at"] is None else ran_out),
        }
        for attempt in chain
    ]


def _words(decision: Decision | None) -> str:
    if decision is None:
        return "succeeded"
    why = reason_words(decision.reason)
    by = f" ({decision.rule})" if decision.rule else ""
    if decision.action != "retry":
        return f"no retry: {why}{by}"
    delay = duration(decision.delay) if decision.delay else "0 s"
    return f"retry after {delay}{_HELD.get(decision.held_for, '')}: {why}{by}"


def _outcome(name: str) -> str:
    return _OUTCOMES.get(name, words(name))


_HELD = {
    BREAKER: ", held until the breaker of its signature closes",
    SHARED_BUDGET: ", held until the shared retry budget has room",
}
_OUTCOMES = {
    "retrying": "another attempt, whose end is not known",
    "exhausted": "given up: the retries are used up",
    "not_retried": "not retried",
}
