"""The sequence of fencing tokens, and storage of the leases."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE scheduler_fencing_token AS bigint;",
            "DROP SEQUENCE scheduler_fencing_token;",
        ),
        migrations.RunSQL(
            "ALTER TABLE scheduler_lease SET (fillfactor = 70, "
            "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);",
            migrations.RunSQL.noop,
        ),
    ]
