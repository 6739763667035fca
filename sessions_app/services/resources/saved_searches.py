"""Searches of sessions that people save under a name."""

from django.contrib.auth.models import User

from sessions_app.core.errors import InvalidInput
from sessions_app.models import SavedSearch
from sessions_app.models.pages import SEARCH_NAME, SEARCH_QUERY

MOST = 50
"""Searches of one person."""


def search_save(user: User, name: str, query: str) -> SavedSearch:
    """Save a search, in the place of the one of that name. Raises `InvalidInput`."""
    name = " ".join(name.split())
    if not 0 < len(name) <= SEARCH_NAME:
        raise InvalidInput({"name": [f"must have 1 to {SEARCH_NAME} letters"]})
    if len(query) > SEARCH_QUERY:
        raise InvalidInput({"query": [f"must have at most {SEARCH_QUERY} letters"]})
    others = SavedSearch.objects.filter(user=user).exclude(name=name)
    if others.count() >= MOST:
        raise InvalidInput(
            {"name": [f"would be one more than {MOST}: delete a saved search first"]}
        )
    saved, _ = SavedSearch.objects.update_or_create(user=user, name=name, defaults={"query": query})
    return saved


def search_delete(user: User, search_id: int) -> None:
    """Delete a search of somebody, if it is there."""
    SavedSearch.objects.filter(user=user, pk=search_id).delete()
