"""A retry by hand may change what runs: the attempt and the waiting decision keep the changes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0055_hold_indexes")]

    operations = [
        migrations.AddField("session", "changes", models.JSONField(null=True)),
        migrations.AddField("retrydecision", "changes", models.JSONField(null=True)),
    ]
