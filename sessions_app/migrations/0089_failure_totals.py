"""Running totals of failures. The task writes those of the hours of before; until then lists read
hours, and need none of the sums of days."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
DIMENSIONS = [("", "all"), ("queue", "queue"), ("image", "image"), ("node", "node")]


def _array(base, **options):
    return django.contrib.postgres.fields.ArrayField(base_field=base, size=None, **options)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0088_fewer_round_trips")]

    operations = [
        migrations.AddField("failurereader", "summed_until", models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="FailureLedger",
            fields=[
                ("id", ID),
                ("dimension", models.CharField(blank=True, choices=DIMENSIONS, max_length=8)),
                ("value", models.CharField(blank=True, max_length=512)),
                ("key", models.CharField(blank=True, max_length=12)),
                ("names", _array(models.CharField(max_length=512))),
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
                        models.F("dimension"),
                        models.F("value"),
                        models.F("key"),
                        models.F("id"),
                        name="failure_ledger_of",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="FailureTotals",
            fields=[
                ("id", ID),
                ("hour", models.DateTimeField()),
                ("sessions", _array(models.IntegerField())),
                ("chains", _array(models.IntegerField(), null=True)),
                ("recovered_chains", _array(models.IntegerField(), null=True)),
                ("lost_run_seconds", _array(models.FloatField(), null=True)),
                (
                    "ledger",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="sessions_app.failureledger",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(models.F("hour"), name="failure_totals_old")],
                "constraints": [
                    models.UniqueConstraint(fields=("ledger", "hour"), name="failure_totals_unique")
                ],
            },
        ),
    ]
