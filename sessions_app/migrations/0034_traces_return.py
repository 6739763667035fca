"""On the way back, traces return into the rows of their decisions, in slices: nothing is lost."""

from django.db import migrations

from sessions_app.migrations._slices import run_all

SLICE = 500

# Decisions that somebody else changes at this moment are left for the next pass.
RETURN = """
    WITH free AS MATERIALIZED (
        SELECT d.session_id FROM sessions_app_retrydecision d
        JOIN sessions_app_retrytrace t ON t.session_id = d.session_id
        WHERE t.session_id > %s
        ORDER BY t.session_id LIMIT %s FOR UPDATE OF d SKIP LOCKED
    ), gone AS (
        DELETE FROM sessions_app_retrytrace t USING free WHERE t.session_id = free.session_id
        RETURNING t.session_id, t.steps
    ), written AS (
        UPDATE sessions_app_retrydecision d SET trace = gone.steps FROM gone
        WHERE d.session_id = gone.session_id RETURNING d.session_id
    )
    SELECT session_id FROM written ORDER BY session_id DESC LIMIT 1
"""
LEFT = """
    SELECT EXISTS (SELECT FROM sessions_app_retrytrace t
        JOIN sessions_app_retrydecision d ON d.session_id = t.session_id)
"""


def traces_return(_apps, schema_editor):
    """Write all traces into their decisions, pass by pass, until none is left."""
    with schema_editor.connection.cursor() as cursor:
        run_all(cursor, RETURN, LEFT, SLICE)


class Migration(migrations.Migration):
    # A slice is a transaction.
    atomic = False

    dependencies = [("sessions_app", "0033_retry_trace")]

    operations = [migrations.RunPython(migrations.RunPython.noop, traces_return)]
