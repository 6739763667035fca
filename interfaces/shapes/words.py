"""Words that are no enumeration in code, as one in the documents."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import WithJsonSchema
from typing_extensions import TypeAliasType

from retry.engine.reasons import REASONS
from sessions_app.models.retries import DECISION_STATES


def _one_of(words: Iterable[str]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [*words]})


RetryReason = TypeAliasType("RetryReason", Annotated[str, _one_of(REASONS)])
DecisionState = TypeAliasType("DecisionState", Annotated[str, _one_of(DECISION_STATES)])
