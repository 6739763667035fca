"""The members of a project and their roles, and the visitor's tokens that are good for it alone."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_variables

from interfaces.forms.tokens import TokenChecks
from interfaces.web.form_fields import shown_field
from interfaces.web.parts import Column, Confirm, Empty, Listing
from interfaces.web.project_frame import Place, of_project, page, question
from sessions_app.authorization import Action, require_user
from sessions_app.core.errors import Conflict, InvalidInput
from sessions_app.models import ApiToken, Membership
from sessions_app.models.tenants import Role
from sessions_app.selectors.tenants import (
    membership_get,
    memberships_visible,
    token_get,
    tokens_visible,
    user_named,
)
from sessions_app.services.access import unisolated
from sessions_app.services.access.tokens import token_create, token_made, token_revoke
from sessions_app.services.resources.tenants import membership_delete, membership_save

PAGE = 100
ROLES = [(role.value, role.value) for role in Role if role is not Role.DOMAIN_ADMIN]


class RoleForm(forms.Form):
    """A role in the project."""

    role = forms.ChoiceField(label="Role", choices=ROLES, initial=Role.MEMBER.value)


class MemberForm(RoleForm):
    """Somebody and their role."""

    user = forms.CharField(label="User name", max_length=150)
    field_order = ("user", "role")


class TokenForm(TokenChecks, forms.Form):
    """A token of the visitor for the project."""

    name = forms.CharField(label="Purpose", max_length=128)
    read_only = forms.BooleanField(label="It may only read", required=False)
    expires_at = forms.DateTimeField(
        label="Ends (UTC)", required=False, help_text="empty: it does not end"
    )


@of_project(Action.PROJECT_READ)
def members(request: HttpRequest, place: Place) -> HttpResponse:
    """List who has a role in the project; a POST gives somebody one."""
    form = MemberForm(request.POST if request.method == "POST" else None)
    if form.is_bound:
        place.require(Action.MEMBERSHIP_WRITE)
        if form.is_valid() and _add(place, form):
            user, role = form.cleaned_data["user"], form.cleaned_data["role"]
            messages.success(request, f"{user} is a {role} of the project.")
            return redirect(place.address("project-members"))
    return page(
        request,
        place,
        "members",
        400 if form.errors else 200,
        list=_listing(request, place),
        changes=place.may(Action.MEMBERSHIP_WRITE),
        fields=[shown_field(each) for each in form],
    )


def _listing(request: HttpRequest, place: Place) -> Listing:
    project = place.project
    visible = memberships_visible(place.actor)
    own, above = visible.filter(project=project), visible.filter(domain=project.domain)
    at = _number(request.GET.get("at", ""))
    rows = (own | above).order_by("user__username", "pk")
    found = list(rows[at : at + PAGE + 1])
    changes = place.may(Action.MEMBERSHIP_WRITE)
    return Listing(
        "Members",
        [
            Column("User", "name"),
            Column("Role", "more"),
            Column("Of", "more"),
            Column("Actions", "more"),
        ],
        "projects/member_row.html",
        [_row(place, each, changes) for each in found[:PAGE]],
        Empty("Nobody has a role here.", "Superusers see all projects."),
        first="?" if at else "",
        next=f"?at={at + PAGE}" if len(found) > PAGE else "",
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0


def _row(place: Place, membership: Membership, changes: bool) -> dict[str, Any]:
    own = membership.project_id == place.project.pk
    return {
        "id": membership.pk,
        "name": membership.user.username,
        "role": membership.role.replace("_", " "),
        "of": place.project.address if own else f"domain {place.project.domain.name}",
        "address": place.address("project-member", membership.pk) if own and changes else "",
    }


def _add(place: Place, form: MemberForm) -> bool:
    """Give the role, or put the reason against it into the form."""
    asked = form.cleaned_data
    try:
        user = user_named(asked["user"])
        made = Membership(user=user, project=place.project, role=asked["role"])
        membership_save(made, by=place.actor.name)
    except InvalidInput as error:
        for name, texts in error.errors.items():
            form.add_error(name, [*texts])
        return False
    except Conflict as error:
        form.add_error("user", f"{error.detail}.")
        return False
    return True


@of_project(Action.PROJECT_READ)
def member(request: HttpRequest, place: Place, key: int) -> HttpResponse:
    """Ask for another role of a member, or whether to take it away; a POST does it."""
    place.require(Action.MEMBERSHIP_WRITE)
    found = _found(place, key)
    form = RoleForm(
        request.POST if request.method == "POST" else None, initial={"role": found.role}
    )
    who = found.user.username
    confirm = _taken_away(place, found)

    def do() -> str:
        membership_delete(found, by=place.actor.name)
        return f"{who} has no role in the project any more."

    if "confirmed" in request.POST:
        return question(request, place, confirm, do, confirm.back)
    if form.is_bound and form.is_valid():
        found.role = form.cleaned_data["role"]
        membership_save(found, by=place.actor.name)
        messages.success(request, f"{who} is a {found.role} of the project.")
        return redirect(place.address("project-members"))
    status = 400 if form.errors else 200
    fields = [shown_field(each) for each in form]
    return page(request, place, "member", status, confirm=confirm, fields=fields, member=found)


def _taken_away(place: Place, found: Membership) -> Confirm:
    return Confirm(
        f"Take the role of {found.user.username} away",
        "It ends with their next request. Their sessions go on.",
        "Yes, take it away",
        place.address("project-member", found.pk),
        place.address("project-members"),
        tone="danger",
    )


def _found(place: Place, key: int) -> Membership:
    """Return a role in the project itself. Raises `NotFound` and `Http404`."""
    return place.own(membership_get(place.actor, min(key, 2**63 - 1), Action.MEMBERSHIP_WRITE))


@of_project(Action.PROJECT_READ)
@sensitive_variables("secret")
def tokens(request: HttpRequest, place: Place) -> HttpResponse:
    """List the visitor's tokens for this project alone; a POST makes one and shows it, once."""
    form = TokenForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {}
    if form.is_bound and form.is_valid():
        secret = token_create(
            **form.cleaned_data,
            user=require_user(place.actor),
            project=place.project,
            by=place.actor.name,
        )
        context = {"secret": secret, "made": token_made(secret), "notes": unisolated.warnings()}
        form = TokenForm()
    return page(
        request,
        place,
        "tokens",
        400 if form.errors else 200,
        list=_tokens(request, place),
        fields=[shown_field(each) for each in form],
        **context,
    )


