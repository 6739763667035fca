-- Whom an executor serves is a table of its own, whose changes the audit log tells, too.
CREATE FUNCTION reprise_audit_serves() RETURNS trigger
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
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON scheduler_executor_projects
    FOR EACH ROW EXECUTE FUNCTION reprise_audit_serves();

CREATE SEQUENCE scheduler_fencing_token AS bigint;
-- Half of each page is free, since a call accepts all the leases that one call has inserted.
ALTER TABLE scheduler_lease SET (fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
