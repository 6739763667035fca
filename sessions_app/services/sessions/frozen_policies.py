"""The policy that a chain keeps from its beginning."""

import json
from collections.abc import Iterable

from retry.engine.budgets import endless
from retry.policies.doubts import policy_doubts
from retry.policies.inline import InlinePolicy, dump_set, dump_stored
from retry.policies.merge import Layer, bounded, merge, violations
from sessions_app.core.errors import InvalidInput
from sessions_app.in_force.retry_scope import scopes_of
from sessions_app.models import Queue
from sessions_app.services.sessions.submission import Placed

ENDLESS = (
    "retries of this chain have no limit: max_retries is unlimited, and neither max_chain_duration "
    "nor global_max_retries is set"
)


class PolicyFreezer:
    """Merges the layers of defaults below each policy, as they are now: a chain keeps the policy
    that it began with. Equal policies of a project are merged once."""

    def __init__(self, queues: Iterable[Queue]):
        self._scopes = scopes_of(queues)
        self._merged: dict[tuple[int, str], tuple[InlinePolicy, str]] = {}

    def refuses_unfittable(self, project_id: int) -> bool:
        """Return whether the project refuses sessions that fit on no executor."""
        scope = self._scopes.get(project_id)
        return scope is not None and scope.refuses_unfittable

    def warnings(self, placed: Placed, policy: InlinePolicy) -> tuple[str, ...]:
        """Return the warnings about a submission and the policy that was frozen for it."""
        asked, scope = placed.submission, self._scopes[placed.project_id]
        if asked.session_type != "batch":
            return asked.warnings
        found = (*asked.warnings, *policy_doubts(policy, asked.retry_policy))
        if not endless(policy, scope.settings):
            return found
        within, _ = bounded(policy, scope.bounds)
        return (*found, ENDLESS) if endless(within, scope.settings) else found

    def freeze(self, project_id: int, asked: InlinePolicy) -> tuple[InlinePolicy, str]:
        """The merged policy and its JSON text; raises `InvalidInput` if it is over a bound."""
        key = (project_id, json.dumps(dump_set(asked), sort_keys=True))
        if key not in self._merged:
            scope = self._scopes.get(project_id)
            if scope is None:
                raise InvalidInput({"project": ["was deleted"]})
            over = violations(asked, scope.bounds)
            if over:
                raise InvalidInput({f"retry_policy.{name}": texts for name, texts in over.items()})
            policy = merge([*scope.defaults, (Layer.SESSION, asked)]).policy
            self._merged[key] = (policy, dump_stored(policy))
        return self._merged[key]
