"""What a breaker holds is found by its key, the longest due first."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0067_breakers")]

    operations = [
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "held_key",
                "due_at",
                "session",
                condition=Q(held_for="breaker", state="held"),
                name="decision_breaker",
            ),
        ),
    ]
