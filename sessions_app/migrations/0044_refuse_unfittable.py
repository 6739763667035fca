from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

BEFORE = (
    *("domain_id", "project_id", "mode", "global_max_retries", "default_policy"),
    *("retries_per_minute", "queue_retries_per_minute"),
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("sessions_app", "0043_ascending_lists")]

    operations = [
        migrations.AddField(
            "retrysettings", "refuse_unfittable", models.BooleanField(blank=True, null=True)
        ),
        migrations.RunSQL(
            audited(
                "sessions_app_retrysettings", "retry_settings", (*BEFORE, "refuse_unfittable")
            ).sql,
            audited("sessions_app_retrysettings", "retry_settings", BEFORE).sql,
        ),
    ]
