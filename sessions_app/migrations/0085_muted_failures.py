"""What is muted is found by its key: retries that the cluster's breakers hold are released by it."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # An index on a table that is written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0084_failure_days")]

    operations = [
        AddIndexConcurrently(
            "failuresignature",
            models.Index(F("key"), condition=Q(muted=True), name="failure_muted"),
        ),
    ]
