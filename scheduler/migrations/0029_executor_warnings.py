"""Executors say what they do not do as their administrators asked."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0028_node_templates")]

    operations = [
        migrations.AddField("executor", "warnings", models.JSONField(db_default=[], default=list))
    ]
