"""The addresses of the pages of projects that are made here."""

from django.urls import path

from interfaces.web import project_preemptions

urlpatterns = [
    path(
        "projects/<str:domain>/<str:project>/queues/preemptions/",
        project_preemptions.preemptions,
        name="project-queue-preemptions",
    ),
]
