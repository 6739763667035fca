"""The audit log tells when a scope or a queue gets another rule for breakers."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited

SETTINGS = (
    *("domain_id", "project_id", "mode", "global_max_retries", "default_policy"),
    *("retries_per_minute", "queue_retries_per_minute", "refuse_unfittable"),
)
QUEUE = (
    *("project_id", "name", "is_default", "priority_factor", "cordoned"),
    *("cordon_reason", "resource_limits", "retry_policies"),
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("sessions_app", "0068_held_by_breakers")]

    operations = [
        migrations.RunSQL(
            audited("sessions_app_retrysettings", "retry_settings", (*SETTINGS, "breaker")).sql,
            audited("sessions_app_retrysettings", "retry_settings", SETTINGS).sql,
        ),
        migrations.RunSQL(
            audited("sessions_app_queue", "queue", (*QUEUE, "breaker")).sql,
            audited("sessions_app_queue", "queue", QUEUE).sql,
        ),
    ]
