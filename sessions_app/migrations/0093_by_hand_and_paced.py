"""Retries by hand that a switch holds, and those that wait for a slot, are found without the others."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0092_attempts_by_root")]

    operations = [
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "project_id",
                "session",
                condition=Q(state="held", held_for__in=["", "switch"]) & ~Q(requested_by=""),
                name="decision_switched_by_hand",
            ),
        ),
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "due_at", condition=Q(state="scheduled", paced=True), name="decision_paced"
            ),
        ),
    ]
