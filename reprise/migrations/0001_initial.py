"""The tables of operations, and what the audit log tells of periodic tasks."""

from django.db import migrations
from django.db.migrations import CreateModel
from django.db.models import (
    BigAutoField,
    BigIntegerField,
    BinaryField,
    CharField,
    DateTimeField,
    FloatField,
    Index,
    IntegerField,
    JSONField,
    Q,
    TextField,
    UniqueConstraint,
)

from sessions_app.migrations._triggers import audited, sql_file

ID = BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    initial = True
    dependencies = [
        ("scheduler", "0001_initial"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
    ]
    operations = [
        CreateModel(
            "EventCursor",
            [
                ("id", ID),
                ("counted_id", BigIntegerField(default=0)),
                ("fence_id", BigIntegerField(default=0)),
                ("fence_xid", BigIntegerField(default=0)),
                ("fence_at", DateTimeField()),
            ],
        ),
        CreateModel(
            "PeriodicRun",
            [
                ("name", CharField(max_length=200, primary_key=True, serialize=False)),
                ("started_at", DateTimeField()),
                ("duration", FloatField()),
                ("result", TextField(blank=True)),
                ("error", TextField(blank=True)),
                ("runs", BigIntegerField(default=1)),
                ("failures", BigIntegerField(default=0)),
            ],
            options={"verbose_name": "periodic run"},
        ),
        CreateModel(
            "SweepStart",
            [
                ("task", CharField(max_length=200, primary_key=True, serialize=False)),
                ("taken_at", DateTimeField()),
            ],
            options={"verbose_name": "start of a sweep"},
        ),
        CreateModel(
            "EventCount",
            [
                ("id", ID),
                ("metric", CharField(max_length=64)),
                ("labels", JSONField(default=dict)),
                ("value", BigIntegerField()),
            ],
            options={
                "constraints": [
                    UniqueConstraint("metric", "labels", name="event_count_one_a_series")
                ]
            },
        ),
        CreateModel(
            "Heartbeat",
            [
                ("id", ID),
                ("part", CharField(max_length=16)),
                ("name", CharField(max_length=200)),
                ("started_at", DateTimeField()),
                ("seen_at", DateTimeField()),
                ("doing", TextField(blank=True, db_default="", default="")),
            ],
            options={
                "constraints": [UniqueConstraint("part", "name", name="heartbeat_one_a_process")]
            },
        ),
        CreateModel(
            "HourCount",
            [
                ("id", ID),
                ("hour", DateTimeField()),
                ("type", CharField(max_length=40)),
                ("cause", CharField(blank=True, max_length=32)),
                ("value", BigIntegerField()),
            ],
            options={
                "constraints": [
                    UniqueConstraint("hour", "type", "cause", name="hour_count_one_a_kind")
                ]
            },
        ),
        CreateModel(
            "ParkedTask",
            [
                ("id", ID),
                ("task_id", CharField(max_length=200, unique=True)),
                ("name", CharField(max_length=200)),
                ("arguments", TextField(blank=True)),
                ("queue", CharField(max_length=200)),
                ("reason", CharField(max_length=64)),
                (
                    "state",
                    CharField(
                        choices=[
                            ("parked", "parked"),
                            ("sent", "sent again"),
                            ("discarded", "discarded"),
                        ],
                        default="parked",
                        max_length=12,
                    ),
                ),
                ("first_parked_at", DateTimeField()),
                ("parked_at", DateTimeField()),
                ("times", IntegerField(default=1)),
                ("handled_at", DateTimeField(null=True)),
                ("handled_by", CharField(blank=True, max_length=150)),
                ("message", BinaryField()),
            ],
            options={
                "verbose_name": "parked task",
                "indexes": [Index("parked_at", condition=Q(state="parked"), name="parked_waiting")],
            },
        ),
        sql_file("known_server.sql", __file__),
        audited(
            "django_celery_beat_periodictask",
            "periodic_task",
            [
                *("name", "task", "interval_id", "crontab_id", "solar_id", "clocked_id", "args"),
                *("kwargs", "queue", "exchange", "routing_key", "headers", "priority", "expires"),
                *("expire_seconds", "one_off", "start_time", "enabled", "description"),
            ],
        ),
        audited("django_celery_beat_intervalschedule", "interval", ["every", "period"]),
        audited(
            "django_celery_beat_crontabschedule",
            "crontab",
            [*("minute", "hour", "day_of_month", "month_of_year", "day_of_week", "timezone")],
        ),
        audited("django_celery_beat_clockedschedule", "clocked", ["clocked_time"]),
    ]
