"""A shared retry budget, as a validated and immutable value of the settings of a scope."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool
from pydantic_core import PydanticCustomError

from retry.policies.inline import number_of, whole_number
from retry.shared_budgets import Limit

MOST_RATIO = 100
MOST_BURST = 1_000_000
SHORTEST, LONGEST = 60, 86_400


class WhenOver(StrEnum):
    POSTPONE = "postpone"
    FAIL = "fail"


def _ratio(value: object) -> float:
    number = number_of(value)
    if not 0 <= number <= MOST_RATIO:
        raise PydanticCustomError("out_of_range", "must be between 0 and 100")
    return number


def when_over(value: object) -> WhenOver:
    """Return the value, written in any case. Raises `PydanticCustomError`."""
    known = WhenOver.__members__.get(value.upper()) if isinstance(value, str) else None
    if known is None:
        raise PydanticCustomError("not_a_member", "must be one of: postpone, fail")
    return known


class SharedBudget(BaseModel):
    """The most automatic retries of a scope: `burst`, and `ratio` for each first attempt, within
    `window` seconds."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    ratio: Annotated[float, Field(ge=0, le=MOST_RATIO), BeforeValidator(_ratio)] = 0.2
    """Retries that each first attempt allows."""
    burst: Annotated[
        int, Field(ge=0, le=MOST_BURST), BeforeValidator(whole_number(0, MOST_BURST))
    ] = 50
    """Retries that are always allowed."""
    window: Annotated[
        int, Field(ge=SHORTEST, le=LONGEST), BeforeValidator(whole_number(SHORTEST, LONGEST))
    ] = 3600
    """Seconds in which both are counted."""
    over: Annotated[WhenOver, BeforeValidator(when_over)] = WhenOver.POSTPONE
    """Retries over the budget wait (`postpone`), or their chains end (`fail`)."""
    platform: StrictBool = False
    """True if retries after causes of the platform count, too."""

    @property
    def limit(self) -> Limit:
        return Limit(self.ratio, self.burst, self.window)

    def stored(self) -> dict[str, Any]:
        """Return all its fields as JSON values."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return values
