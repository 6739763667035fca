from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0006_executor_registry")]

    operations = [
        migrations.AddField("executor", "draining_since", models.DateTimeField(null=True)),
        migrations.AddField(
            "executor",
            "drained_by",
            models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        migrations.AddField(
            "executor", "drain_force", models.BooleanField(db_default=False, default=False)
        ),
    ]
