"""Sums of days have the failures of each hour, so that sparklines read no hours within them.

Days that were summed before get theirs when the task sums them once more; until then lists read
hours, as they did before there were sums.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    # An index on a table that servers read.
    atomic = False

    dependencies = [("sessions_app", "0085_muted_failures")]

    operations = [
        migrations.AddField(
            "failureday",
            "hours",
            ArrayField(base_field=models.IntegerField(null=True), null=True, size=None),
        ),
        AddIndexConcurrently(
            "failureday",
            models.Index(
                models.F("day"),
                condition=models.Q(hours__isnull=True),
                name="failure_day_without_hours",
            ),
        ),
    ]
