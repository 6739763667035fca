"""The list of sessions finds those with a signature by an index."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0040_failure_signature")]

    operations = [
        AddIndexConcurrently(
            model_name="session",
            index=models.Index(
                F("project"),
                F("failure_signature"),
                F("id").asc(nulls_first=True),
                condition=Q(("failure_signature", ""), _negated=True),
                name="session_signature",
            ),
        ),
    ]
