"""The inline retry policy and its bounds, as validated and immutable values.

A field that was given, even as null, is in `model_fields_set`; an absent one is not, and inherits.
"""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from retry.evidence.causes import FAILURE_CAUSES, NEVER_CAUSES, PLATFORM_CAUSES, RetryCause
from retry.policies.limits import UNLIMITED, Unlimited
from retry.policies.meaning import SECONDS, Meaning, fields_of

MAX_RETRIES = 1_000_000
MAX_PREEMPTION_RETRIES = 2**31 - 1
MAX_EXIT_CODE = 255
MOST_SAME = 100
LONGEST_PARKED = 365 * 86_400.0
"""The most seconds that a chain stays parked."""
STORED = "stored"
"""The context of validation for what is stored: it may be from before a bound."""


class BackoffStrategy(StrEnum):
    FIXED = "fixed"
    EXPONENTIAL = "exponential"


class JitterMode(StrEnum):
    NONE = "none"
    DETERMINISTIC = "deterministic"
    RANDOM = "random"


class WhenExhausted(StrEnum):
    END = "end"
    PARK = "park"


_Enum = TypeVar("_Enum", bound=StrEnum)


def whole_number(low: int, high: int, *, word: str = "") -> Callable[[object], object]:
    """Return a reader of whole numbers from `low` to `high`, or of a word in their place."""
    kind = f'a whole number from {low} to {high}, or "{word}"' if word else "a whole number"

    def check(value: object) -> object:
        if word and value == word:
            return value
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON Schema counts 1.0 as an integer, too
        if isinstance(value, bool) or not isinstance(value, int):
            raise PydanticCustomError("whole_number", "must be {kind}", {"kind": kind})
        if not low <= value <= high:
            raise PydanticCustomError(
                "out_of_range", "must be between {low} and {high}", {"low": low, "high": high}
            )
        return value

    return check


