"""Each kind of hold has an index of what it holds, which its release reads."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from sessions_app.migrations._slices import run_all

SLICE = 1000
# Decisions that servers of long ago held have no project, by which the release finds them.
PLACE = """
    WITH slice AS MATERIALIZED (
        SELECT id FROM sessions_app_session
        WHERE resting = 'held' AND id > %s ORDER BY id LIMIT %s
    ), free AS MATERIALIZED (
        SELECT d.session_id FROM sessions_app_retrydecision d JOIN slice ON slice.id = d.session_id
        WHERE d.state = 'held' AND d.project_id IS NULL FOR NO KEY UPDATE OF d SKIP LOCKED
    ), filled AS (
        UPDATE sessions_app_retrydecision d SET project_id = s.project_id
        FROM free JOIN sessions_app_session s ON s.id = free.session_id
        WHERE d.session_id = free.session_id
    )
    SELECT id FROM slice ORDER BY id DESC LIMIT 1
"""
LEFT = """
    SELECT EXISTS (SELECT FROM sessions_app_session s
        JOIN sessions_app_retrydecision d ON d.session_id = s.id
        WHERE s.resting = 'held' AND d.state = 'held' AND d.project_id IS NULL)
"""


def place(_apps, schema_editor):
    """Give each decision that is held the project of its session, slice by slice."""
    with schema_editor.connection.cursor() as cursor:
        run_all(cursor, PLACE, LEFT, SLICE)


class Migration(migrations.Migration):
    # Indexes on a table that is large and written to all the time.
    atomic = False

    dependencies = [("sessions_app", "0054_held_for")]

    operations = [
        migrations.RunPython(place, migrations.RunPython.noop),
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "project_id",
                "session",
                condition=Q(held_for__in=["", "switch"], state="held"),
                name="decision_switched",
            ),
        ),
        AddIndexConcurrently(
            "retrydecision",
            models.Index(
                "due_at",
                "session",
                condition=Q(held_for="parked", state="held"),
                name="decision_parked",
            ),
        ),
    ]
