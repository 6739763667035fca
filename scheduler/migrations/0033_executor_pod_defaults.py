"""Executors tell what the pods of sessions get that say nothing themselves."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0032_preemptions_outlive_executors")]

    operations = [
        migrations.AddField(
            "executor", "pod_placing", models.JSONField(db_default={}, default=dict)
        ),
        migrations.AddField(
            "executor",
            "extended_tolerations",
            models.BooleanField(db_default=False, default=False),
        ),
    ]
