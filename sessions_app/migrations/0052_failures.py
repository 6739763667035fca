"""Failures are counted by their signatures."""

import django.db.models.deletion
from django.db import migrations, models

import sessions_app.models.events


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0051_failure_title"),
    ]

    operations = [
        migrations.CreateModel(
            name="FailureReader",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("epoch", models.BigIntegerField(null=True)),
                ("xid", sessions_app.models.events.TransactionIdField(null=True)),
                ("event_id", models.BigIntegerField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="FailureHour",
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
                ("hour", models.DateTimeField()),
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
                        models.F("hour"),
                        name="failure_hour_of_key",
                    ),
                    models.Index(models.F("hour"), name="failure_hour_old"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("project", "dimension", "value", "hour", "key"),
                        name="failure_hour_unique",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="FailureSignature",
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
                ("key", models.CharField(max_length=12)),
                ("title", models.CharField(blank=True, max_length=200)),
                ("cause", models.CharField(max_length=32)),
                ("first_seen", models.DateTimeField()),
                ("last_seen", models.DateTimeField()),
                ("example", models.UUIDField()),
                ("muted", models.BooleanField(default=False)),
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
                "verbose_name": "failure",
                "indexes": [models.Index(models.F("last_seen"), name="failure_last_seen")],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("project"), models.F("key"), name="failure_signature_unique"
                    )
                ],
            },
        ),
    ]
