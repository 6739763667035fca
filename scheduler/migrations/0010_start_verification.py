from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0009_executor_trouble")]

    operations = [
        migrations.AddField("lease", "verify_at", models.DateTimeField(null=True)),
        migrations.AddField("lease", "pod", models.JSONField(null=True)),
        migrations.AddField("lease", "pod_created_at", models.DateTimeField(null=True)),
        migrations.AddField("lease", "initializing_since", models.DateTimeField(null=True)),
        migrations.AddField(
            "lease", "initializing_checks", models.SmallIntegerField(db_default=0, default=0)
        ),
        migrations.AddField(
            "lease", "unknown_checks", models.SmallIntegerField(db_default=0, default=0)
        ),
        migrations.AddField(
            "lease", "suspected", models.BooleanField(db_default=False, default=False)
        ),
    ]