def _tokens(request: HttpRequest, place: Place) -> Listing:
    rows = tokens_visible(place.actor).filter(project=place.project).order_by("-pk")
    at = _number(request.GET.get("at", ""))
    found = list(rows[at : at + PAGE + 1])
    return Listing(
        "Tokens",
        [
            Column("Purpose", "name"),
            Column("Bearer", "more"),
            Column("Rights", "more"),
            Column("Ends", "more"),
            Column("Used", "more"),
            Column("Actions", "more"),
        ],
        "projects/token_row.html",
        [_token(place, each) for each in found[:PAGE]],
        Empty(
            "You have no token for this project alone.", "Make one for a program that works here."
        ),
        first="?" if at else "",
        next=f"?at={at + PAGE}" if len(found) > PAGE else "",
    )


def _token(place: Place, token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.prefix,
        "name": token.name,
        "token": token,
        "address": place.address("project-token", token.prefix),
    }


@of_project(Action.PROJECT_READ)
def token(request: HttpRequest, place: Place, prefix: str) -> HttpResponse:
    """Ask before a token is revoked, or revoke it."""
    found = place.own(token_get(place.actor, prefix, Action.TOKEN_REVOKE))

    def do() -> str:
        token_revoke(prefix=found.prefix, by=place.actor.name)
        return f"The token {found.name} is revoked."

    confirm = Confirm(
        f"Revoke the token {found.name}",
        "Whatever uses it is refused at once.",
        "Yes, revoke it",
        place.address("project-token", prefix),
        place.address("project-tokens"),
        tone="danger",
        facts=[("begins with", found.prefix)],
    )
    return question(request, place, confirm, do, place.address("project-tokens"))
