"""The cluster may set no limit of retries for its chains; changes of that are audited."""

from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

SETTINGS = (
    *("domain_id", "project_id", "mode", "global_max_retries", "default_policy"),
    *("retries_per_minute", "queue_retries_per_minute", "refuse_unfittable", "breaker"),
    "retry_budget",
)
TABLE, KIND = "sessions_app_retrysettings", "retry_settings"


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0082_actions_given")]

    operations = [
        migrations.AddField(
            "retrysettings", "global_unlimited", models.BooleanField(blank=True, null=True)
        ),
        migrations.RunSQL(
            audited(TABLE, KIND, (*SETTINGS, "global_unlimited")).sql,
            audited(TABLE, KIND, SETTINGS).sql,
        ),
    ]
