from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0009_retention")]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="resource_limits",
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        # What waits already, and what servers of the version before submit, has none: the lease
        # round gives it one.
        migrations.AddField(
            model_name="session",
            name="scheduling_key",
            field=models.BigIntegerField(null=True),
        ),
    ]
