"""The rules of a draft as a list, and a form for one of them. The text stays the truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse

from interfaces.forms.policy_document import HELP
from interfaces.forms.policy_rules import Draft, RuleForm, RuleLine, rule_lines
from interfaces.forms.yaml_text import LONGEST
from interfaces.web.form_fields import shown_field
from interfaces.web.parts import Field
from interfaces.web.project_frame import Place, of_project, part
from sessions_app.authorization import Action
from sessions_app.core.errors import InvalidInput

GONE = "The text was changed meanwhile. Choose the rule again."
NEW: dict[str, Any] = {"action": "Retry"}


@dataclass(slots=True)
class Rules:
    """The rules of a draft as `projects/draft_rules.html` shows them."""

    text: str
    """The draft, with what was changed."""
    lines: list[RuleLine] | None = None
    """None if the text cannot be read."""
    fields: list[Field] = field(default_factory=list)
    """Those of the rule that is edited."""
    at: str = ""
    """Which one that is; "" for a new one."""
    title: str = ""
    refused: list[str] = field(default_factory=list)
    done: str = ""
    """What was changed in the text."""

    @property
    def wrong(self) -> bool:
        """Return whether a field of the rule has an error."""
        return any(each.error for each in self.fields)


@of_project(Action.SESSION_READ)
def rules(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the rules of a draft, or the form of one; what the form says is put into the draft."""
    drawn = draft_rules(request.POST)
    response = part(
        request,
        place,
        "draft_rules",
        400 if drawn.refused or drawn.wrong else 200,
        title="Rules",
        rules=drawn,
        rules_address=place.address("project-draft-rules"),
        field=text_field(drawn.text, help_text=HELP),
        rewrites=bool(drawn.done),
    )
    if drawn.done:
        # What looks at the text looks again.
        response["HX-Trigger-After-Settle"] = "draft"
    return response


def text_field(text: str, error: str = "", help_text: str = "") -> Field:
    """Return the field of the draft's text."""
    label = "Document, as YAML"
    more: dict[str, Any] = {"error": error, "help": help_text, "required": True, "wide": True}
    return Field("text", label, text, kind="textarea", rows=26, max_length=LONGEST, **more)


def draft_rules(sent: Mapping[str, str]) -> Rules:
    """Do what the button `rule` says to the draft, and return its rules.

    The draft is `text`; without JavaScript `drawn`, which the form of a rule has.
    """
    text = sent.get("text", sent.get("drawn", ""))[:LONGEST]
    try:
        draft = Draft(text)
    except InvalidInput:
        return Rules(text)
    act, _, at = sent.get("rule", "").partition(":")
    found = Rules(text)
    if act in {"add", "edit", "keep"}:
        _form(found, draft, act, at, sent)
    elif act in {"remove", "up"}:
        _move(found, draft, act, at)
    found.lines = rule_lines(draft.rules)
    found.text = draft.text
    return found


def _move(found: Rules, draft: Draft, act: str, at: str) -> None:
    place = draft.found(at)
    if place is None:
        found.refused = [GONE]
        return
    name = rule_lines(draft.rules)[place].name
    rule = draft.rules.pop(place)
    if act == "up":
        draft.rules.insert(max(place - 1, 0), rule)
    draft.write()
    found.done = f"{name} is {'moved up' if act == 'up' else 'removed'} in the text."


def _form(found: Rules, draft: Draft, act: str, at: str, sent: Mapping[str, str]) -> None:
    """Show the form of a rule, or put into the draft what it says."""
    place = draft.found(at) if at else len(draft.rules)
    if place is None:
        found.refused = [GONE]
        return
    before = draft.rules[place] if at else NEW
    before = before if isinstance(before, dict) else {}
    others = draft.rules[:place] + draft.rules[place + 1 :]
    taken = {str(each["name"]) for each in others if isinstance(each, dict) and "name" in each}
    form = RuleForm(before, taken, sent if act == "keep" else None)
    if act == "keep" and form.is_valid():
        draft.rules[place : place + 1] = [form.rule]
        draft.write()
        found.done = f"{rule_lines(draft.rules)[place].name} is in the text."
        return
    found.at = at
    found.title = f"Edit {rule_lines(draft.rules)[place].name}" if at else "Add a rule"
    found.fields = [shown_field(each) for each in form]
    found.refused = [str(each) for each in form.non_field_errors()]
