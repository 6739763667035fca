"""The fields of policy documents, each with a check whose errors are written for users."""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from base.podspec.labels import LABEL_NAME, LABEL_VALUE, MAX_LABEL_NAME, MAX_LABELS, read_labels
from base.podspec.resources import MEMORY, read_amount
from retry.evidence.causes import NEVER_CAUSES, RetryCause
from retry.policies.inline import (
    LONGEST_PARKED,
    MAX_EXIT_CODE,
    RETRIABLE,
    STORED,
    positive,
    whole_number,
)
from retry.policies.patterns import MAX_PATTERN, pattern
from retry.units.durations import LONGEST, PATTERN, parse_duration

MAX_NAME = 63
MAX_RETRY_LIMIT = 1000
DEFAULT_RULE = "default"
RESERVED_POLICIES = ("inline", "manual", "simulate")
CONDITIONS = ("OOMKilled", "Evicted", "Preempted", "DeadlineExceeded", "Unschedulable")

LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_LABEL = re.compile(LABEL[1:-1])
SIGNATURE = r"^[0-9a-f]{12}$"
_SIGNATURE = re.compile(SIGNATURE[1:-1])
_UNSPEAKABLE = re.compile(r"[/\x00-\x1f\x7f\ud800-\udfff]|^\s|\s$")


