from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0015_lease_lines")]

    operations = [
        migrations.AddField(
            "executor",
            "placement",
            models.CharField(
                choices=[
                    ("node", "the server: each pod is bound to the node that was planned"),
                    ("cluster", "the cluster's own scheduler alone"),
                ],
                db_default="node",
                default="node",
                max_length=8,
            ),
        ),
        migrations.AddField("executor", "refusals", models.JSONField(db_default={}, default=dict)),
        migrations.AddField("lease", "nodes", models.JSONField(null=True)),
    ]
