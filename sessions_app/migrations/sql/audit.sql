-- The audit log: changes of the configuration are told by the database, whoever makes them.

-- Who asks, by the transaction's own setting (sessions_app/audit/context.py); of SQL that says
-- nothing, the role that signed in. `current_user` is the owner here: a role that may change a
-- queue need not be one that may write the log.
CREATE FUNCTION reprise_audit_append(
    kind text, verb text, record_id text, project text, domain text, before jsonb, after jsonb
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    told jsonb := nullif(current_setting('reprise.audit', true), '')::jsonb;
    meant text := told->>'action';
BEGIN
    IF before = after THEN
        RETURN;
    END IF;
    IF told IS NULL THEN
        told := jsonb_build_object('actor', 'sql:' || session_user, 'door', 'sql', 'via',
            jsonb_strip_nulls(jsonb_build_object(
                'application', nullif(current_setting('application_name'), ''),
                'address', host(inet_client_addr()))));
    ELSIF session_user <> current_user THEN
        -- Any role can claim to be somebody.
        told := jsonb_set(told, '{via,role}', to_jsonb(session_user::text));
    END IF;
    INSERT INTO sessions_app_auditentry
        (time, actor, action, object_type, object_id, project, domain, door, via, data)
    VALUES (clock_timestamp(), left(told->>'actor', 150),
        CASE WHEN verb <> 'create' AND split_part(meant, '.', 1) = kind THEN meant
            ELSE kind || '.' || verb END,
        kind, left(record_id, 200), project, domain, told->>'door', told->'via',
        jsonb_build_object('before', before, 'after', after));
END $$;

-- Keys of other records as names: the log outlives what it tells of.
CREATE FUNCTION reprise_audit_named(field text, key bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT coalesce(CASE field
        WHEN 'project_id' THEN (SELECT d.name || '/' || p.name FROM sessions_app_project p
            JOIN sessions_app_domain d ON d.id = p.domain_id WHERE p.id = key)
        WHEN 'domain_id' THEN (SELECT name FROM sessions_app_domain WHERE id = key)
        WHEN 'user_id' THEN (SELECT username FROM auth_user WHERE id = key)
        END, '#' || key)
$$;

CREATE FUNCTION reprise_audit_facts(kind text, record jsonb, told text[]) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN record IS NULL THEN '{}'
        WHEN kind = 'quota' THEN CASE WHEN record->'limit' = 'null' THEN '{}'
            ELSE jsonb_build_object(record->>'name', trim_scale((record->>'limit')::numeric)::text)
            END
        ELSE coalesce((
            SELECT jsonb_object_agg(
                CASE WHEN f.key IN ('project_id', 'domain_id', 'user_id')
                    THEN left(f.key, -3) ELSE f.key END,
                CASE WHEN f.key IN ('project_id', 'domain_id', 'user_id') AND f.value <> 'null'
                    THEN to_jsonb(reprise_audit_named(f.key, (f.value#>>'{}')::bigint))
                    ELSE f.value END)
            FROM jsonb_each(record) f WHERE f.key = ANY(told)), '{}')
        END
$$;

CREATE FUNCTION reprise_audit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    kind text := TG_ARGV[0];
    told text[] := TG_ARGV[1]::text[];
    was jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END;
    now jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END;
    record jsonb := coalesce(was, now);
    before jsonb := reprise_audit_facts(kind, was, told);
    after jsonb := reprise_audit_facts(kind, now, told);
    project text := '';
    domain text := '';
    place text;
    hidden text;
BEGIN
    IF kind = 'project' THEN
        domain := reprise_audit_named('domain_id', (record->>'domain_id')::bigint);
        project := domain || '/' || (record->>'name');
    ELSIF kind = 'domain' THEN
        domain := record->>'name';
    ELSIF record->>'project_id' IS NOT NULL AND kind <> 'executor' THEN
        project := reprise_audit_named('project_id', (record->>'project_id')::bigint);
        domain := split_part(project, '/', 1);
    ELSIF record->>'domain_id' IS NOT NULL THEN
        domain := reprise_audit_named('domain_id', (record->>'domain_id')::bigint);
    END IF;
    place := coalesce(nullif(project, ''), domain);
    IF TG_OP = 'UPDATE' THEN
        SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO after
            FROM jsonb_each(after) f WHERE before->f.key IS DISTINCT FROM f.value;
        SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO before
            FROM jsonb_each(before) f WHERE after ? f.key OR kind = 'quota';
        FOREACH hidden IN ARRAY TG_ARGV[2]::text[] LOOP
            IF was->hidden IS DISTINCT FROM now->hidden THEN
                after := after || jsonb_build_object(hidden, 'changed');
            END IF;
        END LOOP;
    ELSE
        SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO after
            FROM jsonb_each(after) f WHERE f.value <> 'null';
        SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO before
            FROM jsonb_each(before) f WHERE f.value <> 'null';
    END IF;
    PERFORM reprise_audit_append(
        kind,
        CASE
            WHEN TG_OP = 'INSERT' OR kind = 'quota' AND before = '{}' THEN 'create'
            WHEN TG_OP = 'DELETE' OR kind = 'quota' AND after = '{}' THEN 'delete'
            ELSE 'change' END,
        CASE kind
            WHEN 'domain' THEN domain
            WHEN 'project' THEN project
            WHEN 'membership' THEN
                reprise_audit_named('user_id', (record->>'user_id')::bigint) || ' in ' || place
            WHEN 'token' THEN record->>'prefix'
            WHEN 'user' THEN record->>'username'
            WHEN 'quota' THEN place
            WHEN 'retry_defaults' THEN coalesce(nullif(place, ''), 'cluster')
            WHEN 'retry_settings' THEN coalesce(nullif(place, ''), 'cluster')
            WHEN 'webhook' THEN record->>'id'
            ELSE CASE place WHEN '' THEN '' ELSE place || '/' END
                || coalesce(record->>'name', record->>'id')
        END,
        project, domain, before, after);
    RETURN NULL;
END $$;

-- What a policy says is in its revisions: a new one is told as a change of the policy, and the row
-- of the policy only where no revision is about to follow. One that is archived is deleted for all
-- who look, so that nothing is left to tell when it goes.
CREATE FUNCTION reprise_audit_policy_facts(policy sessions_app_retrypolicy) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN policy.id IS NULL OR policy.archived_at IS NOT NULL THEN '{}'
        ELSE jsonb_strip_nulls(jsonb_build_object('name', policy.name, 'revision', policy.revision,
            'project', reprise_audit_named('project_id', policy.project_id),
            'domain', reprise_audit_named('domain_id', policy.domain_id)))
            || coalesce((SELECT jsonb_build_object('document', r.document)
                FROM sessions_app_retrypolicyrevision r
                WHERE r.policy_id = policy.id AND r.revision = policy.revision), '{}') END
$$;
CREATE FUNCTION reprise_audit_policy_append(
    policy sessions_app_retrypolicy, before jsonb, after jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    project text := coalesce(reprise_audit_named('project_id', policy.project_id), '');
    domain text := coalesce(nullif(split_part(project, '/', 1), ''),
        reprise_audit_named('domain_id', policy.domain_id), '');
    place text := coalesce(nullif(project, ''), domain);
BEGIN
    PERFORM reprise_audit_append('retry_policy',
        CASE WHEN before = '{}' THEN 'create' WHEN after = '{}' THEN 'delete' ELSE 'change' END,
        CASE place WHEN '' THEN '' ELSE place || '/' END || policy.name,
        project, domain, before, after);
END $$;
CREATE FUNCTION reprise_audit_policy() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    was jsonb := reprise_audit_policy_facts(CASE WHEN TG_OP <> 'INSERT' THEN OLD END);
    now jsonb := reprise_audit_policy_facts(CASE WHEN TG_OP <> 'DELETE' THEN NEW END);
    before jsonb := was;
    after jsonb := now;
BEGIN
    IF TG_OP <> 'DELETE' AND now <> '{}' AND NOT now ? 'document' THEN
        RETURN NULL;
    ELSIF was <> '{}' AND now <> '{}' THEN
        SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO before
            FROM jsonb_each(was) f WHERE now->f.key IS DISTINCT FROM f.value;
        SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO after
            FROM jsonb_each(now) f WHERE was->f.key IS DISTINCT FROM f.value;
    END IF;
    PERFORM reprise_audit_policy_append(coalesce(OLD, NEW), before, after);
    RETURN NULL;
END $$;
CREATE FUNCTION reprise_audit_revision() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    policy sessions_app_retrypolicy;
    earlier sessions_app_retrypolicyrevision;
BEGIN
    SELECT * INTO policy FROM sessions_app_retrypolicy p
        WHERE p.id = CASE TG_OP WHEN 'INSERT' THEN NEW.policy_id ELSE OLD.policy_id END;
    IF TG_OP = 'INSERT' THEN
        SELECT * INTO earlier FROM sessions_app_retrypolicyrevision r
            WHERE r.policy_id = NEW.policy_id AND r.revision < NEW.revision
            ORDER BY r.revision DESC LIMIT 1;
    ELSE
        earlier := OLD;
    END IF;
    IF policy.id IS NULL OR TG_OP = 'DELETE' AND policy.archived_at IS NOT NULL THEN
        RETURN NULL;
    END IF;
    PERFORM reprise_audit_policy_append(policy,
        CASE WHEN earlier.id IS NULL THEN '{}' ELSE
            jsonb_build_object('revision', earlier.revision, 'document', earlier.document) END,
        CASE TG_OP WHEN 'DELETE' THEN '{}' ELSE
            jsonb_build_object('revision', NEW.revision, 'document', NEW.document) END);
    RETURN NULL;
END $$;

CREATE FUNCTION reprise_audit_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: no % of it', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_kept BEFORE UPDATE OR DELETE ON sessions_app_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION reprise_audit_kept();
CREATE TRIGGER audit_kept_whole BEFORE TRUNCATE ON sessions_app_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION reprise_audit_kept();
-- Old dispatches are deleted; none is changed.
CREATE TRIGGER dispatch_kept BEFORE UPDATE ON sessions_app_automaticdispatch
    FOR EACH STATEMENT EXECUTE FUNCTION reprise_audit_kept();

-- Whoever owns the tables could shadow them for a session with temporary ones.
DO $migration$ DECLARE known regprocedure; BEGIN
    FOR known IN SELECT oid FROM pg_proc
        WHERE proname LIKE 'reprise\_audit%' AND pronamespace = current_schema()::regnamespace
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', known, current_schema());
    END LOOP;
END $migration$;

-- What people did, and what the engine dispatched, which has a table of its own that can be
-- shortened.
CREATE VIEW sessions_app_auditlog AS
    SELECT id, time, actor, door, via, action, object_type, object_id, project, domain, root, data
    FROM sessions_app_auditentry
    UNION ALL
    SELECT id, time, 'reprise'::varchar, 'task'::varchar, via, 'retry.dispatch'::varchar,
        'session'::varchar, object_id, project, domain, root, data
    FROM sessions_app_automaticdispatch;
