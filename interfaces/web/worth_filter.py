"""The filters of the report about retries, as they stand in the address of its page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.http import QueryDict
from pydantic import ValidationError

from interfaces.requests.reports import ReportQuery
from interfaces.web.parts import Choice, Field
from retry.evidence.causes import RetryCause

LABELS = {
    "cause": "Cause",
    "rule": "Rule",
    "policy": "Policy",
    "queue": "Queue",
    "owner": "Owner",
    "image": "Image",
    "node": "Node",
    "signature": "Signature",
}
"""The filters, named as those of `GET /reports/retries/`, and what the page calls them."""
_HELP = {"rule": "As policy/rule.", "node": "As executor/name, or the name alone."}
_MOST_TEXT = 300


@dataclass(frozen=True, slots=True)
class WorthFilter:
    """The filters that are in force, what was typed, and why some of it was left out."""

    given: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    wrong: Sequence[str] = ()

    def fields(self, listed: Mapping[str, Sequence[str]]) -> list[Field]:
        """Return the form fields; `listed` values are suggested, by the name of their filter."""
        causes = [Choice(each.value, each.value.replace("_", " ")) for each in RetryCause]
        return [
            Field(
                name,
                label,
                self.given.get(name) or self.typed.get(name, ""),
                kind="select" if name == "cause" else "text",
                choices=causes
                if name == "cause"
                else [Choice(each, each) for each in listed.get(name, ())],
                help=_HELP.get(name, ""),
                error="not understood, so left out" if name in self.wrong else "",
                max_length=_MOST_TEXT,
            )
            for name, label in LABELS.items()
        ]


def worth_filter(query: QueryDict) -> WorthFilter:
    """Return the filters of an address. What nobody can ask for is left out."""
    sent = {name: value for name in LABELS if (value := query.get(name, "").strip())}
    wrong: list[str] = []
    try:
        asked = ReportQuery.model_validate(sent)
    except ValidationError as error:
        wrong = sorted({str(each["loc"][0]) for each in error.errors()})
        asked = ReportQuery.model_validate({k: v for k, v in sent.items() if k not in wrong})
    given = asked.model_dump(mode="json", include={*sent} - {*wrong})
    typed = {name: value.replace("\x00", "")[:_MOST_TEXT] for name, value in sent.items()}
    return WorthFilter(given, typed, wrong)
