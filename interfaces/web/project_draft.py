"""A draft of a policy while it is edited: its errors, and what it would have done in the past."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from interfaces.forms.simulated import simulated
from interfaces.forms.yaml_text import LONGEST
from interfaces.http.policy_text import read_policy, refusal
from interfaces.simulate.run import Busy, take_slot
from interfaces.web.project_frame import Place, of_project, part
from retry.policies.documents import PolicyDocument
from retry.policies.doubts import document_doubts
from retry.policies.matching import compile_policy
from sessions_app.authorization import Action
from sessions_app.core.errors import InvalidInput
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.services.chains.simulate import SAMPLING, simulate_on_sample
from sessions_app.services.resources.policies import document_placed

CHANGED = 20
"""Most changed chains that the page lists."""


@of_project(Action.SESSION_READ)
def check(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the errors of a draft with their lines, or what it says and which rules never decide."""
    checked = draft_checked(place, request.POST, request.POST.get("name", ""))
    return part(request, place, "draft_check", title="The draft", checked=checked)


@of_project(Action.SESSION_READ)
def history(request: HttpRequest, place: Place) -> HttpResponse:
    """Show what a draft would have decided about a sample of the last days."""
    tried = draft_tried(place, request.POST)
    title = f"What it would have done in the last {SAMPLING.days} days"
    return part(request, place, "draft_history", title=title, tried=tried)


def draft_checked(place: Place, sent: Mapping[str, str], name: str) -> dict[str, Any]:
    """Return the errors of the draft in `text`, or its rules and warnings.

    `name` is the one that it must keep; "" for a new policy.
    """
    text = sent.get("text", "")[:LONGEST]
    try:
        document = read_policy(text)
        _placed(place, document, text, name)
    except ValidationError as error:
        return {"errors": error.messages}
    rules = document.spec.rules or ()
    return {"rules": len(rules), "warnings": document_doubts(document)}


def _placed(place: Place, document: PolicyDocument, text: str, name: str) -> None:
    """Raise a form's `ValidationError` if the draft is no policy of this place."""
    try:
        document_placed(document, ConfigScope(project=place.project))
        if name and document.metadata.name != name:
            raise InvalidInput({"metadata.name": [f"must stay {name!r}"]})
    except InvalidInput as error:
        raise refusal(text, error.errors) from None


def draft_tried(place: Place, sent: Mapping[str, str]) -> dict[str, Any]:
    """Return what the draft would have done, or why it was not tried."""
    how = {"days": SAMPLING.days, "of_a_day": SAMPLING.of_a_day}
    try:
        document = read_policy(sent.get("text", "")[:LONGEST])
    except ValidationError:
        return how | {"invalid": True}
    with ExitStack() as held:
        try:
            take_slot(held)
        except Busy:
            return how | {"busy": True}
        named = compile_policy(document, revision=None)
        tried = simulate_on_sample(project=place.project, policy=named)
    shown = simulated(tried.summary, most=CHANGED)
    return how | shown | {"sampled": tried.sampled, "naming": tried.naming}
