from django.db import migrations, models

from sessions_app.migrations._audit_triggers import audited

BEFORE = (
    *("name", "cordoned", "cordon_reason", "draining_since", "drained_by"),
    *("drain_force", "unconfirmed_after"),
)


class Migration(migrations.Migration):
    # A trigger waits for the transactions that write to its table.
    atomic = False

    dependencies = [("scheduler", "0016_placement")]

    operations = [
        migrations.AddField(
            "executor", "reservations", models.JSONField(db_default={}, default=dict)
        ),
        # Who chooses nodes is an operator's decision, too.
        migrations.RunSQL(
            audited("scheduler_executor", "executor", (*BEFORE, "placement")).sql,
            audited("scheduler_executor", "executor", BEFORE).sql,
        ),
    ]
