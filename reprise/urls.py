"""Every address of the server."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from interfaces.openapi.views import DocsView, SchemaView
from reprise.graphql.view import GraphQLView
from reprise.monitoring import health, metrics
from reprise.operations.urls import API, PAGES

admin.autodiscover()

urlpatterns = [
    path("api/v2/", include("interfaces.urls")),
    path("api/v2/", include("interfaces.executor_wire.urls")),
    path("api/v2/", include(API)),
    path("api/v2/schema/", SchemaView.as_view(), name="schema"),
    path("api/v2/docs/", DocsView.as_view(url_name="schema"), name="docs"),
    path("graphql/", GraphQLView.as_view(), name="graphql"),
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(template_name="login.html"), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("", include("interfaces.web.urls")),
    path("", include(PAGES)),
]

handler400 = "reprise.http.errors.bad_request"
handler404 = "reprise.http.errors.not_found"
handler500 = "reprise.http.errors.server_error"
