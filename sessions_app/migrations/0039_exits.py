"""The end of a session that succeeded does not write to the index by exit code."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0038_fewer_lists_indexed")]

    operations = [
        AddIndexConcurrently(
            "session",
            models.Index(
                "project",
                "exit_code",
                F("id").asc(nulls_first=True),
                condition=Q(exit_code__isnull=False) & ~Q(exit_code=0, retry_cause=""),
                name="session_exits",
            ),
        ),
        RemoveIndexConcurrently("session", "session_exit_code"),
    ]
