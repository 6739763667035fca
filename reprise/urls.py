"""Every address of the server."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from reprise import health, metrics
from reprise.graphql import GraphQLDoor
from sessions_app.api.schema_view import DocsView, SchemaView

admin.autodiscover()

urlpatterns = [
    path("api/v2/", include("sessions_app.api.urls")),
    path("api/v2/", include("scheduler.api.urls")),
    path("api/v2/schema/", SchemaView.as_view(), name="schema"),
    path("api/v2/docs/", DocsView.as_view(url_name="schema"), name="docs"),
    path("graphql/", GraphQLDoor.as_view(), name="graphql"),
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(template_name="login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("", include("sessions_app.web.urls")),
]

handler400 = "reprise.errors.bad_request"
handler404 = "reprise.errors.not_found"
handler500 = "reprise.errors.server_error"
