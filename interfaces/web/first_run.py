"""What somebody does first in an empty system, and the session of demonstrations."""

from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from interfaces.requests.bodies import SessionCreate
from interfaces.web.visitor import visitor
from sessions_app.authorization import Action, Actor, require_user
from sessions_app.core.demo_session import demo_body
from sessions_app.core.errors import DomainError
from sessions_app.models.tenants import Role
from sessions_app.selectors.executors_known import executors_known
from sessions_app.selectors.sessions import queue_resolve
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import session_submit

OFFERED = 20
"""The most projects that are offered."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the first run."""

    title: str
    done: bool
    text: str
    link: tuple[str, str] = ("", "")
    """A label and an address."""


@dataclass(frozen=True, slots=True)
class FirstRun:
    """What is there, and what is missing."""

    steps: list[Step]
    projects: list[str]
    """The addresses of projects in which the visitor may submit."""
    server: str

    @property
    def ready(self) -> bool:
        """Return whether a session would run now."""
        return all(step.done for step in self.steps)


def first_run(request: HttpRequest, actor: Actor) -> FirstRun:
    """Return the steps of somebody who sees no session."""
    own = actor.projects(least=Role.MEMBER).select_related("domain")
    projects = [project.address for project in own.order_by("domain__name", "name")[:OFFERED]]
    steps = [_project_step(actor, bool(projects)), _executor_step(actor)]
    return FirstRun(steps, projects, f"{request.scheme}://{request.get_host()}")


def _project_step(actor: Actor, there: bool) -> Step:
    if there:
        return Step("A project to work in", True, "You may submit sessions.")
    text = "An operator makes projects and their members in the admin."
    if not actor.is_superuser:
        return Step("A project to work in", False, f"You are a member of none. {text}")
    link = ("Make a project", reverse("admin:sessions_app_project_add"))
    return Step("A project to work in", False, "There is none yet.", link)


def _executor_step(actor: Actor) -> Step:
    title = "An executor that runs sessions"
    known = executors_known()
    if known.heard:
        are = "One is" if known.heard == 1 else f"{known.heard} are"
        return Step(title, True, f"{are} connected.")
    if not actor.is_superuser:
        return Step(title, False, "None is connected. Ask an operator of this server to start one.")
    if known.registered:
        text = "None of those that are registered is heard. Start the agent beside its cluster."
        return Step(
            title, False, text, ("Executors", reverse("admin:scheduler_executor_changelist"))
        )
    text = "Register one, and start its agent with the token that you are then shown."
    return Step(
        title, False, text, ("Register an executor", reverse("admin:scheduler_executor_add"))
    )


@require_POST
@login_required
def submit_demo(request: HttpRequest) -> HttpResponse:
    """Submit the session of demonstrations, and show it."""
    actor = visitor(request)
    try:
        body = SessionCreate.model_validate(demo_body(request.POST.get("project", "")))
        queue = queue_resolve(actor, body.project, None, Action.SESSION_CREATE)
        made = session_submit(Placed(queue, require_user(actor).pk, body.submission()))
    except (DomainError, ValueError) as error:
        why = error.detail if isinstance(error, DomainError) else "choose a project of the list"
        messages.error(request, f"Not submitted: {why}.")
        return redirect("home")
    messages.success(request, "Submitted. It fails twice, comes back by itself, and succeeds.")
    return redirect("session", made.session_id)