def number_of(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("number", "must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PydanticCustomError("finite_number", "must be a finite number")
    return number


def positive(value: object) -> float:
    number = number_of(value)
    if number <= 0:
        raise PydanticCustomError("out_of_range", "must be greater than 0")
    return number


def _park_time(value: object, info: ValidationInfo) -> float:
    number = positive(value)
    if number > LONGEST_PARKED and info.context != STORED:
        most = {"most": int(LONGEST_PARKED)}
        raise PydanticCustomError("out_of_range", "must be at most {most} seconds (365 days)", most)
    return min(number, LONGEST_PARKED)


def _not_negative(value: object) -> float:
    number = number_of(value)
    if number < 0:
        raise PydanticCustomError("out_of_range", "must not be negative")
    return number


def _ratio(value: object) -> float:
    number = number_of(value)
    if not 0 <= number <= 1:
        raise PydanticCustomError("out_of_range", "must be between 0 and 1")
    return number


def _member(kind: type[_Enum], *, but: frozenset[_Enum] = frozenset()) -> Callable[[object], _Enum]:
    """Return a reader of members in any case; its error does not list the members in `but`."""
    names = ", ".join(each for each in kind if each not in but)

    def read(value: object) -> _Enum:
        member = kind.__members__.get(value.upper()) if isinstance(value, str) else None
        if member is None:
            raise PydanticCustomError(
                "not_a_member", "must be one of: {members}", {"members": names}
            )
        return member

    return read


def _causes(value: object) -> frozenset[RetryCause]:
    if not isinstance(value, list | tuple | set | frozenset):
        raise PydanticCustomError("causes", "must be a list of causes")
    read = _member(RetryCause, but=NEVER_CAUSES)
    causes = frozenset(read(item) for item in value)
    if never := causes & NEVER_CAUSES:
        raise PydanticCustomError(
            "never_cause", "{causes} can never be retried", {"causes": " and ".join(sorted(never))}
        )
    return causes


def _exit_codes(value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("exit_codes", "must be a list of exit codes")
    check = whole_number(1, MAX_EXIT_CODE)
    # Repeats have no meaning; without them, no list is longer than the range of codes.
    return tuple(dict.fromkeys(check(item) for item in value))


# The bounds come first so that JSON Schema shows them; the validators have the better errors.
Retries = Annotated[int, Field(ge=0, le=MAX_RETRIES), BeforeValidator(whole_number(0, MAX_RETRIES))]
PreemptionRetries = Annotated[
    int,
    Field(ge=0, le=MAX_PREEMPTION_RETRIES),
    BeforeValidator(whole_number(0, MAX_PREEMPTION_RETRIES)),
]
RetryLimit = Annotated[
    Annotated[int, Field(ge=0, le=MAX_RETRIES)] | Unlimited,
    BeforeValidator(whole_number(0, MAX_RETRIES, word=UNLIMITED)),
]
PreemptionLimit = Annotated[
    Annotated[int, Field(ge=0, le=MAX_PREEMPTION_RETRIES)] | Unlimited,
    BeforeValidator(whole_number(0, MAX_PREEMPTION_RETRIES, word=UNLIMITED)),
]
SameFailures = Annotated[
    int, Field(ge=2, le=MOST_SAME), BeforeValidator(whole_number(2, MOST_SAME))
]
Positive = Annotated[float, Field(gt=0), BeforeValidator(positive)]
ParkTime = Annotated[float, Field(gt=0, le=LONGEST_PARKED), BeforeValidator(_park_time)]
NotNegative = Annotated[float, Field(ge=0), BeforeValidator(_not_negative)]
Ratio = Annotated[float, Field(ge=0, le=1), BeforeValidator(_ratio)]
Strategy = Annotated[BackoffStrategy, BeforeValidator(_member(BackoffStrategy))]
Exhaustion = Annotated[WhenExhausted, BeforeValidator(_member(WhenExhausted))]
Jitter = Annotated[JitterMode, BeforeValidator(_member(JitterMode))]
RETRIABLE = {"enum": [cause.value for cause in RetryCause if cause not in NEVER_CAUSES]}
"""The causes that a policy may name, for JSON Schema."""
Causes = Annotated[
    frozenset[Annotated[RetryCause, WithJsonSchema({"type": "string", **RETRIABLE})]],
    BeforeValidator(_causes),
    PlainSerializer(lambda causes: sorted(cause.value for cause in causes), list[str]),
]
ExitCodes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=MAX_EXIT_CODE)], ...], BeforeValidator(_exit_codes)
]


