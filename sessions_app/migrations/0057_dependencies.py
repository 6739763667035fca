"""Chains wait for others. A session that does is in a phase of its own, which no round reads."""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import Q

LIVE = ["SCHEDULED", "PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING", "TERMINATING"]
STATUSES = ["PENDING", *LIVE, "TERMINATED", "ERROR", "CANCELLED"]
FINAL = ["CANCELLED", "ERROR", "TERMINATED"]
PHASES = ["blocked", "waiting", "live", "final"]


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0056_changes")]

    operations = [
        migrations.AddField(
            "sessionspec",
            "on_dependency_failure",
            models.CharField(
                choices=[
                    ("cancel", "it is cancelled"),
                    ("run", "it runs once all its dependencies have ended"),
                ],
                max_length=8,
                null=True,
            ),
        ),
        migrations.AlterField(
            "session",
            "phase",
            models.CharField(choices=[(phase, phase) for phase in PHASES], max_length=8),
        ),
        # The next migration checks the rows that are there.
        migrations.RemoveConstraint("session", "session_phase_fits_status"),
        AddConstraintNotValid(
            "session",
            models.CheckConstraint(
                condition=Q(status="PENDING", phase__in=["blocked", "waiting"])
                | Q(status__in=LIVE, phase="live")
                | Q(status__in=FINAL, phase="final"),
                name="session_phase_of_status",
            ),
        ),
        migrations.CreateModel(
            name="Dependency",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("on_root", models.UUIDField()),
                ("place", models.PositiveSmallIntegerField()),
                ("creation_id", models.CharField(max_length=255)),
                (
                    "wanted",
                    models.CharField(
                        choices=[
                            ("succeeded", "it succeeded"),
                            ("ended", "it ended, in whatever way"),
                            ("failed", "it failed"),
                        ],
                        default="succeeded",
                        max_length=9,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="",
                        max_length=9,
                    ),
                ),
                ("met", models.BooleanField(null=True)),
                ("tip_id", models.UUIDField(null=True)),
                (
                    "status",
                    models.CharField(
                        choices=[(status, status) for status in STATUSES],
                        max_length=12,
                        null=True,
                    ),
                ),
                ("exit_code", models.IntegerField(null=True)),
                (
                    "root",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="dependencies",
                        to="sessions_app.session",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "dependencies",
                "indexes": [
                    models.Index(
                        models.F("on_root"),
                        models.F("root"),
                        condition=Q(outcome=""),
                        name="dependency_open",
                    ),
                    models.Index(models.F("on_root"), models.F("root"), name="dependency_of"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        models.F("root"), models.F("on_root"), name="dependency_unique"
                    ),
                    models.CheckConstraint(
                        condition=Q(outcome="", met__isnull=True)
                        | (~Q(outcome="") & Q(met__isnull=False)),
                        name="dependency_met_when_seen",
                    ),
                ],
            },
        ),
    ]
