"""The addresses of the page of operators, and of its calls under `/api/v2/`."""

from django.urls import path

from reprise.operations import page, views

API = [
    path("operations/", views.OperationsView.as_view()),
    path("operations/trends/", views.TrendsView.as_view()),
]

PAGES = [
    path("operations/", page.page, name="operations"),
    path("operations/now/", page.page, {"fragment": True}, name="operations-now"),
    path("operations/room/", page.making_room, name="operations-room"),
    path("operations/timetable/", page.schedules, name="operations-timetable"),
    path("operations/trends/", page.past, name="operations-trends"),
    path("operations/<slug:name>/", page.act, name="operations-act"),
]
