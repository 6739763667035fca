"""Executors say what they do not do as their administrators asked."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0027_executor_labels")]

    operations = [
        migrations.AddField("executor", "warnings", models.JSONField(db_default=[], default=list))
    ]
