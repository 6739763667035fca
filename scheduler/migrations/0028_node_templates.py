"""Executors declare node templates, and a lease may wait for a node of one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0027_executor_labels")]

    operations = [
        migrations.AddField(
            "executor", "node_templates", models.JSONField(db_default=[], default=list)
        ),
        migrations.AddField(
            "lease",
            "template",
            models.CharField(blank=True, db_default="", default="", max_length=63),
        ),
    ]
