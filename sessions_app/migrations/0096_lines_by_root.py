"""Waiting lines are read by the roots of their sessions: all of a bulk call came at the same time."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0095_secrets_by")]

    operations = [
        AddIndexConcurrently(
            "session",
            models.Index(
                "queue",
                "scheduling_key",
                F("stored_priority").desc(),
                "root_submitted_at",
                "root",
                condition=Q(phase="waiting"),
                name="session_in_line",
            ),
        ),
        RemoveIndexConcurrently("session", "session_lines"),
    ]
