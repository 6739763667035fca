"""What the pages of one project share: who may see it, its tabs, and its parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from interfaces.web.parts import Confirm
from interfaces.web.visitor import visitor
from sessions_app.authorization import Action, Actor, permitted
from sessions_app.core.errors import DomainError, NotFound, NotPermitted
from sessions_app.models import ApiToken, Membership, Project, Schedule, WebhookEndpoint
from sessions_app.selectors.sessions import project_get

_Owned = TypeVar("_Owned", Membership, ApiToken, Schedule, WebhookEndpoint)


@dataclass(frozen=True, slots=True)
class Tab:
    """A page of a project: its name, its address's name, and what one must be allowed to do."""

    label: str
    view: str
    action: Action = Action.PROJECT_READ
    below: str = "-"
    """The beginning of the names of the pages below it."""


TABS = (
    Tab("Defaults", "project"),
    Tab("Policies", "project-policies", below="project-polic"),
    Tab("Queues", "project-queues", Action.QUEUE_READ, below="project-queue"),
    Tab("Pods", "project-pods", below="project-pods"),
    Tab("Failures", "project-failures", Action.FAILURE_READ, below="project-failure"),
    Tab("Worth", "project-worth", below="project-worth"),
    Tab("Schedules", "project-schedules", Action.SCHEDULE_READ, below="project-schedule"),
    Tab("Members", "project-members", below="project-member"),
    Tab("Tokens", "project-tokens", below="project-token"),
    Tab("Webhooks", "project-webhooks", Action.WEBHOOK_READ, below="project-webhook"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A project, and who looks at it."""

    actor: Actor
    project: Project

    def may(self, action: Action) -> bool:
        """Return whether the visitor may do it here."""
        return permitted(self.actor, action, project=self.project)

    def require(self, action: Action) -> None:
        """Raise `PermissionDenied` unless the visitor may do it here."""
        if not self.may(action):
            raise PermissionDenied(f"Your role in {self.project.address} does not allow this.")

    def own(self, found: _Owned) -> _Owned:
        """Return a record if it is the project's own. Raises `Http404`."""
        if found.project_id != self.project.pk:
            raise Http404
        return found

    def address(self, view: str, *more: object) -> str:
        """Return the address of one of the project's pages."""
        return reverse(view, args=[self.project.domain.name, self.project.name, *more])


_View = Callable[..., HttpResponse]


def of_project(
    action: Action = Action.PROJECT_READ, methods: tuple[str, ...] = ("GET", "HEAD", "POST")
) -> Callable[[_View], _View]:
    """Return a decorator for a view of a project: it gets the `Place` for the two names.

    The visitor must be signed in and may do `action`, as over REST: who may not see the project
    gets 404, who may see it and not do this gets 403. The view may raise `NotFound` and
    `NotPermitted`, with the same answers.
    """

    def decorated(show: _View) -> _View:
        @require_http_methods(methods)
        @login_required
        @never_cache
        def view(request: HttpRequest, domain: str, project: str, **more: Any) -> HttpResponse:
            if any("\0" in str(each) for each in (domain, project, *more.values())):
                # PostgreSQL refuses it in text.
                raise Http404
            actor = visitor(request)
            try:
                found = project_get(actor, domain, project, action)
                return show(request, Place(actor, found), **more)
            except NotFound as error:
                raise Http404 from error
            except NotPermitted as error:
                raise PermissionDenied(error.detail) from error

        return view

    return decorated


def page(
    request: HttpRequest, place: Place, template: str, status: int = 200, **context: Any
) -> HttpResponse:
    """Render `projects/<template>.html` within the frame of the project."""
    return render(
        request, f"projects/{template}.html", _whole(request, place, context), status=status
    )


def part(
    request: HttpRequest, place: Place, name: str, status: int = 200, **context: Any
) -> HttpResponse:
    """Render the fragment `projects/<name>.html`: alone if htmx asks, else as a page.

    `title` is the title of that page.
    """
    template = f"projects/{name}.html"
    alone = request.headers.get("HX-Request") == "true"
    whole = _whole(request, place, {"fragment": template, **context})
    return render(request, template if alone else "projects/part.html", whole, status=status)


def question(
    request: HttpRequest, place: Place, confirm: Confirm, do: Callable[[], str], done: str
) -> HttpResponse:
    """Ask before something is done; at a POST do it, say what `do` returns, and go on to `done`.

    A refusal is told where the question goes back to.
    """
    if request.method != "POST":
        return page(request, place, "confirm", confirm=confirm, title=confirm.title)
    try:
        messages.success(request, do())
    except (NotFound, NotPermitted):
        raise
    except DomainError as error:
        messages.error(request, f"Not done: {error.detail}.")
        return redirect(confirm.back)
    return redirect(done)


def _whole(request: HttpRequest, place: Place, context: dict[str, Any]) -> dict[str, Any]:
    here = (request.resolver_match and request.resolver_match.url_name) or ""
    tabs = [
        (tab.label, place.address(tab.view), _current(tab, here))
        for tab in TABS
        if place.may(tab.action)
    ]
    return {"project": place.project, "tabs": tabs, "now": timezone.now(), **context}


def _current(tab: Tab, here: str) -> str:
    """Return the `aria-current` of a tab on the page of this name."""
    if here == tab.view:
        return "page"
    return "true" if here.startswith(tab.below) else ""
