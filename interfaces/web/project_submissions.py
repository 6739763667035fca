"""Settings of a project on its first page: the switch of its retries, and what it refuses."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.web.parts import Choice, Field
from interfaces.web.project_frame import Place, of_project
from retry.engine.decide import Mode
from sessions_app.authorization import Action
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.retry_scope import SettingsInForce
from sessions_app.services.resources.retry_config import retry_settings_put

_MODES = {
    Mode.ON: "on: failures are retried as the policies say",
    Mode.PAUSED: "paused: retries are decided, and held until the switch is on again",
    Mode.OFF: "off: sessions that fail are not retried",
}
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


def switch_field(settings: SettingsInForce) -> Field:
    """Return the field with what the project itself says, and what applies."""
    own = Mode(settings.own.mode) if settings.own else Mode.ON
    above = f"In effect: {settings.mode.value}, by a layer above." if settings.mode != own else ""
    choices = [Choice(mode.value, words) for mode, words in _MODES.items()]
    return Field("mode", "Retries are", own.value, "select", choices=choices, empty="", help=above)


@of_project(Action.PROJECT_DEFAULTS_WRITE, methods=("POST",))
def retries(request: HttpRequest, place: Place) -> HttpResponse:
    """Set the switch of the project's retries, and go back to the first page."""
    said = request.POST.get("mode", "")
    if said in set(Mode):
        mode = Mode(said)
        retry_settings_put(ConfigScope(project=place.project), by=place.actor.name, mode=mode)
        messages.success(request, f"Retries of {place.project.address} are {said}.")
    else:
        messages.error(request, "Not saved: choose on, paused or off.")
    return redirect(place.address("project"))


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
