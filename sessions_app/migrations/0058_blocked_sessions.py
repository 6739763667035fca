"""The phase of sessions that wait for other chains: its rules and its index."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import F, Q

ONE = "session_one_unfinished"
ONE_BEFORE = "session_one_unfinished_a_chain"
_CREATE = """
    CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {name} ON sessions_app_session (root_id)
    WHERE phase IN ({phases})
"""
CREATE = _CREATE.format(name=ONE, phases="'blocked', 'waiting', 'live'")
CREATE_BEFORE = _CREATE.format(name=ONE_BEFORE, phases="'waiting', 'live'")


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0057_dependencies")]

    operations = [
        ValidateConstraint("session", "session_phase_of_status"),
        AddIndexConcurrently(
            "session",
            models.Index(
                "project",
                F("id").asc(nulls_first=True),
                condition=Q(phase="blocked"),
                name="session_blocked",
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(CREATE, f"DROP INDEX CONCURRENTLY IF EXISTS {ONE}"),
                migrations.RunSQL(f"DROP INDEX CONCURRENTLY IF EXISTS {ONE_BEFORE}", CREATE_BEFORE),
            ],
            state_operations=[
                migrations.RemoveConstraint("session", ONE_BEFORE),
                migrations.AddConstraint(
                    "session",
                    models.UniqueConstraint(
                        F("root"),
                        condition=Q(phase__in=["blocked", "waiting", "live"]),
                        name=ONE,
                    ),
                ),
            ],
        ),
    ]
