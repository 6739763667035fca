"""The person who asks for a page."""

from django.contrib.auth.models import User
from django.http import HttpRequest

from sessions_app.authorization import Actor


def visitor(request: HttpRequest) -> Actor:
    """Return who is signed in, as the actor of selectors and services."""
    assert isinstance(request.user, User)  # noqa: S101  # login_required
    return Actor(user=request.user)
