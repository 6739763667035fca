"""Changes of periodic tasks are told to the audit log by the database."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("sessions_app", "0020_audit_triggers"),
        ("django_celery_beat", "0019_alter_periodictasks_options"),
        ("reprise", "0001_operations"),
    ]

    operations = [
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
            [
                *("minute", "hour", "day_of_month", "month_of_year", "day_of_week", "timezone"),
            ],
        ),
        audited("django_celery_beat_clockedschedule", "clocked", ["clocked_time"]),
    ]
