"""Addresses under `/api/v2/`: the overview, the executors, and their wire protocol."""

from django.urls import path

from interfaces.executor_wire import overview, preemptions, registry, views

urlpatterns = [
    path("overview/", overview.OverviewView.as_view()),
    path("reservations/", registry.ReservationsView.as_view()),
    path("preemptions/", preemptions.PreemptionsView.as_view()),
    *(path(view.route(), view.as_view()) for view in registry.VIEWS),
    path("executors/<str:name>/leases/", registry.ExecutorLeasesView.as_view()),
    path("executors/<str:name>/lease/", views.LeaseView.as_view()),
    path("executors/<str:name>/reports/", views.ReportsView.as_view()),
    path("executors/<str:name>/return/", views.ReturnView.as_view()),
    path("executors/<str:name>/logs/", views.LogsView.as_view()),
]
