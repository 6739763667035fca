"""Figures of failures are summed by day. The days of now are summed by the next run of retention."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0083_unlimited")]

    operations = [
        migrations.CreateModel(
            name="FailureDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sessions", models.BigIntegerField(default=0)),
                ("chains", models.BigIntegerField(default=0)),
                ("recovered_chains", models.BigIntegerField(default=0)),
                ("lost_run_seconds", models.FloatField(default=0.0)),
                (
                    "dimension",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "all"),
                            ("queue", "queue"),
                            ("image", "image"),
                            ("node", "node"),
                        ],
                        max_length=8,
                    ),
                ),
                ("value", models.CharField(blank=True, max_length=512)),
                ("day", models.DateField()),
                ("key", models.CharField(max_length=12)),
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
                "indexes": [
                    models.Index(
                        models.F("project"),
                        models.F("key"),
                        models.F("dimension"),
                        models.F("day"),
                        name="failure_day_of_key",
                    ),
                    models.Index(models.F("day"), name="failure_day_old"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "dimension", "value", "day", "key"),
                        name="failure_day_unique",
                    )
                ],
            },
        ),
        migrations.AddField("failurereader", "days_before", models.DateField(null=True)),
    ]
