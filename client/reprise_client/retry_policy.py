"""The inline retry policy of a session, as a typed value."""

from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from reprise_client.retry_policy_fields import RetryPolicyFields


class RetryPolicy(RetryPolicyFields):
    """When and how often a chain is retried. All times are in seconds.

    A field that is not given is inherited. A null is a value: with a null `max_preemption_retries`
    a platform cause spends `max_retries`, and other nulls mean no limit. Both numbers of retries
    may be "unlimited". The server checks the values and says which field is wrong.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=False)

    def body(self) -> dict[str, Any]:
        """Return the given fields as the API takes them."""
        return self.model_dump(mode="json", exclude_unset=True)


def written_out(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session's body with a typed policy replaced by JSON values."""
    policy = body.get("retry_policy")
    return {**body, "retry_policy": policy.body()} if isinstance(policy, RetryPolicy) else {**body}
