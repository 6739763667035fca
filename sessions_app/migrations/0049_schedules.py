"""Schedules: chains that are made at times."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0044_refuse_unfittable"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Schedule",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=63)),
                ("queue", models.CharField(blank=True, max_length=63)),
                ("cron", models.CharField(blank=True, max_length=100)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("every", models.PositiveIntegerField(blank=True, null=True)),
                ("template", models.JSONField()),
                (
                    "overlap",
                    models.CharField(
                        choices=[
                            ("allow", "run beside it"),
                            ("skip", "leave this time out"),
                            ("cancel_running", "cancel it"),
                        ],
                        default="allow",
                        max_length=16,
                    ),
                ),
                ("catch_up", models.PositiveIntegerField(default=60)),
                ("jitter", models.PositiveIntegerField(default=0)),
                ("starts_at", models.DateTimeField(blank=True, null=True)),
                ("until", models.DateTimeField(blank=True, null=True)),
                ("pause_after", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("paused_at", models.DateTimeField(blank=True, null=True)),
                ("paused_reason", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("next_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                ("last_at", models.DateTimeField(null=True)),
                ("last_problem", models.CharField(blank=True, max_length=300)),
                (
                    "recent",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), blank=True, default=list, size=None
                    ),
                ),
                ("judged_from", models.DateTimeField(default=django.utils.timezone.now)),
                ("by_hand", models.PositiveIntegerField(default=0)),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "indexes": [
                    models.Index(
                        models.F("due_at"),
                        condition=models.Q(("due_at__isnull", False), ("paused_at", None)),
                        name="schedule_due",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("project"), models.F("name"), name="schedule_name_unique"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name__regex", "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")),
                        name="schedule_name_label",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(models.Q(("cron", ""), _negated=True), ("every", None)),
                            models.Q(("cron", ""), ("every__gt", 0)),
                            _connector="OR",
                        ),
                        name="schedule_cron_or_every",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("due_at", None), ("next_at", None)),
                            models.Q(("due_at__isnull", False), ("next_at__isnull", False)),
                            _connector="OR",
                        ),
                        name="schedule_due_has_time",
                    ),
                ],
            },
        ),
    ]
