"""Decisions say what holds them, so that each kind of hold releases its own only.

Servers of the release before leave `held_for` empty, which counts as a switch. They do not know
that a chain may be parked: the trigger that helps them with `resting` knows it.
"""

from django.db import migrations, models

_RESTING = """
CREATE OR REPLACE FUNCTION reprise_session_rests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE sessions_app_session SET resting = CASE
        WHEN retry_state IN ({states})
        THEN retry_state ELSE '' END
    WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER session_resting AFTER INSERT OR UPDATE OF retry_state
    ON sessions_app_session FOR EACH ROW WHEN (NEW.resting <> CASE
        WHEN NEW.retry_state IN ({states})
        THEN NEW.retry_state ELSE '' END)
    EXECUTE FUNCTION reprise_session_rests();
"""
KNOWN = "'held', 'succeeded', 'exhausted', 'not_retried', 'cancelled'"
WITH_PARKED = _RESTING.format(states=f"{KNOWN}, 'parked'")
STATES = (
    *("none", "scheduled", "held", "parked", "retried", "succeeded", "exhausted", "not_retried"),
    "cancelled",
)
WITHOUT = _RESTING.format(states=KNOWN)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0052_failures")]

    operations = [
        migrations.AddField(
            "retrydecision",
            "held_for",
            models.CharField(blank=True, db_default="", default="", max_length=16),
        ),
        migrations.AddField(
            "retrydecision",
            "held_key",
            models.CharField(blank=True, db_default="", default="", max_length=130),
        ),
        migrations.AlterField(
            "session",
            "retry_state",
            models.CharField(
                choices=[(state, state) for state in STATES], default="none", max_length=12
            ),
        ),
        migrations.RunSQL(WITH_PARKED, WITHOUT),
    ]
