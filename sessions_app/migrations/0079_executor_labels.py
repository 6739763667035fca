"""A rule may send the next attempt to executors with some labels."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0078_wait_deadline")]

    operations = [
        migrations.AddField("sessionspec", "executor_labels", models.JSONField(null=True)),
    ]
