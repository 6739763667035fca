"""Projects have pod defaults; changes of them are audited."""

from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

SETTINGS = (
    *("domain_id", "project_id", "mode", "global_max_retries", "default_policy"),
    *("retries_per_minute", "queue_retries_per_minute", "refuse_unfittable", "breaker"),
    *("retry_budget", "global_unlimited"),
)
TABLE, KIND = "sessions_app_retrysettings", "retry_settings"


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0097_failure_exit_code")]

    operations = [
        migrations.AddField(
            "retrysettings", "pod_defaults", models.JSONField(blank=True, null=True)
        ),
        migrations.RunSQL(
            audited(TABLE, KIND, (*SETTINGS, "pod_defaults")).sql,
            audited(TABLE, KIND, SETTINGS).sql,
        ),
    ]
