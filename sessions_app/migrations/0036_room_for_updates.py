"""Half of each page of sessions and decisions is free, so that updates find room on the page."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0035_sessions_of_executors")]

    operations = [
        # It counts for pages that are written from now on. A call leases and accepts all the
        # sessions that one call has inserted, and dispatch writes all decisions of a call again.
        migrations.RunSQL(
            "ALTER TABLE sessions_app_session SET (fillfactor = 50);",
            "ALTER TABLE sessions_app_session SET (fillfactor = 70);",
        ),
        migrations.RunSQL(
            "ALTER TABLE sessions_app_retrydecision SET (fillfactor = 50);",
            "ALTER TABLE sessions_app_retrydecision SET (fillfactor = 80);",
        ),
    ]
