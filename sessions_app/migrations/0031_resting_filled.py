"""The new columns are filled in rows of before, in slices, while no index contains them (HOT).

Lists and the retention of the new version rely on them, so no sweep fills them later.
"""

from django.db import migrations

from sessions_app.migrations._slices import run_all

SLICE = 2000
"""Rows that one transaction reads."""

# Rows that somebody else changes at this moment are left for the next pass.
REST = """
    WITH slice AS MATERIALIZED (
        SELECT id FROM sessions_app_session WHERE id > %s ORDER BY id LIMIT %s
    ), free AS MATERIALIZED (
        SELECT s.id FROM sessions_app_session s JOIN slice ON slice.id = s.id
        WHERE s.resting = ''
            AND s.retry_state IN ('held', 'succeeded', 'exhausted', 'not_retried', 'cancelled')
        FOR NO KEY UPDATE OF s SKIP LOCKED
    ), filled AS (
        UPDATE sessions_app_session s SET resting = s.retry_state
        FROM free WHERE s.id = free.id
    )
    SELECT id FROM slice ORDER BY id DESC LIMIT 1
"""
REST_LEFT = """
    SELECT EXISTS (SELECT FROM sessions_app_session WHERE resting = ''
        AND retry_state IN ('held', 'succeeded', 'exhausted', 'not_retried', 'cancelled'))
"""
PLACE = """
    WITH slice AS MATERIALIZED (
        SELECT session_id FROM sessions_app_retrydecision
        WHERE state = 'scheduled' AND session_id > %s ORDER BY session_id LIMIT %s
    ), free AS MATERIALIZED (
        SELECT d.session_id FROM sessions_app_retrydecision d
        JOIN slice ON slice.session_id = d.session_id
        WHERE d.project_id IS NULL FOR NO KEY UPDATE OF d SKIP LOCKED
    ), filled AS (
        UPDATE sessions_app_retrydecision d SET project_id = s.project_id
        FROM free JOIN sessions_app_session s ON s.id = free.session_id
        WHERE d.session_id = free.session_id
    )
    SELECT session_id FROM slice ORDER BY session_id DESC LIMIT 1
"""
PLACE_LEFT = """
    SELECT EXISTS (SELECT FROM sessions_app_retrydecision
        WHERE state = 'scheduled' AND project_id IS NULL)
"""


def fill(_apps, schema_editor):
    """Fill both columns, pass by pass, until no row lacks one."""
    with schema_editor.connection.cursor() as cursor:
        run_all(cursor, REST, REST_LEFT, SLICE)
        run_all(cursor, PLACE, PLACE_LEFT, SLICE)


class Migration(migrations.Migration):
    # A slice is a transaction.
    atomic = False

    dependencies = [("sessions_app", "0030_resting")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
