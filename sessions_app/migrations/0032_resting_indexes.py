"""A dispatch writes to no index of the failed session: none contains its retry state or `tip`."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q

ENDED = ["succeeded", "exhausted", "not_retried", "cancelled"]
NEWEST = F("id").asc(nulls_first=True)


class Migration(migrations.Migration):
    # Indexes on tables that are large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0031_resting_filled")]

    operations = [
        AddIndexConcurrently(
            "session",
            models.Index(
                "project",
                NEWEST,
                condition=Q(phase="final", resting=""),
                name="session_unrested",
            ),
        ),
        AddIndexConcurrently(
            "session",
            models.Index(
                "project",
                "resting",
                NEWEST,
                condition=~Q(resting="") & ~Q(resting="succeeded", retry_cause=""),
                name="session_rests",
            ),
        ),
        AddIndexConcurrently(
            "session",
            models.Index("project", "id", condition=Q(resting="held"), name="session_on_hold"),
        ),
        AddIndexConcurrently(
            "session",
            models.Index("finished_at", condition=Q(resting__in=ENDED), name="session_chain_ended"),
        ),
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "project_id",
                F("session").asc(nulls_first=True),
                condition=Q(state="scheduled"),
                name="decision_scheduled",
            ),
        ),
        RemoveIndexConcurrently("session", "session_retried"),
        RemoveIndexConcurrently("session", "session_rested"),
        RemoveIndexConcurrently("session", "session_held"),
        RemoveIndexConcurrently("session", "session_ended"),
    ]