def _refused(kind: str, why: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{why}", {"why": why})


def _label(value: object) -> str:
    if not isinstance(value, str) or not _LABEL.fullmatch(value):
        raise _refused(
            "label", "must be an RFC 1123 label: 1 to 63 of a-z, 0-9 and '-', no '-' at an end"
        )
    return value


def _policy_name(value: object) -> str:
    name = _label(value)
    if name in RESERVED_POLICIES:
        raise _refused("reserved", f"must not be one of: {', '.join(RESERVED_POLICIES)}")
    return name


def _plain_name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or _UNSPEAKABLE.search(value):
        raise _refused("name", "must be a name of 1 to 63 characters without '/'")
    return value


def _rule_name(value: object) -> str:
    name = _plain_name(value)
    if name == DEFAULT_RULE:
        raise _refused("reserved", "must not be 'default': that stands for the defaultAction")
    return name


def _one_of(*allowed: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise _refused("one_of", f"must be one of: {', '.join(allowed)}")
        return value

    return check


def _duration(value: object) -> str:
    if not isinstance(value, str):
        raise _refused("duration", "must be a duration like 500ms, 30s or 1h30m")
    try:
        parse_duration(value)
    except ValueError as error:
        raise _refused("duration", str(error)) from None
    return value


def _longer_than_nothing(value: object) -> str:
    text = _duration(value)
    if parse_duration(text) <= 0:
        raise _refused("duration", "must be longer than 0s")
    return text


def _park_duration(value: object, info: ValidationInfo) -> str:
    text = _longer_than_nothing(value)
    if parse_duration(text) <= LONGEST_PARKED:
        return text
    most = f"{LONGEST_PARKED / 3600:.0f}h"
    if info.context != STORED:
        raise _refused("duration", f"must be at most {most} (365 days)")
    return most


def _growth_factor(value: object) -> float:
    factor = positive(value)
    if factor <= 1:
        raise _refused("factor", "must be greater than 1")
    return factor


def _memory(value: object) -> object:
    try:
        amount = read_amount(MEMORY, value)  # type: ignore[arg-type]  # it checks the type
    except ValueError as error:
        raise _refused("quantity", str(error)) from None
    if amount == 0:
        raise _refused("quantity", "must be more than 0")
    return value


def _cause(value: object) -> RetryCause:
    cause = RetryCause.__members__.get(value.upper()) if isinstance(value, str) else None
    if cause is None or cause in NEVER_CAUSES:
        allowed = ", ".join(sorted(set(RetryCause) - NEVER_CAUSES))
        never = f"{cause} can never be retried; it " if cause else ""
        raise _refused("cause", f"{never}must be one of: {allowed}")
    return cause


def _signature(value: object) -> str:
    if not isinstance(value, str) or not _SIGNATURE.fullmatch(value):
        raise _refused("signature", "must be a failure's signature: 12 hex digits, as 0123456789ab")
    return value


def _pattern(value: object) -> str:
    if not isinstance(value, str):
        raise _refused("pattern", "must be text")
    if not value:
        raise _refused("pattern", "must not be empty: it would match every text")
    try:
        pattern(value)
    except ValueError as error:
        raise _refused("pattern", str(error)) from None
    return value


def _labels(value: object) -> dict[str, str]:
    try:
        return read_labels(value)
    except ValueError as error:
        raise _refused("labels", str(error)) from None


def _some_labels(value: object) -> dict[str, str]:
    found = _labels(value)
    if not found:
        raise _refused("labels", "must have a label")
    return found


def list_of(low: int, high: int) -> BeforeValidator:
    """Return a validator for lists of `low` to `high` items; it runs before the items'."""

    def check(value: object) -> tuple[object, ...]:
        if not isinstance(value, list | tuple):
            raise _refused("list", "must be a list")
        if not low <= len(value) <= high:
            raise _refused("list", f"must have {low} to {high} items, not {len(value)}")
        return tuple(value)

    return BeforeValidator(check)


_LABELS_SCHEMA = {
    "maxProperties": MAX_LABELS,
    "propertyNames": {"maxLength": MAX_LABEL_NAME, "pattern": LABEL_NAME},
    "additionalProperties": {"type": "string", "pattern": LABEL_VALUE},
}

# Each check comes with the part of it that JSON Schema can express.
Label = Annotated[str, Field(pattern=LABEL), BeforeValidator(_label)]
PolicyName = Annotated[str, Field(pattern=LABEL), BeforeValidator(_policy_name)]
PlainName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), BeforeValidator(_plain_name)]
RuleName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), BeforeValidator(_rule_name)]
Action = Annotated[
    str,
    Field(json_schema_extra={"enum": ["Retry", "Fail"]}),
    BeforeValidator(_one_of("Retry", "Fail")),
]
WhenExhausted = Annotated[
    str,
    Field(json_schema_extra={"enum": ["End", "Park"]}),
    BeforeValidator(_one_of("End", "Park")),
]
Operator = Annotated[
    str,
    Field(json_schema_extra={"enum": ["In", "NotIn"]}),
    BeforeValidator(_one_of("In", "NotIn")),
]
AvoidMode = Annotated[
    str,
    Field(json_schema_extra={"enum": ["none", "node"]}),
    BeforeValidator(_one_of("none", "node")),
]
Condition = Annotated[
    str,
    Field(json_schema_extra={"enum": list(CONDITIONS)}),
    BeforeValidator(_one_of(*CONDITIONS)),
]
RetryLimit = Annotated[
    int, Field(ge=0, le=MAX_RETRY_LIMIT), BeforeValidator(whole_number(0, MAX_RETRY_LIMIT))
]
ExitCode = Annotated[
    int, Field(ge=1, le=MAX_EXIT_CODE), BeforeValidator(whole_number(1, MAX_EXIT_CODE))
]
_WRITTEN = Field(max_length=LONGEST, json_schema_extra={"pattern": PATTERN})
Duration = Annotated[str, _WRITTEN, BeforeValidator(_duration)]
PositiveDuration = Annotated[str, _WRITTEN, BeforeValidator(_longer_than_nothing)]
ParkDuration = Annotated[str, _WRITTEN, BeforeValidator(_park_duration)]
GrowthFactor = Annotated[float, Field(gt=1), BeforeValidator(_growth_factor)]
Memory = Annotated[str | int | float, BeforeValidator(_memory)]
Labels = Annotated[
    dict[str, str], Field(json_schema_extra=_LABELS_SCHEMA), BeforeValidator(_labels)
]
"""Labels as Kubernetes has them, by name."""
SomeLabels = Annotated[
    dict[str, str],
    Field(json_schema_extra={**_LABELS_SCHEMA, "minProperties": 1}),
    BeforeValidator(_some_labels),
]
RetryNumber = Annotated[
    int, Field(ge=0, le=MAX_RETRY_LIMIT), BeforeValidator(whole_number(0, MAX_RETRY_LIMIT))
]
Cause = Annotated[
    RetryCause, BeforeValidator(_cause), WithJsonSchema({"type": "string", **RETRIABLE})
]
SignatureKey = Annotated[str, Field(pattern=SIGNATURE), BeforeValidator(_signature)]
PatternText = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN), BeforeValidator(_pattern)]
