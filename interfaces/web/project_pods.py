"""The pod defaults of a project: what its pods get where a session says nothing."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from interfaces.forms.pod_defaults import HELP, PODS, PodDefaultsField
from interfaces.forms.yaml_text import LONGEST
from interfaces.web.parts import Field
from interfaces.web.project_frame import Place, of_project, page
from sessions_app.authorization import Action
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.selectors.retry_config import settings_of
from sessions_app.services.resources.retry_config import retry_settings_put


def pods_field(text: str, error: str = "") -> Field:
    """Return the field with this text."""
    return Field(
        *(PODS, "What pods get where a session says nothing", text, "textarea"),
        help=HELP,
        error=error,
        wide=True,
        max_length=LONGEST,
    )


@of_project(Action.PROJECT_DEFAULTS_READ)
def pods(request: HttpRequest, place: Place) -> HttpResponse:
    """Show the pod defaults of the project; a POST sets them."""
    scope = ConfigScope(project=place.project)
    field, error = PodDefaultsField(), ""
    if request.method == "POST":
        place.require(Action.PROJECT_DEFAULTS_WRITE)
        text = request.POST.get(PODS, "")
        try:
            retry_settings_put(scope, by=place.actor.name, pod_defaults=field.clean(text))
        except ValidationError as refused:
            error = " ".join(refused.messages)
        else:
            messages.success(request, "Saved. It applies to pods that are made from now on.")
            return redirect(place.address("project-pods"))
    else:
        row = settings_of(scope)
        text = field.prepare_value(row.pod_defaults) if row else ""
    changes = place.may(Action.PROJECT_DEFAULTS_WRITE)
    context = {"field": pods_field(text, error), "changes": changes, "text": text}
    return page(request, place, "pods", 400 if error else 200, **context)
