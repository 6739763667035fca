"""The newest attempts of chains are found among all attempts, and retry states that say no more
than the phase or `tip` are not indexed twice."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0028_counters_trigger")]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("retry_state"),
                F("id").desc(nulls_last=True),
                condition=Q(
                    retry_state__in=[
                        *("scheduled", "held", "succeeded", "exhausted", "not_retried"),
                        "cancelled",
                    ]
                ),
                name="session_rested",
            ),
        ),
        RemoveIndexConcurrently(model_name="session", name="session_retry_state"),
        RemoveIndexConcurrently(model_name="session", name="session_tips"),
    ]
