"""The trace of a decision gets a row of its own, which dispatch does not write again.

Servers of the version before go on writing it into the decision, where it stays, and delete
decisions: a trigger deletes the traces of these with them.
"""

import django.db.models.deletion
from django.db import migrations, models

TRIGGER = """
CREATE OR REPLACE FUNCTION reprise_traces_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sessions_app_retrytrace
        WHERE session_id = ANY(ARRAY(SELECT session_id FROM gone));
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER decision_traces AFTER DELETE ON sessions_app_retrydecision
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION reprise_traces_go();
"""
# The traces that `0034_traces_return` has left are those of its last moments: they are few.
BEFORE = """
LOCK TABLE sessions_app_retrydecision IN ACCESS EXCLUSIVE MODE;
UPDATE sessions_app_retrydecision d SET trace = t.steps
    FROM sessions_app_retrytrace t WHERE t.session_id = d.session_id AND d.trace = '[]';
DROP TRIGGER IF EXISTS decision_traces ON sessions_app_retrydecision;
DROP FUNCTION IF EXISTS reprise_traces_go();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0032_resting_indexes")]

    operations = [
        migrations.CreateModel(
            name="RetryTrace",
            fields=[
                (
                    "decision",
                    models.OneToOneField(
                        db_column="session_id",
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="written_trace",
                        serialize=False,
                        to="sessions_app.retrydecision",
                    ),
                ),
                ("steps", models.JSONField()),
            ],
        ),
        # The column keeps its name, and gets a default for rows that do not name it.
        migrations.AlterField(
            "retrydecision",
            "trace",
            models.JSONField(db_column="trace", db_default=[], default=list),
        ),
        migrations.RenameField("retrydecision", "trace", "own_trace"),
        migrations.RunSQL(TRIGGER, BEFORE),
    ]
