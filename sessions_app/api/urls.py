"""`/api/v2/`: the records."""

from django.urls import URLPattern, path

from sessions_app.api.rest import (
    audit,
    bulk,
    bulk_actions,
    categories,
    job_sets,
    memberships,
    policies,
    queues,
    quotas,
    retry_config,
    sessions,
    simulate,
    tenants,
    tokens,
    webhooks,
    whoami,
)


def _scoped(prefix: str, view: type[retry_config.ScopeView]) -> list[URLPattern]:
    """One view under the cluster, under a domain and under a project."""
    forms = {
        "cluster": "cluster/",
        "domain": "domains/<str:domain>/",
        "project": "projects/<str:domain>/<str:project>/",
    }
    return [path(f"{prefix}/{form}", view.at(level).as_view()) for level, form in forms.items()]


_WEBHOOK = "webhooks/<uuid:webhook_id>/"
_QUEUE = "queues/<str:domain>/<str:project>/<str:queue>/"
urlpatterns = [
    path("whoami/", whoami.WhoAmIView.as_view()),
    path("audit/", audit.AuditView.as_view()),
    path("sessions/", sessions.SessionsView.as_view(), name="api-sessions"),
    path("sessions/bulk/", bulk.SessionsBulkView.as_view()),
    path("sessions/bulk-cancel/", bulk_actions.BulkCancelView.as_view()),
    path("sessions/bulk-retry/", bulk_actions.BulkRetryView.as_view()),
    path("sessions/<uuid:session_id>/", sessions.SessionView.as_view()),
    path("sessions/<uuid:session_id>/attempts/", sessions.AttemptsView.as_view()),
    path("sessions/<uuid:session_id>/events/", sessions.EventsView.as_view()),
    path("sessions/<uuid:session_id>/logs/", sessions.LogsView.as_view()),
    path("sessions/<uuid:session_id>/retry-decision/", sessions.RetryDecisionView.as_view()),
    path("sessions/<uuid:session_id>/cancel/", sessions.CancelView.as_view()),
    path("sessions/<uuid:session_id>/preempt/", sessions.PreemptView.as_view()),
    path("sessions/<uuid:session_id>/retry/", sessions.RetryView.as_view()),
    path("job-sets/", job_sets.JobSetsView.as_view()),
    path("job-sets/<str:name>/events/", job_sets.JobSetEventsView.as_view()),
    *_scoped("retry-defaults", retry_config.DefaultsView),
    *_scoped("retry-settings", retry_config.SettingsView),
    path("quotas/domains/<str:domain>/", quotas.QuotasView.at("domain").as_view()),
    path("quotas/projects/<str:domain>/<str:project>/", quotas.QuotasView.at("project").as_view()),
    path("retry-policies/", policies.PoliciesView.as_view()),
    path("retry-policies/simulate/", simulate.SimulateView.as_view()),
    path("retry-policies/<str:name>/", policies.PolicyView.as_view()),
    path("retry-policies/<str:name>/revisions/", policies.RevisionsView.as_view()),
    path("failure-categories/", categories.CategoriesView.as_view()),
    path("failure-categories/<str:name>/", categories.CategoryView.as_view()),
    path("domains/", tenants.DomainsView.as_view()),
    path("domains/<str:domain>/", tenants.DomainView.as_view()),
    path("projects/", tenants.ProjectsView.as_view()),
    path("projects/<str:domain>/<str:project>/", tenants.ProjectView.as_view()),
    path("memberships/", memberships.MembershipsView.as_view()),
    path("memberships/<int:membership_id>/", memberships.MembershipView.as_view()),
    path("tokens/", tokens.TokensView.as_view()),
    path("tokens/<str:prefix>/", tokens.TokenView.as_view()),
    path("queues/", queues.QueuesView.as_view()),
    path(_QUEUE, queues.QueueView.as_view()),
    path(f"{_QUEUE}cordon/", queues.CordonView.as_view()),
    path(f"{_QUEUE}uncordon/", queues.UncordonView.as_view()),
    path("webhooks/", webhooks.WebhooksView.as_view()),
    path(_WEBHOOK, webhooks.WebhookView.as_view()),
    path(f"{_WEBHOOK}secret/", webhooks.SecretView.as_view()),
    path(f"{_WEBHOOK}pause/", webhooks.PauseView.as_view()),
    path(f"{_WEBHOOK}resume/", webhooks.ResumeView.as_view()),
    path(f"{_WEBHOOK}ping/", webhooks.PingView.as_view()),
    path(f"{_WEBHOOK}redeliver/", webhooks.RedeliverView.as_view()),
    path(f"{_WEBHOOK}deliveries/", webhooks.DeliveriesView.as_view()),
    path(f"{_WEBHOOK}deliveries/<int:number>/", webhooks.DeliveryView.as_view()),
]
