"""Secrets know who gave them, and those of retries that wait are found."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    # An index on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0094_archived_by_name")]

    operations = [
        migrations.AddField(
            model_name="sessionspec",
            name="secrets_by",
            field=models.IntegerField(null=True),
        ),
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "session", condition=Q(changes__has_key="secrets"), name="decision_secrets"
            ),
        ),
    ]
