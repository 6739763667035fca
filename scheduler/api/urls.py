"""`/api/v2/executors/`: the executors' wire."""

from django.urls import path

from scheduler.api import views

urlpatterns = [
    path("executors/<str:name>/lease/", views.LeaseView.as_view()),
    path("executors/<str:name>/reports/", views.ReportsView.as_view()),
    path("executors/<str:name>/return/", views.ReturnView.as_view()),
    path("executors/<str:name>/logs/", views.LogsView.as_view()),
]
