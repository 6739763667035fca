"""What operators decide of executors is told to the audit log by the database."""

from django.db import migrations

from sessions_app.migrations._audit_triggers import audited

# Whom an executor serves is a table of its own.
SERVES = """
CREATE OR REPLACE FUNCTION reprise_audit_serves() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    served jsonb := jsonb_build_object('project', reprise_audit_named(
        'project_id', CASE TG_OP WHEN 'INSERT' THEN NEW.project_id ELSE OLD.project_id END));
BEGIN
    PERFORM reprise_audit_append(
        'executor', CASE TG_OP WHEN 'INSERT' THEN 'serve' ELSE 'stop_serving' END,
        (SELECT name FROM scheduler_executor
            WHERE id = CASE TG_OP WHEN 'INSERT' THEN NEW.executor_id ELSE OLD.executor_id END),
        '', '',
        CASE TG_OP WHEN 'INSERT' THEN '{}' ELSE served END,
        CASE TG_OP WHEN 'INSERT' THEN served ELSE '{}' END);
    RETURN NULL;
END $$;
DO $migration$ BEGIN
    EXECUTE format('ALTER FUNCTION reprise_audit_serves() SET search_path = %I, pg_temp',
        current_schema());
END $migration$;
CREATE OR REPLACE TRIGGER audit_made AFTER INSERT OR DELETE ON scheduler_executor_projects
    FOR EACH ROW EXECUTE FUNCTION reprise_audit_serves();
"""
UNSERVED = """
DROP TRIGGER IF EXISTS audit_made ON scheduler_executor_projects;
DROP FUNCTION IF EXISTS reprise_audit_serves();
"""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("sessions_app", "0020_audit_triggers"),
        ("scheduler", "0011_lease_verify"),
    ]

    operations = [
        audited(
            "scheduler_executor",
            "executor",
            [
                *("name", "cordoned", "cordon_reason", "draining_since", "drained_by"),
                *("drain_force", "unconfirmed_after"),
            ],
        ),
        migrations.RunSQL(SERVES, UNSERVED),
    ]
