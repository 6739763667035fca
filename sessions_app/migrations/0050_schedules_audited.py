"""Changes of schedules are told to the audit log by the database; that they fire is not."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0049_schedules")]

    operations = [
        audited(
            "sessions_app_schedule",
            "schedule",
            [
                *("project_id", "name", "queue", "cron", "time_zone", "every", "template"),
                *("overlap", "catch_up", "jitter", "starts_at", "until", "pause_after"),
                *("owner_id", "paused_at", "paused_reason"),
            ],
        ),
    ]
