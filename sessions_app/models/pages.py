"""What the web pages keep for the people who use them."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from uuid_utils.compat import uuid7

SEARCH_NAME = 60
SEARCH_QUERY = 2_000


class SavedSearch(models.Model):
    """A search of sessions that somebody saved under a name."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="reprise_searches", db_index=False
    )
    name = models.CharField(max_length=SEARCH_NAME)
    query = models.CharField(max_length=SEARCH_QUERY)
    """The query string of the list."""

    class Meta:
        constraints = [
            models.UniqueConstraint("user", "name", name="saved_search_name_unique"),
        ]

    def __str__(self) -> str:
        return self.name


class PreparedAction(models.Model):
    """An action on many sessions: first what a dry run found, then how far it is.

    A row with up to 10,000 ids has 160 kB, and is deleted when it expires.
    """

    id = models.UUIDField(primary_key=True, default=uuid7)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    act = models.CharField(max_length=16)
    """A name of `prepared_actions.ACTS`."""
    given = models.JSONField(default=dict, db_column="resources")
    """What the person gave for the act: the resources of retries that change, or `priority`."""
    query = models.TextField(blank=True)
    """The query string of the list that it came from, or the whole address of the admin's list."""
    ids = ArrayField(models.UUIDField())
    """The sessions on which it was possible, in the order of the list."""
    refused = models.JSONField(default=list)
    """The refusals of the dry run: reasons, each with its number and some sessions."""
    changed = models.JSONField(default=list)
    """The refusals of the action itself, likewise: what had changed since the dry run."""
    position = models.PositiveIntegerField(default=0)
    """Number of the ids that were acted on, from the first."""
    done = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    """Retries of these that wait for their slots under the storm limits."""
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)
    started_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.act} {len(self.ids)}"
