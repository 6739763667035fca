"""The views of plain kinds over REST."""

from collections.abc import Sequence

from interfaces.kinds.breakers import BREAKER
from interfaces.kinds.categories import CATEGORY
from interfaces.kinds.memberships import MEMBERSHIP
from interfaces.kinds.priority_classes import PRIORITY_CLASS
from interfaces.kinds.queues import QUEUE
from interfaces.kinds.quotas import DOMAIN_QUOTAS, PROJECT_QUOTAS
from interfaces.kinds.schedules import SCHEDULE
from interfaces.kinds.tenants import DOMAIN, PROJECT
from interfaces.kinds.webhooks import WEBHOOK
from interfaces.rest.policy_views import DocumentView
from interfaces.rest.resource_views import (
    ResourceAct,
    ResourceList,
    ResourceOne,
    ResourceView,
)


class CategoriesView(DocumentView, ResourceList):
    of = CATEGORY


class CategoryView(DocumentView, ResourceOne):
    of = CATEGORY


class PriorityClassesView(DocumentView, ResourceList):
    of = PRIORITY_CLASS


class PriorityClassView(DocumentView, ResourceOne):
    of = PRIORITY_CLASS


class QueuesView(ResourceList):
    of = QUEUE


class QueueView(ResourceOne):
    of = QUEUE


class QueueCordonView(ResourceAct):
    of = QUEUE
    act = "cordon"


class QueueUncordonView(ResourceAct):
    of = QUEUE
    act = "uncordon"


class DomainsView(ResourceList):
    of = DOMAIN


class DomainView(ResourceOne):
    of = DOMAIN


class ProjectsView(ResourceList):
    of = PROJECT


class ProjectView(ResourceOne):
    of = PROJECT


class MembershipsView(ResourceList):
    of = MEMBERSHIP


class MembershipView(ResourceOne):
    of = MEMBERSHIP


class DomainQuotasView(ResourceOne):
    of = DOMAIN_QUOTAS


class ProjectQuotasView(ResourceOne):
    of = PROJECT_QUOTAS


class WebhooksView(ResourceList):
    of = WEBHOOK


class WebhookView(ResourceOne):
    of = WEBHOOK


class WebhookSecretView(ResourceAct):
    of = WEBHOOK
    act = "secret"


class WebhookPauseView(ResourceAct):
    of = WEBHOOK
    act = "pause"


class WebhookResumeView(ResourceAct):
    of = WEBHOOK
    act = "resume"


class WebhookPingView(ResourceAct):
    of = WEBHOOK
    act = "ping"


class WebhookRedeliverView(ResourceAct):
    of = WEBHOOK
    act = "redeliver"


class SchedulesView(ResourceList):
    of = SCHEDULE


class ScheduleView(ResourceOne):
    of = SCHEDULE


class SchedulePauseView(ResourceAct):
    of = SCHEDULE
    act = "pause"


class ScheduleResumeView(ResourceAct):
    of = SCHEDULE
    act = "resume"


class ScheduleTriggerView(ResourceAct):
    of = SCHEDULE
    act = "trigger"


class ScheduleBackfillView(ResourceAct):
    of = SCHEDULE
    act = "backfill"


class BreakerView(ResourceOne):
    of = BREAKER


class BreakerCloseView(ResourceAct):
    of = BREAKER
    act = "close"


class BreakerMuteView(ResourceAct):
    of = BREAKER
    act = "mute"


class BreakerUnmuteView(ResourceAct):
    of = BREAKER
    act = "unmute"


VIEWS: Sequence[type[ResourceView]] = (
    CategoriesView,
    CategoryView,
    PriorityClassesView,
    PriorityClassView,
    QueuesView,
    QueueView,
    QueueCordonView,
    QueueUncordonView,
    DomainsView,
    DomainView,
    ProjectsView,
    ProjectView,
    MembershipsView,
    MembershipView,
    DomainQuotasView,
    ProjectQuotasView,
    WebhooksView,
    WebhookView,
    WebhookSecretView,
    WebhookPauseView,
    WebhookResumeView,
    WebhookPingView,
    WebhookRedeliverView,
    SchedulesView,
    ScheduleView,
    SchedulePauseView,
    ScheduleResumeView,
    ScheduleTriggerView,
    ScheduleBackfillView,
    BreakerView,
    BreakerCloseView,
    BreakerMuteView,
    BreakerUnmuteView,
)
"""All of them. Each knows its address."""
