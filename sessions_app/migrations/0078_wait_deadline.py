"""The sweep of waits finds those that are over by an index of those that have a limit."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0077_queue_timeout")]

    operations = [
        AddIndexConcurrently(
            "session",
            models.Index(
                "wait_deadline",
                condition=Q(phase="waiting", wait_deadline__isnull=False),
                name="session_wait_deadline",
            ),
        ),
    ]
