"""The addresses under `/api/v2/`."""

from django.urls import URLPattern, path

from interfaces.rest import (
    audit_views,
    breaker_views,
    budget_views,
    bulk_action_views,
    bulk_views,
    failure_views,
    job_set_views,
    kind_views,
    policy_views,
    report_views,
    retry_config_views,
    schedule_views,
    session_views,
    simulate_views,
    token_views,
    webhook_views,
    whoami_view,
)


def _scoped(prefix: str, view: type[retry_config_views.ScopeView]) -> list[URLPattern]:
    """Return the addresses of a view under the cluster, a domain and a project."""
    forms = {
        "cluster": "cluster/",
        "domain": "domains/<str:domain>/",
        "project": "projects/<str:domain>/<str:project>/",
    }
    return [path(f"{prefix}/{form}", view.at(level).as_view()) for level, form in forms.items()]


_WEBHOOK = "webhooks/<uuid:webhook_id>/"
urlpatterns = [
    path("whoami/", whoami_view.WhoAmIView.as_view()),
    path("audit/", audit_views.AuditView.as_view()),
    path("sessions/", session_views.SessionsView.as_view(), name="api-sessions"),
    path("sessions/bulk/", bulk_views.SessionsBulkView.as_view()),
    path("sessions/bulk-cancel/", bulk_action_views.BulkCancelView.as_view()),
    path("sessions/bulk-give-up/", bulk_action_views.BulkGiveUpView.as_view()),
    path("sessions/bulk-preempt/", bulk_action_views.BulkPreemptView.as_view()),
    path("sessions/bulk-update/", bulk_action_views.BulkUpdateView.as_view()),
    path("sessions/bulk-retry/", bulk_action_views.BulkRetryView.as_view()),
    path("sessions/<uuid:session_id>/", session_views.SessionView.as_view()),
    path("sessions/<uuid:session_id>/attempts/", session_views.AttemptsView.as_view()),
    path("sessions/<uuid:session_id>/events/", session_views.EventsView.as_view()),
    path("sessions/<uuid:session_id>/logs/", session_views.LogsView.as_view()),
    path("sessions/<uuid:session_id>/graph/", session_views.GraphView.as_view()),
    path("sessions/<uuid:session_id>/retry-decision/", session_views.RetryDecisionView.as_view()),
    path("sessions/<uuid:session_id>/cancel/", session_views.CancelView.as_view()),
    path("sessions/<uuid:session_id>/give-up/", session_views.GiveUpView.as_view()),
    path("sessions/<uuid:session_id>/preempt/", session_views.PreemptView.as_view()),
    path("sessions/<uuid:session_id>/retry/", session_views.RetryView.as_view()),
    path("job-sets/", job_set_views.JobSetsView.as_view()),
    path("job-sets/<str:name>/events/", job_set_views.JobSetEventsView.as_view()),
    *_scoped("retry-defaults", retry_config_views.DefaultsView),
    *_scoped("retry-settings", retry_config_views.SettingsView),
    path("retry-policies/", policy_views.PoliciesView.as_view()),
    path("retry-policies/simulate/", simulate_views.SimulateView.as_view()),
    path("retry-policies/<str:name>/", policy_views.PolicyView.as_view()),
    path("retry-policies/<str:name>/revisions/", policy_views.RevisionsView.as_view()),
    *(path(view.route(), view.as_view()) for view in kind_views.VIEWS),
    path("failures/", failure_views.FailuresView.as_view()),
    path("failures/<str:key>/", failure_views.FailureView.as_view()),
    path("breakers/", breaker_views.BreakersView.as_view()),
    path("breakers/<uuid:breaker_id>/events/", breaker_views.BreakerEventsView.as_view()),
    path("retry-budgets/", budget_views.RetryBudgetsView.as_view()),
    path("reports/retries/", report_views.RetryReportView.as_view()),
    path("tokens/", token_views.TokensView.as_view()),
    path("tokens/<str:prefix>/", token_views.TokenView.as_view()),
    path("schedules/preview/", schedule_views.PreviewView.as_view()),
    path(f"{_WEBHOOK}deliveries/", webhook_views.DeliveriesView.as_view()),
    path(f"{_WEBHOOK}deliveries/<int:number>/", webhook_views.DeliveryView.as_view()),
]
