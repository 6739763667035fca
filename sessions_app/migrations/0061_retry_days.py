"""Reports of what retries were worth: figures of days, and a position of their own in the log."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0058_blocked_sessions"),
    ]

    operations = [
        migrations.AddField(
            model_name="failurereader",
            name="first_day",
            field=models.DateField(null=True),
        ),
        migrations.CreateModel(
            name="RetryDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "dimension",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "all"),
                            ("cause", "cause"),
                            ("rule", "rule"),
                            ("policy", "policy"),
                            ("queue", "queue"),
                            ("owner", "owner"),
                            ("image", "image"),
                            ("node", "node"),
                            ("signature", "signature"),
                        ],
                        max_length=12,
                    ),
                ),
                ("value", models.CharField(blank=True, max_length=512)),
                ("day", models.DateField()),
                ("chains", models.BigIntegerField()),
                ("retried", models.BigIntegerField()),
                ("recovered", models.BigIntegerField()),
                ("given_up", models.BigIntegerField()),
                ("cancelled", models.BigIntegerField()),
                ("attempts", models.BigIntegerField()),
                ("run", models.FloatField()),
                ("rescued", models.FloatField()),
                ("wasted", models.FloatField()),
                ("waiting", models.FloatField()),
                (
                    "recoveries",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), size=None
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.project",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(models.F("day"), name="retry_day_old")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "dimension", "day", "value"), name="retry_day_unique"
                    )
                ],
            },
        ),
    ]
