"""Sessions make room for others: the plans, and which executors do so."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0023_progress"),
        ("sessions_app", "0074_priority_classes_audited"),
    ]

    operations = [
        migrations.CreateModel(
            name="QueueBelow",
            fields=[
                (
                    "queue",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="below",
                        serialize=False,
                        to="sessions_app.queue",
                    ),
                ),
                ("since", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="executor",
            name="preemption",
            field=models.CharField(
                blank=True,
                choices=[
                    ("off", "no"),
                    ("dry_run", "no, but it is recorded which would"),
                    ("on", "yes"),
                ],
                db_default="",
                default="",
                max_length=8,
            ),
        ),
        migrations.CreateModel(
            name="Preemption",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("planned_at", models.DateTimeField()),
                ("until", models.DateTimeField()),
                ("rule", models.CharField(max_length=16)),
                ("dry_run", models.BooleanField()),
                ("nodes", models.JSONField()),
                ("taker_id", models.UUIDField()),
                ("taker_rank", models.SmallIntegerField()),
                ("victim_id", models.UUIDField()),
                ("victim_rank", models.SmallIntegerField()),
                (
                    "executor",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="preemptions",
                        to="scheduler.executor",
                    ),
                ),
                (
                    "taker_project",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.project",
                    ),
                ),
                (
                    "victim_project",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.project",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.F("planned_at"), models.F("id"), name="preemption_newest"),
                    models.Index(models.F("taker_id"), name="preemption_taker"),
                ],
            },
        ),
    ]
