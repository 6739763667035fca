"""Parts of pages with an address of their own: in a page for htmx, or as a page."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from interfaces.web.visitor import visitor
from sessions_app.core.errors import NotFound
from sessions_app.models import Session
from sessions_app.selectors.sessions import session_get


def session_or_404(request: HttpRequest, session_id: UUID) -> Session:
    """Return the session, if the visitor may see it. Raises `Http404`."""
    try:
        return session_get(visitor(request), session_id)
    except NotFound as error:
        raise Http404 from error


def fragment(
    request: HttpRequest, name: str, found: Session, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    """Render `fragments/<name>.html` about a session: alone if htmx asks, else as a page.

    The template is given the `session` as a row, `now`, and the context.
    """
    template = f"fragments/{name}.html"
    whole = {"session": found, "now": timezone.now(), "fragment": template, **context}
    alone = request.headers.get("HX-Request") == "true"
    return render(request, template if alone else "fragment_page.html", whole, status=status)
