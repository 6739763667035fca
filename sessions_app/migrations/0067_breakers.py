"""Breakers across chains, what opens them, and the settings that ask for them."""

import uuid

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0066_retry_marks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Breaker",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                ("scope", models.CharField(max_length=32)),
                ("signature", models.CharField(max_length=12)),
                (
                    "state",
                    models.CharField(
                        choices=[("open", "open"), ("closed", "closed")], max_length=8
                    ),
                ),
                ("muted", models.BooleanField(default=False)),
                ("reason", models.CharField(blank=True, max_length=256)),
                ("chains", models.IntegerField(default=0)),
                ("opened_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("opened_by", models.CharField(blank=True, max_length=150)),
                ("closed_at", models.DateTimeField(null=True)),
                ("closed_by", models.CharField(blank=True, max_length=150)),
                ("probe_delay", models.FloatField(default=0.0)),
                ("probe_at", models.DateTimeField(null=True)),
                ("probe", models.UUIDField(null=True)),
                ("probe_since", models.DateTimeField(null=True)),
                ("probes", models.IntegerField(default=0)),
                ("projects", models.JSONField(default=list)),
                ("event_seq", models.IntegerField(default=0)),
                (
                    "project",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.project",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.queue",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BreakerFailure",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("signature", models.CharField(max_length=12)),
                ("root_id", models.UUIDField()),
                ("project_id", models.BigIntegerField()),
                ("queue_id", models.BigIntegerField()),
                ("failed_at", models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name="queue",
            name="breaker",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="retrysettings",
            name="breaker",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="breakerfailure",
            index=models.Index(models.F("failed_at"), name="breaker_failure_old"),
        ),
        migrations.AddConstraint(
            model_name="breakerfailure",
            constraint=models.UniqueConstraint(
                models.F("signature"), models.F("root_id"), name="breaker_failure_unique"
            ),
        ),
        migrations.AddIndex(
            model_name="breaker",
            index=models.Index(
                models.F("project"), condition=models.Q(("state", "open")), name="breaker_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="breaker",
            constraint=models.UniqueConstraint(
                models.F("scope"), models.F("signature"), name="breaker_one_a_scope"
            ),
        ),
    ]
