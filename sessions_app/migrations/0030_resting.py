"""Columns that a dispatch leaves as they are, from which indexes know the retry states that last.

Servers of the release before do not write them: triggers do, in rows that lack them.
"""

from django.db import migrations, models

TRIGGERS = """
CREATE OR REPLACE FUNCTION reprise_session_rests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE sessions_app_session SET resting = CASE
        WHEN retry_state IN ('held', 'succeeded', 'exhausted', 'not_retried', 'cancelled')
        THEN retry_state ELSE '' END
    WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER session_resting AFTER INSERT OR UPDATE OF retry_state
    ON sessions_app_session FOR EACH ROW WHEN (NEW.resting <> CASE
        WHEN NEW.retry_state IN ('held', 'succeeded', 'exhausted', 'not_retried', 'cancelled')
        THEN NEW.retry_state ELSE '' END)
    EXECUTE FUNCTION reprise_session_rests();
CREATE OR REPLACE FUNCTION reprise_decision_of_project() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE sessions_app_retrydecision d SET project_id = s.project_id
    FROM sessions_app_session s WHERE d.session_id = NEW.session_id AND s.id = NEW.session_id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER decision_project AFTER INSERT OR UPDATE OF state
    ON sessions_app_retrydecision FOR EACH ROW
    WHEN (NEW.project_id IS NULL AND NEW.state = 'scheduled')
    EXECUTE FUNCTION reprise_decision_of_project();
"""
NO_TRIGGERS = """
DROP TRIGGER IF EXISTS session_resting ON sessions_app_session;
DROP FUNCTION IF EXISTS reprise_session_rests();
DROP TRIGGER IF EXISTS decision_project ON sessions_app_retrydecision;
DROP FUNCTION IF EXISTS reprise_decision_of_project();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0029_fewer_indexes")]

    operations = [
        migrations.AddField(
            "session",
            "resting",
            models.CharField(default="", db_default="", max_length=12),
        ),
        migrations.AddField("retrydecision", "project_id", models.BigIntegerField(null=True)),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
