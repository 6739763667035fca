"""Failure categories: an operator's own names for what went wrong, with what tells them."""

from typing import Annotated

from pydantic import Field

from retry.policies.documents import Matcher, MessagePattern, Part
from retry.policies.fields import PlainName, list_of

MAX_MATCHERS = 100


class CategoryMatcher(Matcher):
    """One way to know a category. Init containers are looked at, too."""

    on_pod_message: MessagePattern | None = None


CategoryMatchers = Annotated[
    tuple[CategoryMatcher, ...],
    # Pydantic's own lower bound would count the items that are right: a second, false error.
    Field(json_schema_extra={"minItems": 1, "maxItems": MAX_MATCHERS}),
    list_of(1, MAX_MATCHERS),
]


class FailureCategory(Part):
    """A name; a failure belongs to it if one of the matchers holds."""

    name: PlainName
    matchers: CategoryMatchers