class _Value(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class InlinePolicy(_Value):
    """When and how often a chain is retried. All times are in seconds.

    `max_retries` and `max_preemption_retries` are numbers or "unlimited": then only the limit of
    all chains counts. If `max_preemption_retries` is null, platform causes count against
    `max_retries`. If `max_retry_delay` is null, the limit is 24 h. If `max_chain_duration` is null,
    there is no limit.
    """

    max_retries: Annotated[
        RetryLimit, Meaning("maximum number of retries after failures", option="retries")
    ] = 0
    max_preemption_retries: Annotated[
        PreemptionLimit | None,
        Meaning(
            "maximum number of retries after causes of the platform",
            empty="they count against max_retries",
            option="preemption_retries",
        ),
    ] = None
    retry_window: Annotated[
        Positive | None,
        Meaning(
            "time in which these two limits count; older retries no longer use them up",
            empty="the whole life of the chain",
            unit=SECONDS,
        ),
    ] = None
    reset_on_progress: Annotated[
        StrictBool,
        Meaning("whether these two limits count anew after an attempt that made progress"),
    ] = False
    stop_after_same: Annotated[
        SameFailures | None,
        Meaning("number of equal failures in a row that end the chain", empty="no limit"),
    ] = None
    retry_delay: Annotated[Positive, Meaning("delay before a retry", unit=SECONDS)] = 60.0
    backoff: Annotated[Strategy, Meaning("how the delay changes from retry to retry")] = (
        BackoffStrategy.FIXED
    )
    backoff_multiplier: Annotated[
        Positive, Meaning("factor by which an exponential delay grows with each retry")
    ] = 2.0
    max_retry_delay: Annotated[
        Positive | None,
        Meaning("longest delay", empty="24 hours", unit=SECONDS),
    ] = 3600.0
    jitter: Annotated[
        Jitter, Meaning("how delays are spread, so that retries do not start at the same time")
    ] = JitterMode.DETERMINISTIC
    jitter_ratio: Annotated[
        Ratio, Meaning("the most that jitter adds, as a part of the delay from 0 to 1")
    ] = 0.25
    eligible_causes: Annotated[
        Causes, Meaning("causes after which a chain is retried; after others it is not")
    ] = FAILURE_CAUSES | PLATFORM_CAUSES
    retry_on_exit_codes: Annotated[
        ExitCodes,
        Meaning("exit codes after which a chain is retried", empty="every code but 0"),
    ] = ()
    no_retry_on_exit_codes: Annotated[
        ExitCodes,
        Meaning(
            "exit codes after which a chain is never retried, even if retry_on_exit_codes has them"
        ),
    ] = ()
    max_chain_duration: Annotated[
        Positive | None,
        Meaning(
            "longest time from the first submission until a retry is due",
            empty="no limit",
            unit=SECONDS,
        ),
    ] = None
    on_exhausted: Annotated[
        Exhaustion,
        Meaning("whether an exhausted chain ends, or is parked until somebody decides"),
    ] = WhenExhausted.END
    park_for: Annotated[
        ParkTime,
        Meaning(
            "longest time that a chain stays parked, at most 365 days; then it ends", unit=SECONDS
        ),
    ] = 86_400.0
    emit_retry_events: Annotated[
        StrictBool, Meaning("whether streams, lists and webhooks show session.retry_* events")
    ] = True


class Bounds(_Value):
    """The bounds that a layer sets for the layers below it. Null means no bound; every bound is
    below "unlimited". Times are in seconds."""

    max_retries: Annotated[
        Retries | None, Meaning("largest value that the layers below may set")
    ] = None
    max_preemption_retries: Annotated[
        PreemptionRetries | None, Meaning("largest value that the layers below may set")
    ] = None
    max_chain_duration: Annotated[
        Positive | None, Meaning("largest value that the layers below may set", unit=SECONDS)
    ] = None
    min_retry_delay: Annotated[
        NotNegative | None, Meaning("shortest delay that the layers below may set", unit=SECONDS)
    ] = None


# Stored policies leave these out, so none of them may change: `test_policy.py` holds them.
_SHIPPED = InlinePolicy().model_dump(mode="json")
FIELDS = fields_of(InlinePolicy)
BOUNDS = fields_of(Bounds)


def dump_set(policy: InlinePolicy | Bounds) -> dict[str, Any]:
    """Return only the fields that were set, as JSON values."""
    return policy.model_dump(mode="json", exclude_unset=True)


def dump_stored(policy: InlinePolicy) -> str:
    """Return the JSON text of a frozen policy, without what is as shipped: each attempt has it."""
    return policy.model_dump_json(exclude_defaults=True)


def whole(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of a stored policy, as JSON values."""
    return {**_SHIPPED, **stored}


@lru_cache(maxsize=4096)
def parse_policy_json(text: str) -> InlinePolicy:
    """Read a stored policy, cached: chains share few. Raises pydantic's `ValidationError`."""
    return InlinePolicy.model_validate_json(text, context=STORED)


def error_texts(error: ValidationError) -> dict[str, list[str]]:
    """Return the messages of a validation error by field; those of no single field under ""."""
    texts: dict[str, list[str]] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        field = str(detail["loc"][0]) if detail["loc"] else ""
        unknown = detail["type"] == "extra_forbidden"
        text = f"there is no field named {field}" if unknown else detail["msg"]
        texts.setdefault(field, []).append(text)
    return texts
