"""Failure categories: operators' names for kinds of failures, with their matchers."""

from typing import Annotated

from pydantic import Field

from retry.policies.documents import Matcher, MessagePattern, Part
from retry.policies.fields import PlainName, list_of

MAX_MATCHERS = 100


class CategoryMatcher(Matcher):
    """One matcher of a failure category. It also looks at init containers."""

    on_pod_message: MessagePattern | None = None
    on_signature_title: MessagePattern | None = None


CategoryMatchers = Annotated[
    tuple[CategoryMatcher, ...],
    # Pydantic's own minimum would count only the valid items, and report a second, false error.
    Field(json_schema_extra={"minItems": 1, "maxItems": MAX_MATCHERS}),
    list_of(1, MAX_MATCHERS),
]


class FailureCategory(Part):
    """A failure category. A failure belongs to it if any of its matchers matches."""

    name: PlainName
    matchers: CategoryMatchers
