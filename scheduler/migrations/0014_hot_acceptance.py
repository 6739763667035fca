"""Acceptance writes to no index of leases: none has `accepted`, and new rows find room."""

from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    # An index on a table that is written to all the time.
    atomic = False

    dependencies = [("scheduler", "0013_project_troubles")]

    operations = [
        # Half of each page is free, since a call accepts all the leases that one call has inserted.
        migrations.RunSQL(
            "ALTER TABLE scheduler_lease SET (fillfactor = 50);",
            "ALTER TABLE scheduler_lease SET (fillfactor = 70);",
        ),
        RemoveIndexConcurrently(model_name="lease", name="lease_unaccepted"),
    ]
