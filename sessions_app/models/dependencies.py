"""Dependencies: chains that wait until others have ended."""

from collections.abc import Sequence
from uuid import UUID

from django.db import connection, models
from django.db.models import Q

from sessions_app.db.bulk import array
from sessions_app.models.sessions import STATUS_CHOICES


class When(models.TextChoices):
    """The outcome of a chain that meets a dependency on it."""

    SUCCEEDED = "succeeded", "it succeeded"
    ENDED = "ended", "it ended, in whatever way"
    FAILED = "failed", "it failed"


class Outcome(models.TextChoices):
    """The outcome of a chain, as its dependants saw it. It is frozen then."""

    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class Dependency(models.Model):
    """One chain waits for another one. The row is deleted with the chain that waits.

    The values of the other chain's newest attempt are null until its outcome was seen.
    """

    # Neither id has a constraint: the other chain may be in the log only, and each delete of a
    # session would have to search here.
    root = models.ForeignKey(
        "sessions_app.Session",
        models.DO_NOTHING,
        related_name="dependencies",
        db_index=False,
        db_constraint=False,
    )
    """The root of the chain that waits."""
    on_root = models.UUIDField()
    """The root of the chain that it waits for."""
    place = models.PositiveSmallIntegerField()
    """Its place in the request."""
    creation_id = models.CharField(max_length=255)
    """That of the other root."""
    wanted = models.CharField(max_length=9, choices=When.choices, default=When.SUCCEEDED)
    outcome = models.CharField(max_length=9, choices=Outcome.choices, blank=True, default="")
    """"": not seen yet."""
    met = models.BooleanField(null=True)
    """Whether the outcome is the one that is waited for; null: not seen yet."""
    tip_id = models.UUIDField(null=True)
    status = models.CharField(  # noqa: DJ001  # null like its neighbours
        max_length=12, choices=STATUS_CHOICES, null=True
    )
    exit_code = models.IntegerField(null=True)

    class Meta:
        verbose_name_plural = "dependencies"
        constraints = [
            models.UniqueConstraint("root", "on_root", name="dependency_unique"),
            models.CheckConstraint(
                condition=Q(outcome="", met__isnull=True) | (~Q(outcome="") & Q(met__isnull=False)),
                name="dependency_met_when_seen",
            ),
        ]
        indexes = [
            # The dependants of a chain that has ended, and all chains that are waited for.
            models.Index("on_root", "root", condition=Q(outcome=""), name="dependency_open"),
            # The dependants of a chain, for its graph.
            models.Index("on_root", "root", name="dependency_of"),
        ]

    def __str__(self) -> str:
        return f"{self.root_id} on {self.on_root}"


_AWAITED = """
    SELECT NULL::uuid
    FROM (SELECT FROM sessions_app_dependency WHERE outcome = '' LIMIT 1) AS someone
    UNION ALL
    SELECT e.root FROM unnest(%s::uuid[]) AS e(root) WHERE EXISTS (
        SELECT FROM sessions_app_dependency d WHERE d.on_root = e.root AND d.outcome = '')
"""


def awaited_roots(roots: Sequence[UUID]) -> list[UUID] | None:
    """Return those of the chains that others wait for; None if nobody waits for any chain."""
    with connection.cursor() as cursor:
        cursor.execute(_AWAITED, [array(roots)])
        found = [row[0] for row in cursor.fetchall()]
    return found[1:] if found else None
