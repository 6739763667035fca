"""Addresses under `/api/v2/`: the overview, the executors, and their wire protocol."""

from django.urls import path

from scheduler.api import nodes, overview, preemptions, registry, views

urlpatterns = [
    path("overview/", overview.OverviewView.as_view()),
    path("reservations/", registry.ReservationsView.as_view()),
    path("preemptions/", preemptions.PreemptionsView.as_view()),
    path("nodes/", nodes.NodesView.as_view()),
    path("nodes/<str:executor>/<str:name>/", nodes.NodeView.as_view()),
    path("nodes/<str:executor>/<str:name>/quarantine/", nodes.NodeQuarantineView.as_view()),
    path("nodes/<str:executor>/<str:name>/release/", nodes.NodeReleaseView.as_view()),
    path("executors/", registry.ExecutorsView.as_view()),
    path("executors/<str:name>/", registry.ExecutorView.as_view()),
    path("executors/<str:name>/cordon/", registry.ExecutorCordonView.as_view()),
    path("executors/<str:name>/uncordon/", registry.ExecutorUncordonView.as_view()),
    path("executors/<str:name>/drain/", registry.ExecutorDrainView.as_view()),
    path("executors/<str:name>/token/", registry.ExecutorTokenView.as_view()),
    path("executors/<str:name>/leases/", registry.ExecutorLeasesView.as_view()),
    path("executors/<str:name>/lease/", views.LeaseView.as_view()),
    path("executors/<str:name>/reports/", views.ReportsView.as_view()),
    path("executors/<str:name>/return/", views.ReturnView.as_view()),
    path("executors/<str:name>/logs/", views.LogsView.as_view()),
]
