"""The preemptions of an executor that is deleted stay, with its name."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0031_one_index_of_leases")]

    operations = [
        migrations.AddField(
            "preemption",
            "executor_name",
            models.CharField("executor", db_default="", default="", editable=False, max_length=63),
        ),
        # Django would make the constraint anew, and check all rows.
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    "ALTER TABLE scheduler_preemption ALTER COLUMN executor_id DROP NOT NULL",
                    "ALTER TABLE scheduler_preemption ALTER COLUMN executor_id SET NOT NULL",
                )
            ],
            [
                migrations.AlterField(
                    "preemption",
                    "executor",
                    models.ForeignKey(
                        "scheduler.executor",
                        django.db.models.deletion.SET_NULL,
                        db_index=False,
                        null=True,
                        related_name="preemptions",
                    ),
                )
            ],
        ),
    ]
