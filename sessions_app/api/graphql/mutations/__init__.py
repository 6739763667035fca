"""The mutations: one for each writing call of REST."""

from sessions_app.api.graphql.mutations.breakers import BreakerMutations
from sessions_app.api.graphql.mutations.bulk import BulkMutations
from sessions_app.api.graphql.mutations.categories import CategoryMutations
from sessions_app.api.graphql.mutations.failures import FailureMutations
from sessions_app.api.graphql.mutations.memberships import MembershipMutations
from sessions_app.api.graphql.mutations.policies import PolicyMutations
from sessions_app.api.graphql.mutations.priority_classes import PriorityClassMutations
from sessions_app.api.graphql.mutations.queues import QueueMutations
from sessions_app.api.graphql.mutations.quotas import QuotaMutations
from sessions_app.api.graphql.mutations.retry_config import RetryConfigMutations
from sessions_app.api.graphql.mutations.schedules import ScheduleMutations
from sessions_app.api.graphql.mutations.sessions import SessionMutations
from sessions_app.api.graphql.mutations.tenants import TenantMutations
from sessions_app.api.graphql.mutations.tokens import TokenMutations
from sessions_app.api.graphql.mutations.webhooks import WebhookMutations


class Mutations(
    SessionMutations,
    BulkMutations,
    PolicyMutations,
    RetryConfigMutations,
    CategoryMutations,
    PriorityClassMutations,
    FailureMutations,
    BreakerMutations,
    QueueMutations,
    QuotaMutations,
    TenantMutations,
    MembershipMutations,
    TokenMutations,
    ScheduleMutations,
    WebhookMutations,
):
    """The fields of the root `Mutation` from this package."""
