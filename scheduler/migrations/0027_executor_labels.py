"""Executors have labels, which operators set and the audit log tells."""

from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

BEFORE = (
    *("name", "cordoned", "cordon_reason", "draining_since", "drained_by"),
    *("drain_force", "unconfirmed_after", "placement", "avoid_suspects", "auto_quarantine"),
    "preemption",
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("scheduler", "0025_preemption_audited")]

    operations = [
        migrations.AddField(
            "executor", "labels", models.JSONField(blank=True, db_default={}, default=dict)
        ),
        migrations.RunSQL(
            audited("scheduler_executor", "executor", (*BEFORE, "labels")).sql,
            audited("scheduler_executor", "executor", BEFORE).sql,
        ),
    ]
