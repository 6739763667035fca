from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0010_fair_share")]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("queue"),
                F("scheduling_key"),
                F("priority").desc(),
                F("root_submitted_at"),
                F("id"),
                condition=Q(phase="waiting"),
                name="session_lines",
            ),
        ),
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("id"),
                condition=Q(phase="waiting", scheduling_key__isnull=True),
                name="session_without_key",
            ),
        ),
        # The lease rounds of servers of the version before are slower without it.
        RemoveIndexConcurrently(model_name="session", name="session_waiting"),
    ]
