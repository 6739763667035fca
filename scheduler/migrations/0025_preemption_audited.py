"""Whether sessions make room on an executor is an operator's decision, told in the audit log."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited

BEFORE = (
    *("name", "cordoned", "cordon_reason", "draining_since", "drained_by"),
    *("drain_force", "unconfirmed_after", "placement", "avoid_suspects", "auto_quarantine"),
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("scheduler", "0024_preemption")]

    operations = [
        migrations.RunSQL(
            audited("scheduler_executor", "executor", (*BEFORE, "preemption")).sql,
            audited("scheduler_executor", "executor", BEFORE).sql,
        ),
    ]
