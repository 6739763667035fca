"""The filters of the list of failures, as they stand in its address."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.http import QueryDict

from interfaces.web.parts import Choice, Field
from retry.evidence.causes import RetryCause
from sessions_app.selectors.failures import Failure

LABELS = {"cause": "Cause", "queue": "Queue", "image": "Image", "node": "Node"}
"""The filters, named as those of `GET /failures/`, and what the page calls them."""
_PLACES = ("queue", "image", "node")
_MOST_TEXT = 300
_ONE = "Give only one of queue, image and node."


@dataclass(frozen=True, slots=True)
class FailuresFilter:
    """The filters that are in force, and why others were left out."""

    given: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    def fields(self, listed: Iterable[Failure], typed: QueryDict) -> list[Field]:
        """Return the form fields; the values of the listed failures are suggested."""
        known: dict[str, dict[str, None]] = {name: {} for name in _PLACES}
        for each in listed:
            for name, found in zip(_PLACES, (each.queues, each.images, each.nodes), strict=True):
                known[name].update(dict.fromkeys(value for value, _ in found))
        causes = [Choice(each.value, each.value.replace("_", " ")) for each in RetryCause]
        return [
            Field(
                name,
                label,
                self.given.get(name) or typed.get(name, "").replace("\x00", ""),
                kind="select" if name == "cause" else "text",
                choices=causes
                if name == "cause"
                else [Choice(each, each) for each in sorted(known[name])],
                help=_ONE if name == "queue" else "",
                error=self.errors.get(name, ""),
                max_length=_MOST_TEXT,
            )
            for name, label in LABELS.items()
        ]


def failures_filter(query: QueryDict) -> FailuresFilter:
    """Return the filters of an address. What nobody can ask for is left out."""
    sent = {name: value for name in LABELS if (value := query.get(name, "").strip())}
    errors: dict[str, str] = {}
    if (cause := sent.get("cause", "").lower()) and cause not in set(RetryCause):
        errors["cause"] = "not understood, so left out"
    places = [name for name in _PLACES if name in sent]
    for name in places:
        if "\x00" in sent[name] or len(sent[name]) > _MOST_TEXT:
            errors[name] = "not understood, so left out"
    for name in [each for each in places if each not in errors][1:]:
        errors[name] = "left out: only one of the three can be given"
    given = {name: value for name, value in sent.items() if name not in errors}
    if "cause" in given:
        given["cause"] = cause
    return FailuresFilter(given, errors)
