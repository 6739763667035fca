"""The mutations: one for each writing call of REST."""

from interfaces.graphql.mutations.breakers import BreakerMutations
from interfaces.graphql.mutations.bulk import BulkMutations
from interfaces.graphql.mutations.categories import CategoryMutations
from interfaces.graphql.mutations.failures import FailureMutations
from interfaces.graphql.mutations.memberships import MembershipMutations
from interfaces.graphql.mutations.policies import PolicyMutations
from interfaces.graphql.mutations.priority_classes import PriorityClassMutations
from interfaces.graphql.mutations.queues import QueueMutations
from interfaces.graphql.mutations.quotas import QuotaMutations
from interfaces.graphql.mutations.retry_config import RetryConfigMutations
from interfaces.graphql.mutations.schedules import ScheduleMutations
from interfaces.graphql.mutations.sessions import SessionMutations
from interfaces.graphql.mutations.tenants import TenantMutations
from interfaces.graphql.mutations.tokens import TokenMutations
from interfaces.graphql.mutations.webhooks import WebhookMutations


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
