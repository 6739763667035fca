"""The views of the OpenAPI document and of the page that shows it."""

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from drf_spectacular.settings import spectacular_settings
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from interfaces.http.authentication import login_first


class SchemaView(SpectacularAPIView):
    """Serves the document. It is made once per process, because that takes a second."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *_args: Any, **_kwargs: Any) -> HttpResponse:
        """Return the document."""
        renderer = type(request.accepted_renderer)
        name = f"{spectacular_settings.TITLE}.{renderer.format}"
        return HttpResponse(
            _document(renderer),  # type: ignore[arg-type]  # of instances, its __hash__
            content_type=f"{renderer.media_type}; charset=utf-8",
            headers={"Content-Disposition": f'inline; filename="{name}"'},
        )


class DocsView(SpectacularSwaggerSplitView):
    """The documentation page, for logged-in people and tokens; without inline scripts."""

    template_name = "swagger.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Send browsers without a login to the login page first."""
        return login_first(request) or super().dispatch(request, *args, **kwargs)


@cache
def _document(renderer: type[BaseRenderer]) -> bytes:
    generator: Any = SchemaView.generator_class()
    text: str | bytes = renderer().render(
        generator.get_schema(request=None, public=True), renderer_context={}
    )
    return text.encode() if isinstance(text, str) else text
