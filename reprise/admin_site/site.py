"""The admin site: who may enter, and the first page."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, User
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from unfold.forms import AuthenticationForm
from unfold.sites import UnfoldAdminSite

from sessions_app.authorization import Action, Actor, authorize
from sessions_app.core.errors import DomainError


def may_operate(user: object) -> bool:
    """Whether the table of authorization lets a signed-in user into the admin."""
    if not isinstance(user, User) or not user.is_active:
        return False
    try:
        authorize(Actor(user=user), Action.ADMIN_USE)
    except DomainError:
        return False
    return True


class OperatorLoginForm(AuthenticationForm):  # type: ignore[misc]  # the theme is untyped
    """Says at once who has no business here."""

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """Django's hook."""
        if not may_operate(user):
            raise ValidationError("Only cluster admins work here.", code="invalid_login")


class OperatorsSite(UnfoldAdminSite):  # type: ignore[misc]  # the theme is untyped
    """For cluster admins; to others, staff or not, it is closed."""

    login_form = OperatorLoginForm
    site_url = "/"
    index_title = "Overview"

    def has_permission(self, request: HttpRequest) -> bool:
        """Django's hook."""
        return may_operate(request.user)

    def search(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """The theme's search over all lists is not offered: each list has its own."""
        raise Http404

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """Django's, which sends the database what it cannot store."""
        if any("\x00" in text for text in request.GET.values()):
            raise Http404
        found: HttpResponse = super().autocomplete_view(request)
        return found
