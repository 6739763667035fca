"""What the ORM cannot say: storage of the hot tables, and that counters add up."""

from django.db import migrations

COUNTERS = """
CREATE FUNCTION reprise_counters_total(counters jsonb) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT coalesce(sum(value::bigint), 0)::bigint FROM jsonb_each_text(counters) $$;
ALTER TABLE sessions_app_session ADD CONSTRAINT session_counters_add_up
    CHECK (reprise_counters_total(retry_counters) = retry_count);
"""
STORAGE = """
ALTER TABLE sessions_app_session SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE sessions_app_retrydecision SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0001_initial")]

    operations = [
        migrations.RunSQL(
            COUNTERS,
            "ALTER TABLE sessions_app_session DROP CONSTRAINT session_counters_add_up;"
            "DROP FUNCTION reprise_counters_total(jsonb);",
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
    ]
