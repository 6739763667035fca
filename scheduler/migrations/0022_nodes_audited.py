"""Who avoids suspect nodes is an operator's decision, which the audit log tells."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited

BEFORE = (
    *("name", "cordoned", "cordon_reason", "draining_since", "drained_by"),
    *("drain_force", "unconfirmed_after", "placement"),
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("scheduler", "0021_nodes")]

    operations = [
        migrations.RunSQL(
            audited(
                "scheduler_executor", "executor", (*BEFORE, "avoid_suspects", "auto_quarantine")
            ).sql,
            audited("scheduler_executor", "executor", BEFORE).sql,
        ),
    ]
