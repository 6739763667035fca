"""The addresses of the web pages."""

from django.urls import path

from sessions_app.web import views

urlpatterns = [
    path("", views.home, name="home"),
    path("sessions/<uuid:session_id>/", views.session, name="session"),
]
