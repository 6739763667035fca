"""Searches that people saved."""

from django.db.models import QuerySet

from sessions_app.authorization import Actor, require_user
from sessions_app.models import SavedSearch


def searches_saved(actor: Actor) -> QuerySet[SavedSearch]:
    """Return the actor's saved searches, by name."""
    return SavedSearch.objects.filter(user=require_user(actor)).order_by("name")
