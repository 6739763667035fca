"""Whether a project refuses submissions that fit on no executor: a part of its first page."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from sessions_app.authorization import Action
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.retry_scope import SettingsInForce
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.web.parts import Choice, Field
from sessions_app.web.project_frame import Place, of_project

_SAID = {"": None, "true": True, "false": False}
_NAMES = {said: value for value, said in _SAID.items()}


def refuse_field(settings: SettingsInForce) -> Field:
    """Return the field with what the project itself says, and what applies."""
    effect = "refused" if settings.refuses_unfittable else "accepted with a warning"
    own = settings.own
    return Field(
        "refuse_unfittable",
        "Refuse submissions that fit on no executor",
        _NAMES[own.refuse_unfittable if own else None],
        "select",
        choices=[Choice("true", "yes"), Choice("false", "no")],
        empty="as the domain or the cluster says",
        help=f"In effect: they are {effect}.",
    )


@of_project(Action.PROJECT_DEFAULTS_WRITE, methods=("POST",))
def submissions(request: HttpRequest, place: Place) -> HttpResponse:
    """Set it, and go back to the first page."""
    said = request.POST.get("refuse_unfittable", "")
    if said in _SAID:
        scope = ConfigScope(project=place.project)
        retry_settings_put(scope, by=place.actor.name, refuse_unfittable=_SAID[said])
        messages.success(request, "Saved. It applies to submissions from now on.")
    else:
        messages.error(request, "Not saved: choose yes, no, or as the layers above say.")
    return redirect(place.address("project"))
