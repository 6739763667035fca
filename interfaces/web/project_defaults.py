"""The first page of a project: what its sessions inherit and what bounds that. And the list."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from interfaces.forms.defaults import DefaultsForm, Line, initial
from interfaces.web.form_fields import shown_field
from interfaces.web.parts import Column, Empty, Field, Listing
from interfaces.web.project_frame import Place, of_project, page
from interfaces.web.project_submissions import refuse_field, switch_field
from interfaces.web.project_would_get import would_get_form
from interfaces.web.visitor import visitor
from retry.policies.merge import Merged, merge
from sessions_app.authorization import Action
from sessions_app.core.errors import InvalidInput, Outdated
from sessions_app.core.stored_numbers import in_short
from sessions_app.core.versions import Expected
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.in_force.layers import bound_layers, policy_layers
from sessions_app.in_force.retry_scope import settings_in_force
from sessions_app.models import RetryDefaults
from sessions_app.selectors.retry_config import defaults_of
from sessions_app.selectors.tenants import projects_listed
from sessions_app.services.resources.retry_config import layer_version, retry_defaults_put

PAGE = 100


@require_safe
@login_required
@never_cache
def projects(request: HttpRequest) -> HttpResponse:
    """List the projects that the visitor may see, by name; `?at=` is how many stand before."""
    rows = projects_listed(visitor(request)).order_by("domain__name", "name")
    at = _number(request.GET.get("at", ""))
    found = list(rows[at : at + PAGE + 1])
    listing = Listing(
        "Projects",
        [Column("Project", "name"), Column("Sessions", "more")],
        "projects/row.html",
        [{"id": each.pk, "project": each} for each in found[:PAGE]],
        Empty(
            "You are a member of no project.",
            "An operator makes projects and their members in the admin.",
            links=[("Sessions", reverse("home"))],
        ),
        first="?" if at else "",
        next=f"?at={at + PAGE}" if len(found) > PAGE else "",
    )
    return render(request, "projects/list.html", {"list": listing})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0


@of_project(Action.PROJECT_DEFAULTS_READ)
def defaults(request: HttpRequest, place: Place) -> HttpResponse:
    """Show each field with its effective value and its layer; a POST sets those of the project."""
    scope = ConfigScope(project=place.project)
    row = defaults_of(scope)
    stored = initial(in_short(row.policy), in_short(row.bounds)) if row else {}
    form = DefaultsForm(request.POST if request.method == "POST" else None, initial=stored)
    refused = ""
    if form.is_bound:
        place.require(Action.PROJECT_DEFAULTS_WRITE)
        refused = _put(request, place, form)
        if form.is_valid() and not refused:
            messages.success(request, "Saved. It applies to chains that are submitted from now on.")
            return redirect(place.address("project"))
    status = 400 if form.is_bound else 200
    return page(request, place, "defaults", status, **_context(place, form, row, refused))


def _put(request: HttpRequest, place: Place, form: DefaultsForm) -> str:
    """Store what the form says. Return why that was refused, if it is not about a field."""
    if not form.is_valid():
        return "Not saved: see the fields that are marked."
    scope, by = ConfigScope(project=place.project), place.actor.name
    expected = Expected(frozenset([request.POST.get("version", "")]))
    try:
        retry_defaults_put(scope, policy=form.policy, bounds=form.bounds, by=by, expected=expected)
    except InvalidInput as error:
        for name, texts in error.errors.items():
            field = name.removeprefix("policy.")
            form.add_error(field if field in form.fields else None, [*texts])
        return "Not saved: see the fields that are marked."
    except Outdated:
        return (
            "Not saved: somebody else has changed the defaults meanwhile. "
            "“In effect” has the new values; save again to replace them."
        )
    return ""


def _context(
    place: Place, form: DefaultsForm, row: RetryDefaults | None, refused: str
) -> dict[str, Any]:
    bounds = bound_layers(place.project)
    settings = settings_in_force(project=place.project, domain=place.project.domain)
    may_submit = place.may(Action.SESSION_CREATE)
    return {
        "lines": [_shown(line) for line in form.policy_lines(_merged(place), bounds)],
        "bounds": [_shown(line) for line in form.bound_lines(bounds)],
        "changes": place.may(Action.PROJECT_DEFAULTS_WRITE),
        "version": layer_version(row),
        "row": row,
        "refused": refused,
        "switch": settings.mode.value,
        "refuse": refuse_field(settings),
        "switch_field": switch_field(settings),
        "would_get": would_get_form("") if may_submit else None,
        "would_get_address": place.address("project-would-get"),
    }


def _merged(place: Place) -> Merged:
    return merge(policy_layers(place.project))


def _shown(line: Line) -> dict[str, Any]:
    """Return a line with its fields as parts."""
    tick: Field | None = None
    if line.set_here is not None:
        tick = shown_field(line.set_here, "Set here")
    return {"line": line, "tick": tick, "field": shown_field(line.value, line.name, help=line.help)}
