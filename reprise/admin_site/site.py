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
    """Return whether the authorization table lets a signed-in user into the admin."""
    if not isinstance(user, User) or not user.is_active:
        return False
    try:
        authorize(Actor(user=user), Action.ADMIN_USE)
    except DomainError:
        return False
    return True


class OperatorLoginForm(AuthenticationForm):  # type: ignore[misc]  # the theme is untyped
    """A login form that refuses users who may not enter the admin."""

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """Raise `ValidationError` if the user may not enter the admin."""
        if not may_operate(user):
            raise ValidationError("Only cluster admins may log in here.", code="invalid_login")


class OperatorsSite(UnfoldAdminSite):  # type: ignore[misc]  # the theme is untyped
    """The admin site, for cluster admins only; being staff is not enough."""

    login_form = OperatorLoginForm
    site_url = "/"
    index_title = "Overview"

    def has_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may enter the admin."""
        return may_operate(request.user)

    def search(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Answer 404: the search over all lists is off, since each list has its own."""
        raise Http404

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """Answer 404 to NUL characters, which the database cannot store."""
        if any("\x00" in text for text in request.GET.values()):
            raise Http404
        found: HttpResponse = super().autocomplete_view(request)
        return found
