"""A time limit for all waiting of an attempt, and the limits of queues for the times of sessions."""

from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

BEFORE = (
    *("project_id", "name", "is_default", "priority_factor", "cordoned"),
    *("cordon_reason", "resource_limits", "retry_policies", "breaker", "retry_budget"),
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("sessions_app", "0074_priority_classes_audited")]

    operations = [
        migrations.AddField("sessionspec", "queue_timeout", models.FloatField(null=True)),
        migrations.AddField("session", "wait_deadline", models.DateTimeField(null=True)),
        migrations.AddField(
            "queue", "time_limits", models.JSONField(blank=True, db_default={}, default=dict)
        ),
        migrations.RunSQL(
            audited("sessions_app_queue", "queue", (*BEFORE, "time_limits")).sql,
            audited("sessions_app_queue", "queue", BEFORE).sql,
        ),
    ]
