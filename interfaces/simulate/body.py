"""The body of a simulation: its schema, and the checks of its parts."""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, StrictBool
from pydantic_core import PydanticCustomError

from base.podspec.resources import check
from interfaces.requests.queries import Time, lowered
from retry.breakers import BreakerRule
from retry.policies.categories import FailureCategory
from retry.policies.documents import MAX_POLICIES, PolicyDocument
from retry.policies.inline import MAX_RETRIES, InlinePolicy, whole_number
from retry.policies.shared_budget import SharedBudget, WhenOver, when_over

MAX_CATEGORIES = 1000
MAX_TAIL = 16 * 1024
"""Most characters of the end of an output; a signature looks at no more."""
MAX_AT = 10**11
"""Longest time in seconds, some 3,000 years. Delays on top of it still give valid dates."""


def _amounts(value: object) -> object:
    """Return amounts by resource, plain or as `requests` and `limits`, unparsed."""
    try:
        check(value)
    except ValueError as error:
        raise _refused(str(error)) from None
    return value


def _refused(why: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{why}", {"why": why})


class _Given(BaseModel):
    """The base of given values: types are not converted, unknown keys are refused, null is
    absent."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _written(value: object) -> object:
    if not isinstance(value, str):
        raise _refused("must be an ISO 8601 time with its zone, such as 2030-01-31T12:00:00Z")
    return value


_Moment = Annotated[Time, Strict(False), BeforeValidator(_written)]
_ExitCode = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class GivenContainer(_Given):
    """The state of one container at the end of an attempt."""

    name: str | None = None
    init: bool | None = None
    sidecar: bool | None = None
    exit_code: _ExitCode | None = None
    reason: str | None = None
    message: str | None = None
    finished_at: str | _Number | None = None


class GivenTermination(_Given):
    """The end of one attempt. `at` is in seconds since the root of the chain was created.

    Without `at`, the attempt ends when the retry that started it becomes due. If `pod` is given,
    the facts are read from it.
    """

    session_id: Annotated[UUID, Strict(False)] | None = None
    status: (
        Annotated[Literal["error", "terminated", "cancelled"], BeforeValidator(lowered)] | None
    ) = None
    exit_code: _ExitCode | None = None
    conditions: list[str] | None = None
    reason: str | None = None
    message: str | None = None
    pod_message: str | None = None
    log_tail: Annotated[str, Field(max_length=MAX_TAIL)] | None = None
    """The end of the output of what failed first: its signature tells the failure if no message
    does."""
    node: str | None = None
    at: Annotated[_Number, Field(ge=0, le=MAX_AT)] | None = None
    made_progress: StrictBool | None = None
    """Whether the attempt came further than all before it."""
    breaker_open: StrictBool | None = None
    """Whether the breaker of its signature is open then, so that a retry is held."""
    budget_spent: Annotated[WhenOver, BeforeValidator(when_over)] | None = None
    """That a shared budget is spent then: a retry is held, or the chain ends."""
    lease_expired: bool | None = None
    containers: list[GivenContainer] | None = None
    rank: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    pod: Any = None


class ChainHead(_Given):
    """All of a chain but its terminations."""

    session_type: Annotated[
        Literal["batch", "interactive", "inference"], BeforeValidator(lowered)
    ] = "batch"
    resources: Annotated[dict[str, Any], BeforeValidator(_amounts)] = {}


class GivenChain(ChainHead):
    """The first termination ends attempt 0, and so on."""

    terminations: list[GivenTermination] = []


class DraftSettings(_Given):
    """`enabled` is the kill switch. Without `global_max_retries`, the shipped one applies, or on a
    past the cluster's; null is no limit.

    `breaker` and `retry_budget` take the place of the project's; null takes them back.
    """

    enabled: StrictBool = True
    global_max_retries: (
        Annotated[int, Field(ge=0, le=MAX_RETRIES), BeforeValidator(whole_number(0, MAX_RETRIES))]
        | None
    ) = None
    breaker: BreakerRule | None = None
    retry_budget: SharedBudget | None = None

    @property
    def shared(self) -> dict[str, BreakerRule | SharedBudget | None]:
        """Return the breaker and the budget that were given, null too."""
        given = {"breaker": self.breaker, "retry_budget": self.retry_budget}
        return {name: value for name, value in given.items() if name in self.model_fields_set}


class HistoryWindow(_Given):
    """The chains of a project (`domain/name`) whose root was created from `since` to `until`.

    Without `until`, the window ends now.
    """

    project: str | None = None
    since: _Moment
    until: _Moment | None = None


class SimulateBody(_Given):
    """The body of `POST /retry-policies/simulate/`; exactly one of `chains` and `history`.

    `policies` are in effective order.
    """

    policies: list[PolicyDocument] | None = Field(None, max_length=MAX_POLICIES)
    retry_policy: InlinePolicy | None = None
    settings: DraftSettings | None = None
    failure_categories: list[FailureCategory] | None = Field(None, max_length=MAX_CATEGORIES)
    chains: list[GivenChain] | None = None
    history: HistoryWindow | None = None
