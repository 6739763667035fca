"""That the counters add up is looked at when they are written, not at each change of a session."""

from django.db import migrations

COUNTERS = """
CREATE OR REPLACE FUNCTION reprise_counters_add_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.retry_count <> (
        SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(NEW.retry_counters)
    ) THEN
        RAISE EXCEPTION 'the counters of session % do not add up to its number of retries', NEW.id
            USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME,
                CONSTRAINT = 'session_counters_add_up';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS session_counters ON sessions_app_session;
CREATE CONSTRAINT TRIGGER session_counters
    AFTER INSERT OR UPDATE OF retry_counters, retry_count ON sessions_app_session
    FOR EACH ROW WHEN (NEW.retry_count <> 0 OR NEW.retry_counters <> '{}')
    EXECUTE FUNCTION reprise_counters_add_up();
ALTER TABLE sessions_app_session DROP CONSTRAINT IF EXISTS session_counters_add_up;
"""
BEFORE = """
ALTER TABLE sessions_app_session ADD CONSTRAINT session_counters_add_up
    CHECK (reprise_counters_total(retry_counters) = retry_count) NOT VALID;
DROP TRIGGER IF EXISTS session_counters ON sessions_app_session;
DROP FUNCTION IF EXISTS reprise_counters_add_up();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0027_automatic_dispatches")]

    operations = [migrations.RunSQL(COUNTERS, BEFORE)]
