"""Retries by hand that a switch holds are found without those that it holds beside them."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
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
    ]
