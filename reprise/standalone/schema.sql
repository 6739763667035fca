-- What the migrations leave in PostgreSQL 18; written by `make schema`.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL transaction_timeout = 0;
SET LOCAL client_encoding = 'UTF8';
SET LOCAL standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', true);
SET LOCAL check_function_bodies = false;
SET LOCAL xmloption = content;
SET LOCAL client_min_messages = warning;
SET LOCAL row_security = off;
CREATE FUNCTION public.reprise_audit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE FUNCTION public.reprise_audit_append(kind text, verb text, record_id text, project text, domain text, before jsonb, after jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE FUNCTION public.reprise_audit_facts(kind text, record jsonb, told text[]) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE FUNCTION public.reprise_audit_kept() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: no % of it', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE FUNCTION public.reprise_audit_named(field text, key bigint) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT coalesce(CASE field
        WHEN 'project_id' THEN (SELECT d.name || '/' || p.name FROM sessions_app_project p
            JOIN sessions_app_domain d ON d.id = p.domain_id WHERE p.id = key)
        WHEN 'domain_id' THEN (SELECT name FROM sessions_app_domain WHERE id = key)
        WHEN 'user_id' THEN (SELECT username FROM auth_user WHERE id = key)
        END, '#' || key)
$$;
CREATE FUNCTION public.reprise_audit_policy() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
SET LOCAL default_tablespace = '';
SET LOCAL default_table_access_method = heap;
CREATE TABLE public.sessions_app_retrypolicy (
    id bigint NOT NULL,
    domain_id bigint,
    project_id bigint,
    name character varying(63) NOT NULL,
    revision integer NOT NULL,
    archived_at timestamp with time zone,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT retry_policy_name_label CHECK (((name)::text ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT retry_policy_one_scope CHECK (((domain_id IS NULL) OR (project_id IS NULL))),
    CONSTRAINT retry_policy_revision_positive CHECK ((revision > 0)),
    CONSTRAINT sessions_app_retrypolicy_revision_check CHECK ((revision >= 0))
);
CREATE FUNCTION public.reprise_audit_policy_append(policy public.sessions_app_retrypolicy, before jsonb, after jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE FUNCTION public.reprise_audit_policy_facts(policy public.sessions_app_retrypolicy) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT CASE WHEN policy.id IS NULL OR policy.archived_at IS NOT NULL THEN '{}'
        ELSE jsonb_strip_nulls(jsonb_build_object('name', policy.name, 'revision', policy.revision,
            'project', reprise_audit_named('project_id', policy.project_id),
            'domain', reprise_audit_named('domain_id', policy.domain_id)))
            || coalesce((SELECT jsonb_build_object('document', r.document)
                FROM sessions_app_retrypolicyrevision r
                WHERE r.policy_id = policy.id AND r.revision = policy.revision), '{}') END
$$;
CREATE FUNCTION public.reprise_audit_revision() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE FUNCTION public.reprise_audit_serves() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
CREATE UNLOGGED TABLE public.sessions_app_retrycharge (
    id bigint NOT NULL,
    minute bigint NOT NULL,
    scopes text[] NOT NULL,
    retries_from bigint[] NOT NULL,
    attempts_from bigint[] NOT NULL,
    made bigint[] NOT NULL,
    ratios numeric[] NOT NULL,
    bursts bigint[] NOT NULL,
    newest timestamp with time zone[] NOT NULL
);
CREATE FUNCTION public.reprise_budgets_refuse(charge public.sessions_app_retrycharge, reserved bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM unnest(charge.scopes, charge.retries_from, charge.attempts_from, charge.made,
                charge.ratios, charge.bursts, charge.newest)
            AS v(scope, retries_from, attempts_from, made, ratio, burst, newest)
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(m.retries), 0) AS retries, coalesce(sum(m.first_attempts)
                FILTER (WHERE m.minute >= to_timestamp(v.attempts_from * 60)), 0) AS first_attempts
            FROM sessions_app_retrybudgetminute m
            WHERE m.scope = v.scope AND m.minute >= to_timestamp(v.retries_from * 60)) c
        WHERE v.newest IS NOT NULL AND (
            c.retries + v.made + reserved > v.burst + floor(v.ratio * c.first_attempts)
            OR EXISTS (SELECT FROM sessions_app_retrydecision d
                WHERE d.state = 'held' AND d.held_for = 'shared_budget' AND d.held_key = v.scope
                    AND d.held_order < v.newest)));
END $$;
CREATE FUNCTION public.reprise_chain_past(root uuid, before integer, most integer) RETURNS json
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (SELECT json_agg(json_build_array(a.retry_cause, a.signature, a.paid_by, a.decided_at))
        FROM (
            SELECT s.retry_cause, d.paid_by, d.decided_at,
                CASE WHEN (s.progress -> 'advanced')::boolean THEN ''
                    ELSE s.failure_signature END AS signature
            FROM sessions_app_session s LEFT JOIN sessions_app_retrydecision d
                ON d.session_id = s.id AND d.state = 'dispatched'
            WHERE s.root_id = root AND s.retry_count < before
            ORDER BY s.retry_count DESC LIMIT most) a);
END $$;
CREATE FUNCTION public.reprise_charge_budgets() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    part int := 0;
BEGIN
    IF 8 >= ALL (NEW.made) THEN
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(1380253710);
            FOR place IN pg_backend_pid() .. pg_backend_pid() + 8 - 1 LOOP
                part := 1 + place % 8;
                EXIT WHEN pg_try_advisory_xact_lock(1380253710, part);
                part := 0;
            END LOOP;
            IF part = 0 THEN
                part := 1 + pg_backend_pid() % 8;
                PERFORM pg_advisory_xact_lock(1380253710, part);
            END IF;
            IF reprise_budgets_refuse(NEW, 64) THEN
                RAISE no_data_found;
            END IF;
        EXCEPTION WHEN no_data_found THEN
            part := 0;
        END;
    END IF;
    IF part = 0 THEN
        PERFORM pg_advisory_xact_lock(1380253710);
        IF reprise_budgets_refuse(NEW, 0) THEN
            RAISE EXCEPTION 'a shared budget of these retries is spent'
                USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME,
                    CONSTRAINT = 'retry_budget_has_room';
        END IF;
    END IF;
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(NEW.minute * 60 + part), 0, v.made
    FROM unnest(NEW.scopes, NEW.made) AS v(scope, made)
    ORDER BY 1
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries;
    DELETE FROM sessions_app_retrycharge WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE FUNCTION public.reprise_config_changed() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO sessions_app_configversion (id, version) VALUES (1, gen_random_uuid())
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
    RETURN NULL;
END $$;
CREATE FUNCTION public.reprise_counters_add_up() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
BEGIN
    IF jsonb_path_query_array(NEW.retry_counters, '$.*') = jsonb_build_array(NEW.retry_count) THEN
        RETURN NULL;
    END IF;
    IF NEW.retry_count <> (
        SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(NEW.retry_counters)
    ) THEN
        RAISE EXCEPTION 'the counters of session % do not add up to its number of retries', NEW.id
            USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME,
                CONSTRAINT = 'session_counters_add_up';
    END IF;
    RETURN NULL;
END $_$;
CREATE FUNCTION public.reprise_counters_total(counters jsonb) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT coalesce(sum(value::bigint), 0)::bigint FROM jsonb_each_text(counters) $$;
CREATE FUNCTION public.reprise_decision_of_project() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE sessions_app_retrydecision d SET project_id = s.project_id
    FROM sessions_app_session s WHERE d.session_id = NEW.session_id AND s.id = NEW.session_id;
    RETURN NULL;
END $$;
CREATE FUNCTION public.reprise_epoch() RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT 0::bigint $$;
CREATE FUNCTION public.reprise_server(OUT system_identifier bigint, OUT timeline bigint) RETURNS record
    LANGUAGE sql STABLE
    AS $$
    SELECT s.system_identifier,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    FROM pg_control_system() s
$$;
CREATE FUNCTION public.reprise_server_known() RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT EXISTS (SELECT FROM reprise_knownserver k, reprise_server() s
        WHERE k.system_identifier = s.system_identifier AND k.timeline = s.timeline)
$$;
CREATE FUNCTION public.reprise_session_rests() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE sessions_app_session SET resting = CASE
        WHEN retry_state IN ('held', 'succeeded', 'exhausted', 'not_retried', 'cancelled', 'parked')
        THEN retry_state ELSE '' END
    WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE FUNCTION public.reprise_traces_go() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM sessions_app_retrytrace
        WHERE session_id = ANY(ARRAY(SELECT session_id FROM gone));
    RETURN NULL;
END $$;
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accessattempt (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    get_data text NOT NULL,
    post_data text NOT NULL,
    failures_since_start integer NOT NULL,
    CONSTRAINT axes_accessattempt_failures_since_start_check CHECK ((failures_since_start >= 0))
);
ALTER TABLE public.axes_accessattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accessattemptexpiration (
    access_attempt_id integer NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.axes_accessfailurelog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    locked_out boolean NOT NULL
);
ALTER TABLE public.axes_accessfailurelog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessfailurelog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accesslog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    logout_time timestamp with time zone,
    session_hash character varying(64) NOT NULL
);
ALTER TABLE public.axes_accesslog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accesslog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id integer NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);
ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_clockedschedule (
    id integer NOT NULL,
    clocked_time timestamp with time zone NOT NULL
);
ALTER TABLE public.django_celery_beat_clockedschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_clockedschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_crontabschedule (
    id integer NOT NULL,
    minute character varying(240) NOT NULL,
    hour character varying(96) NOT NULL,
    day_of_week character varying(64) NOT NULL,
    day_of_month character varying(124) NOT NULL,
    month_of_year character varying(64) NOT NULL,
    timezone character varying(63) NOT NULL
);
ALTER TABLE public.django_celery_beat_crontabschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_crontabschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_intervalschedule (
    id integer NOT NULL,
    every integer NOT NULL,
    period character varying(24) NOT NULL
);
ALTER TABLE public.django_celery_beat_intervalschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_intervalschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_periodictask (
    id integer NOT NULL,
    name character varying(200) NOT NULL,
    task character varying(200) NOT NULL,
    args text NOT NULL,
    kwargs text NOT NULL,
    queue character varying(200),
    exchange character varying(200),
    routing_key character varying(200),
    expires timestamp with time zone,
    enabled boolean NOT NULL,
    last_run_at timestamp with time zone,
    total_run_count integer NOT NULL,
    date_changed timestamp with time zone NOT NULL,
    description text NOT NULL,
    crontab_id integer,
    interval_id integer,
    solar_id integer,
    one_off boolean NOT NULL,
    start_time timestamp with time zone,
    priority integer,
    headers text NOT NULL,
    clocked_id integer,
    expire_seconds integer,
    CONSTRAINT django_celery_beat_periodictask_expire_seconds_check CHECK ((expire_seconds >= 0)),
    CONSTRAINT django_celery_beat_periodictask_priority_check CHECK ((priority >= 0)),
    CONSTRAINT django_celery_beat_periodictask_total_run_count_check CHECK ((total_run_count >= 0))
);
ALTER TABLE public.django_celery_beat_periodictask ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_periodictask_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_celery_beat_periodictasks (
    ident smallint NOT NULL,
    last_update timestamp with time zone NOT NULL
);
CREATE TABLE public.django_celery_beat_solarschedule (
    id integer NOT NULL,
    event character varying(24) NOT NULL,
    latitude numeric(9,6) NOT NULL,
    longitude numeric(9,6) NOT NULL
);
ALTER TABLE public.django_celery_beat_solarschedule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_celery_beat_solarschedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);
CREATE TABLE public.reprise_eventcount (
    id bigint NOT NULL,
    metric character varying(64) NOT NULL,
    labels jsonb NOT NULL,
    value bigint NOT NULL
);
ALTER TABLE public.reprise_eventcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.reprise_eventcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.reprise_eventcursor (
    id bigint NOT NULL,
    counted_id bigint NOT NULL,
    fence_id bigint NOT NULL,
    fence_xid bigint NOT NULL,
    fence_at timestamp with time zone NOT NULL
);
ALTER TABLE public.reprise_eventcursor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.reprise_eventcursor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.reprise_heartbeat (
    id bigint NOT NULL,
    part character varying(16) NOT NULL,
    name character varying(200) NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    doing text DEFAULT ''::text NOT NULL
);
ALTER TABLE public.reprise_heartbeat ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.reprise_heartbeat_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.reprise_hourcount (
    id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    type character varying(40) NOT NULL,
    cause character varying(32) NOT NULL,
    value bigint NOT NULL
);
ALTER TABLE public.reprise_hourcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.reprise_hourcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.reprise_knownserver (
    only_row boolean DEFAULT true NOT NULL,
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT reprise_knownserver_only_row_check CHECK (only_row)
);
CREATE TABLE public.reprise_parkedtask (
    id bigint NOT NULL,
    task_id character varying(200) NOT NULL,
    name character varying(200) NOT NULL,
    arguments text NOT NULL,
    queue character varying(200) NOT NULL,
    reason character varying(64) NOT NULL,
    state character varying(12) NOT NULL,
    first_parked_at timestamp with time zone NOT NULL,
    parked_at timestamp with time zone NOT NULL,
    times integer NOT NULL,
    handled_at timestamp with time zone,
    handled_by character varying(150) NOT NULL,
    message bytea NOT NULL
);
ALTER TABLE public.reprise_parkedtask ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.reprise_parkedtask_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.reprise_periodicrun (
    name character varying(200) NOT NULL,
    started_at timestamp with time zone NOT NULL,
    duration double precision NOT NULL,
    result text NOT NULL,
    error text NOT NULL,
    runs bigint NOT NULL,
    failures bigint NOT NULL
);
CREATE TABLE public.reprise_sweepstart (
    task character varying(200) NOT NULL,
    taken_at timestamp with time zone NOT NULL
);
CREATE TABLE public.scheduler_executor (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    incarnation bigint NOT NULL,
    driver character varying(32) NOT NULL,
    nodes jsonb NOT NULL,
    max_sessions integer NOT NULL,
    last_seen_at timestamp with time zone,
    cordoned boolean NOT NULL,
    unconfirmed_after double precision,
    created_at timestamp with time zone NOT NULL,
    round bigint DEFAULT 0 NOT NULL,
    cordon_reason character varying(256) DEFAULT ''::character varying NOT NULL,
    warned_at timestamp with time zone,
    draining_since timestamp with time zone,
    drained_by character varying(150) DEFAULT ''::character varying NOT NULL,
    drain_force boolean DEFAULT false NOT NULL,
    state_id character varying(64) DEFAULT ''::character varying NOT NULL,
    fenced_at timestamp with time zone,
    trouble text DEFAULT ''::text NOT NULL,
    project_troubles jsonb DEFAULT '{}'::jsonb NOT NULL,
    placement character varying(8) DEFAULT 'node'::character varying NOT NULL,
    refusals jsonb DEFAULT '{}'::jsonb NOT NULL,
    reservations jsonb DEFAULT '{}'::jsonb NOT NULL,
    nodes_digest character varying(32) DEFAULT ''::character varying NOT NULL,
    auto_quarantine boolean DEFAULT false NOT NULL,
    avoid_suspects character varying(8) DEFAULT 'off'::character varying NOT NULL,
    preemption character varying(8) DEFAULT ''::character varying NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    node_templates jsonb DEFAULT '[]'::jsonb NOT NULL,
    warnings jsonb DEFAULT '[]'::jsonb NOT NULL,
    pod_placing jsonb DEFAULT '{}'::jsonb NOT NULL,
    extended_tolerations boolean DEFAULT false NOT NULL,
    CONSTRAINT executor_name_label CHECK (((name)::text ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT scheduler_executor_max_sessions_check CHECK ((max_sessions >= 0))
);
ALTER TABLE public.scheduler_executor ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_executor_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.scheduler_executor_projects (
    id bigint NOT NULL,
    executor_id bigint NOT NULL,
    project_id bigint NOT NULL
);
ALTER TABLE public.scheduler_executor_projects ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_executor_projects_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE SEQUENCE public.scheduler_fencing_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.scheduler_lease (
    session_id uuid NOT NULL,
    fencing_token bigint NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    accepted boolean NOT NULL,
    lost_at timestamp with time zone,
    run_deadline timestamp with time zone,
    executor_id bigint NOT NULL,
    verify_at timestamp with time zone,
    pod jsonb,
    pod_created_at timestamp with time zone,
    initializing_since timestamp with time zone,
    initializing_checks smallint DEFAULT 0 NOT NULL,
    unknown_checks smallint DEFAULT 0 NOT NULL,
    suspected boolean DEFAULT false NOT NULL,
    queue_id bigint,
    scheduling_key bigint,
    nodes jsonb,
    progress jsonb,
    template character varying(63) DEFAULT ''::character varying NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02', fillfactor='50');
CREATE TABLE public.scheduler_node (
    id bigint NOT NULL,
    name character varying(253) NOT NULL,
    address character varying(317) NOT NULL,
    present boolean NOT NULL,
    counted_from timestamp with time zone,
    suspected_at timestamp with time zone,
    suspected_until timestamp with time zone,
    cleared_at timestamp with time zone,
    reason text NOT NULL,
    ratio double precision,
    quarantined_at timestamp with time zone,
    quarantined_by character varying(150) NOT NULL,
    quarantine_reason character varying(256) NOT NULL,
    executor_id bigint NOT NULL
);
ALTER TABLE public.scheduler_node ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_node_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.scheduler_nodeattempt (
    id bigint NOT NULL,
    ended_at timestamp with time zone NOT NULL,
    work bigint NOT NULL,
    chain uuid NOT NULL,
    cause character varying(32) NOT NULL,
    signature character varying(12) NOT NULL,
    node_id bigint NOT NULL
);
ALTER TABLE public.scheduler_nodeattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_nodeattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.scheduler_nodereader (
    id bigint NOT NULL,
    epoch bigint,
    xid xid8,
    event_id bigint,
    listed jsonb NOT NULL,
    to_judge boolean NOT NULL
);
ALTER TABLE public.scheduler_nodereader ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_nodereader_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.scheduler_pool (
    id smallint NOT NULL,
    amounts jsonb NOT NULL,
    computed_at timestamp with time zone NOT NULL,
    CONSTRAINT pool_is_one CHECK ((id = 1))
);
CREATE TABLE public.scheduler_preemption (
    id bigint NOT NULL,
    planned_at timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    rule character varying(16) NOT NULL,
    dry_run boolean NOT NULL,
    nodes jsonb NOT NULL,
    taker_id uuid NOT NULL,
    taker_rank smallint NOT NULL,
    victim_id uuid NOT NULL,
    victim_rank smallint NOT NULL,
    executor_id bigint,
    taker_project_id bigint NOT NULL,
    victim_project_id bigint NOT NULL,
    executor_name character varying(63) DEFAULT ''::character varying NOT NULL
);
ALTER TABLE public.scheduler_preemption ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_preemption_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.scheduler_queuebelow (
    queue_id bigint NOT NULL,
    since timestamp with time zone NOT NULL
);
CREATE TABLE public.scheduler_queueusage (
    queue_id bigint NOT NULL,
    used jsonb NOT NULL,
    cost double precision NOT NULL,
    current_priority double precision NOT NULL,
    computed_at timestamp with time zone NOT NULL
);
CREATE TABLE public.scheduler_reservation (
    id bigint NOT NULL,
    nodes jsonb NOT NULL,
    since timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    executor_id bigint NOT NULL,
    session_id uuid NOT NULL,
    limited_since timestamp with time zone
);
ALTER TABLE public.scheduler_reservation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.scheduler_reservation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_apitoken (
    id bigint NOT NULL,
    name character varying(128) NOT NULL,
    prefix character varying(16) NOT NULL,
    digest character varying(64) NOT NULL,
    executor_name character varying(63) NOT NULL,
    read_only boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    user_id integer,
    project_id bigint,
    made_with character varying(16) DEFAULT ''::character varying NOT NULL,
    budget bigint,
    CONSTRAINT token_one_bearer CHECK (((((executor_name)::text = ''::text) AND (user_id IS NOT NULL)) OR ((user_id IS NULL) AND (NOT ((executor_name)::text = ''::text)))))
);
ALTER TABLE public.sessions_app_apitoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_apitoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_auditentry (
    id bigint NOT NULL,
    "time" timestamp with time zone NOT NULL,
    actor character varying(150) NOT NULL,
    action character varying(64) NOT NULL,
    object_type character varying(32) NOT NULL,
    object_id character varying(200) NOT NULL,
    project character varying(128) NOT NULL,
    data jsonb NOT NULL,
    domain character varying(63) DEFAULT ''::character varying NOT NULL,
    door character varying(16) DEFAULT ''::character varying NOT NULL,
    root uuid,
    via jsonb DEFAULT '{}'::jsonb NOT NULL
);
ALTER TABLE public.sessions_app_auditentry ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_auditentry_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_automaticdispatch (
    id bigint NOT NULL,
    "time" timestamp with time zone NOT NULL,
    via jsonb NOT NULL,
    object_id character varying(200) NOT NULL,
    project character varying(128) NOT NULL,
    domain character varying(63) NOT NULL,
    root uuid,
    data jsonb NOT NULL
);
CREATE VIEW public.sessions_app_auditlog AS
 SELECT sessions_app_auditentry.id,
    sessions_app_auditentry."time",
    sessions_app_auditentry.actor,
    sessions_app_auditentry.door,
    sessions_app_auditentry.via,
    sessions_app_auditentry.action,
    sessions_app_auditentry.object_type,
    sessions_app_auditentry.object_id,
    sessions_app_auditentry.project,
    sessions_app_auditentry.domain,
    sessions_app_auditentry.root,
    sessions_app_auditentry.data
   FROM public.sessions_app_auditentry
UNION ALL
 SELECT sessions_app_automaticdispatch.id,
    sessions_app_automaticdispatch."time",
    'reprise'::character varying AS actor,
    'task'::character varying AS door,
    sessions_app_automaticdispatch.via,
    'retry.dispatch'::character varying AS action,
    'session'::character varying AS object_type,
    sessions_app_automaticdispatch.object_id,
    sessions_app_automaticdispatch.project,
    sessions_app_automaticdispatch.domain,
    sessions_app_automaticdispatch.root,
    sessions_app_automaticdispatch.data
   FROM public.sessions_app_automaticdispatch;
CREATE TABLE public.sessions_app_breaker (
    id uuid NOT NULL,
    scope character varying(32) NOT NULL,
    signature character varying(12) NOT NULL,
    state character varying(8) NOT NULL,
    muted boolean NOT NULL,
    reason character varying(256) NOT NULL,
    chains integer NOT NULL,
    opened_at timestamp with time zone NOT NULL,
    opened_by character varying(150) NOT NULL,
    closed_at timestamp with time zone,
    closed_by character varying(150) NOT NULL,
    probe_delay double precision NOT NULL,
    probe_at timestamp with time zone,
    probe uuid,
    probe_since timestamp with time zone,
    probes integer NOT NULL,
    projects jsonb NOT NULL,
    event_seq integer NOT NULL,
    project_id bigint,
    queue_id bigint
);
CREATE TABLE public.sessions_app_breakerfailure (
    id bigint NOT NULL,
    signature character varying(12) NOT NULL,
    root_id uuid NOT NULL,
    project_id bigint NOT NULL,
    queue_id bigint NOT NULL,
    failed_at timestamp with time zone NOT NULL
);
ALTER TABLE public.sessions_app_breakerfailure ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_breakerfailure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_configversion (
    id smallint NOT NULL,
    version uuid NOT NULL
);
CREATE TABLE public.sessions_app_dependency (
    id bigint NOT NULL,
    on_root uuid NOT NULL,
    place smallint NOT NULL,
    creation_id character varying(255) NOT NULL,
    wanted character varying(9) NOT NULL,
    outcome character varying(9) NOT NULL,
    met boolean,
    tip_id uuid,
    status character varying(12),
    exit_code integer,
    root_id uuid NOT NULL,
    CONSTRAINT dependency_met_when_seen CHECK ((((met IS NULL) AND ((outcome)::text = ''::text)) OR ((NOT ((outcome)::text = ''::text)) AND (met IS NOT NULL)))),
    CONSTRAINT sessions_app_dependency_place_check CHECK ((place >= 0))
);
ALTER TABLE public.sessions_app_dependency ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_dependency_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_domain (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT domain_name_label CHECK (((name)::text ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'::text))
);
ALTER TABLE public.sessions_app_domain ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_domain_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failurecategory (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    "position" integer NOT NULL,
    matchers jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL
);
ALTER TABLE public.sessions_app_failurecategory ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failurecategory_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failureday (
    id bigint NOT NULL,
    sessions bigint NOT NULL,
    chains bigint NOT NULL,
    recovered_chains bigint NOT NULL,
    lost_run_seconds double precision NOT NULL,
    dimension character varying(8) NOT NULL,
    value character varying(512) NOT NULL,
    day date NOT NULL,
    key character varying(12) NOT NULL,
    project_id bigint NOT NULL,
    hours integer[]
);
ALTER TABLE public.sessions_app_failureday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failureday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failurehour (
    id bigint NOT NULL,
    sessions bigint NOT NULL,
    chains bigint NOT NULL,
    recovered_chains bigint NOT NULL,
    lost_run_seconds double precision NOT NULL,
    dimension character varying(8) NOT NULL,
    value character varying(512) NOT NULL,
    hour timestamp with time zone NOT NULL,
    key character varying(12) NOT NULL,
    project_id bigint NOT NULL
);
ALTER TABLE public.sessions_app_failurehour ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failurehour_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failureledger (
    id bigint NOT NULL,
    dimension character varying(8) NOT NULL,
    value character varying(512) NOT NULL,
    key character varying(12) NOT NULL,
    names character varying(512)[] NOT NULL,
    project_id bigint NOT NULL
);
ALTER TABLE public.sessions_app_failureledger ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failureledger_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failurereader (
    id bigint NOT NULL,
    epoch bigint,
    xid xid8,
    event_id bigint,
    first_day date,
    days_before date,
    summed_until timestamp with time zone
);
ALTER TABLE public.sessions_app_failurereader ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failurereader_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failuresignature (
    id bigint NOT NULL,
    sessions bigint NOT NULL,
    chains bigint NOT NULL,
    recovered_chains bigint NOT NULL,
    lost_run_seconds double precision NOT NULL,
    key character varying(12) NOT NULL,
    title character varying(200) NOT NULL,
    cause character varying(32) NOT NULL,
    first_seen timestamp with time zone NOT NULL,
    last_seen timestamp with time zone NOT NULL,
    example uuid NOT NULL,
    muted boolean NOT NULL,
    project_id bigint NOT NULL,
    exit_code integer
);
ALTER TABLE public.sessions_app_failuresignature ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failuresignature_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_failuretotals (
    id bigint NOT NULL,
    hour timestamp with time zone NOT NULL,
    sessions integer[] NOT NULL,
    chains integer[],
    recovered_chains integer[],
    lost_run_seconds double precision[],
    ledger_id bigint NOT NULL
);
ALTER TABLE public.sessions_app_failuretotals ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_failuretotals_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_logchunk (
    id bigint NOT NULL,
    session_id uuid NOT NULL,
    "offset" bigint NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE public.sessions_app_logchunk ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_logchunk_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_membership (
    id bigint NOT NULL,
    role character varying(16) NOT NULL,
    domain_id bigint,
    user_id integer NOT NULL,
    project_id bigint,
    CONSTRAINT membership_one_scope CHECK ((((domain_id IS NOT NULL) AND (project_id IS NULL)) OR ((domain_id IS NULL) AND (project_id IS NOT NULL)))),
    CONSTRAINT membership_role_fits_scope CHECK ((((role)::text = ANY ((ARRAY['viewer'::character varying, 'member'::character varying, 'maintainer'::character varying, 'domain_admin'::character varying])::text[])) AND ((NOT ((role)::text = 'domain_admin'::text)) OR (domain_id IS NOT NULL))))
);
ALTER TABLE public.sessions_app_membership ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_membership_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_preparedaction (
    id uuid NOT NULL,
    act character varying(16) NOT NULL,
    resources jsonb NOT NULL,
    query text NOT NULL,
    ids uuid[] NOT NULL,
    refused jsonb NOT NULL,
    changed jsonb NOT NULL,
    "position" integer NOT NULL,
    done integer NOT NULL,
    waiting integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    user_id integer NOT NULL,
    CONSTRAINT sessions_app_preparedaction_done_check CHECK ((done >= 0)),
    CONSTRAINT sessions_app_preparedaction_position_check CHECK (("position" >= 0)),
    CONSTRAINT sessions_app_preparedaction_waiting_check CHECK ((waiting >= 0))
);
CREATE TABLE public.sessions_app_priorityclass (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    value integer NOT NULL,
    preemptible boolean NOT NULL,
    may_preempt boolean NOT NULL,
    protected_for double precision NOT NULL,
    domains jsonb NOT NULL,
    projects jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT priority_class_protection CHECK ((protected_for >= (0.0)::double precision)),
    CONSTRAINT priority_class_value CHECK (((value >= '-1000'::integer) AND (value <= 1000)))
);
ALTER TABLE public.sessions_app_priorityclass ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_priorityclass_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_project (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    domain_id bigint NOT NULL,
    CONSTRAINT project_name_label CHECK (((name)::text ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'::text))
);
ALTER TABLE public.sessions_app_project ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_project_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_projectusage (
    id bigint NOT NULL,
    name character varying(140) NOT NULL,
    "limit" numeric(40,9),
    used numeric(40,9) NOT NULL,
    domain_id bigint,
    project_id bigint,
    CONSTRAINT usage_one_scope CHECK ((((domain_id IS NOT NULL) AND (project_id IS NULL)) OR ((domain_id IS NULL) AND (project_id IS NOT NULL))))
)
WITH (fillfactor='30');
ALTER TABLE public.sessions_app_projectusage ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_projectusage_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_queue (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    is_default boolean NOT NULL,
    priority_factor double precision NOT NULL,
    cordoned boolean NOT NULL,
    cordon_reason character varying(256) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    project_id bigint NOT NULL,
    retry_policies jsonb DEFAULT '[]'::jsonb NOT NULL,
    resource_limits jsonb DEFAULT '{}'::jsonb NOT NULL,
    breaker jsonb,
    retry_budget jsonb,
    time_limits jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT queue_factor_positive CHECK ((priority_factor > (0.0)::double precision)),
    CONSTRAINT queue_name_label CHECK (((name)::text ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'::text))
);
ALTER TABLE public.sessions_app_queue ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE UNLOGGED TABLE public.sessions_app_requestbudget (
    key bigint NOT NULL,
    available double precision NOT NULL,
    granted double precision NOT NULL,
    refilled_at timestamp with time zone NOT NULL
);
CREATE TABLE public.sessions_app_retryadvice (
    project_id bigint NOT NULL,
    computed_at timestamp with time zone NOT NULL,
    facts jsonb NOT NULL
);
CREATE TABLE public.sessions_app_retrybudgetminute (
    id bigint NOT NULL,
    scope character varying(40) NOT NULL,
    minute timestamp with time zone NOT NULL,
    first_attempts integer NOT NULL,
    retries integer NOT NULL,
    CONSTRAINT sessions_app_retrybudgetminute_first_attempts_check CHECK ((first_attempts >= 0)),
    CONSTRAINT sessions_app_retrybudgetminute_retries_check CHECK ((retries >= 0))
);
ALTER TABLE public.sessions_app_retrybudgetminute ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrybudgetminute_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retrybudgetstate (
    id bigint NOT NULL,
    scope character varying(40) NOT NULL,
    spent_since timestamp with time zone,
    judged_at timestamp with time zone NOT NULL,
    spent_times integer NOT NULL,
    CONSTRAINT sessions_app_retrybudgetstate_spent_times_check CHECK ((spent_times >= 0))
);
ALTER TABLE public.sessions_app_retrybudgetstate ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrybudgetstate_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.sessions_app_retrycharge ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrycharge_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retryday (
    id bigint NOT NULL,
    dimension character varying(12) NOT NULL,
    value character varying(512) NOT NULL,
    day date NOT NULL,
    chains bigint NOT NULL,
    retried bigint NOT NULL,
    recovered bigint NOT NULL,
    given_up bigint NOT NULL,
    cancelled bigint NOT NULL,
    attempts bigint NOT NULL,
    run double precision NOT NULL,
    rescued double precision NOT NULL,
    wasted double precision NOT NULL,
    waiting double precision NOT NULL,
    recoveries bigint[] NOT NULL,
    project_id bigint NOT NULL
);
ALTER TABLE public.sessions_app_retryday ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retryday_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retrydecision (
    session_id uuid NOT NULL,
    state character varying(12) NOT NULL,
    action character varying(8) NOT NULL,
    reason character varying(32) NOT NULL,
    cause character varying(32) NOT NULL,
    rule character varying(130) NOT NULL,
    paid_by character varying(130) NOT NULL,
    used integer,
    "limit" integer,
    delay double precision,
    due_at timestamp with time zone,
    avoid_node character varying(253) NOT NULL,
    avoid_executor character varying(63) NOT NULL,
    termination jsonb NOT NULL,
    policy_revisions jsonb NOT NULL,
    trace jsonb DEFAULT '[]'::jsonb NOT NULL,
    decided_at timestamp with time zone NOT NULL,
    next_session_id uuid,
    dispatched_at timestamp with time zone,
    dispatched_by character varying(150) NOT NULL,
    resources jsonb,
    paced boolean DEFAULT false NOT NULL,
    preempted_at timestamp with time zone,
    requested_by character varying(150) DEFAULT ''::character varying NOT NULL,
    project_id bigint,
    held_for character varying(16) DEFAULT ''::character varying NOT NULL,
    held_key character varying(130) DEFAULT ''::character varying NOT NULL,
    changes jsonb,
    held_order timestamp with time zone,
    CONSTRAINT decision_child_when_dispatched CHECK ((((next_session_id IS NOT NULL) AND ((state)::text = 'dispatched'::text)) OR ((NOT ((state)::text = 'dispatched'::text)) AND (next_session_id IS NULL)))),
    CONSTRAINT decision_scheduled_has_due CHECK (((NOT ((state)::text = 'scheduled'::text)) OR (due_at IS NOT NULL)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02', fillfactor='50');
CREATE TABLE public.sessions_app_retrydefaults (
    id bigint NOT NULL,
    policy jsonb NOT NULL,
    bounds jsonb NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    domain_id bigint,
    project_id bigint,
    CONSTRAINT retry_defaults_one_scope CHECK (((domain_id IS NULL) OR (project_id IS NULL)))
);
ALTER TABLE public.sessions_app_retrydefaults ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrydefaults_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.sessions_app_retrypolicy ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrypolicy_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retrypolicyrevision (
    id bigint NOT NULL,
    policy_id bigint NOT NULL,
    revision integer NOT NULL,
    document jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by character varying(150) NOT NULL,
    CONSTRAINT sessions_app_retrypolicyrevision_revision_check CHECK ((revision >= 0))
);
ALTER TABLE public.sessions_app_retrypolicyrevision ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrypolicyrevision_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retrysettings (
    id bigint NOT NULL,
    mode character varying(8) NOT NULL,
    global_max_retries integer,
    updated_at timestamp with time zone NOT NULL,
    domain_id bigint,
    project_id bigint,
    default_policy character varying(63) DEFAULT ''::character varying NOT NULL,
    retries_per_minute integer,
    queue_retries_per_minute integer,
    refuse_unfittable boolean,
    breaker jsonb,
    retry_budget jsonb,
    global_unlimited boolean,
    pod_defaults jsonb,
    CONSTRAINT retry_settings_limit_is_the_clusters CHECK (((global_max_retries IS NULL) OR ((domain_id IS NULL) AND (project_id IS NULL)))),
    CONSTRAINT retry_settings_one_scope CHECK (((domain_id IS NULL) OR (project_id IS NULL))),
    CONSTRAINT sessions_app_retrysettings_global_max_retries_check CHECK ((global_max_retries >= 0)),
    CONSTRAINT sessions_app_retrysettings_queue_retries_per_minute_check CHECK ((queue_retries_per_minute >= 0)),
    CONSTRAINT sessions_app_retrysettings_retries_per_minute_check CHECK ((retries_per_minute >= 0))
);
ALTER TABLE public.sessions_app_retrysettings ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retrysettings_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retryslots (
    id bigint NOT NULL,
    queue_id bigint,
    minute timestamp with time zone NOT NULL,
    taken integer NOT NULL,
    CONSTRAINT sessions_app_retryslots_taken_check CHECK ((taken >= 0))
);
ALTER TABLE public.sessions_app_retryslots ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_retryslots_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_retrytrace (
    session_id uuid NOT NULL,
    steps jsonb NOT NULL
);
CREATE TABLE public.sessions_app_savedsearch (
    id bigint NOT NULL,
    name character varying(60) NOT NULL,
    query character varying(2000) NOT NULL,
    user_id integer NOT NULL
);
ALTER TABLE public.sessions_app_savedsearch ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_savedsearch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_schedule (
    id uuid NOT NULL,
    name character varying(63) NOT NULL,
    queue character varying(63) NOT NULL,
    cron character varying(100) NOT NULL,
    time_zone character varying(64) NOT NULL,
    every integer,
    template jsonb NOT NULL,
    overlap character varying(16) NOT NULL,
    catch_up integer NOT NULL,
    jitter integer NOT NULL,
    starts_at timestamp with time zone,
    until timestamp with time zone,
    pause_after smallint,
    paused_at timestamp with time zone,
    paused_reason character varying(300) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    next_at timestamp with time zone,
    due_at timestamp with time zone,
    last_at timestamp with time zone,
    last_problem character varying(300) NOT NULL,
    recent uuid[] NOT NULL,
    judged_from timestamp with time zone NOT NULL,
    by_hand integer NOT NULL,
    owner_id integer,
    project_id bigint NOT NULL,
    CONSTRAINT schedule_cron_or_every CHECK ((((NOT ((cron)::text = ''::text)) AND (every IS NULL)) OR (((cron)::text = ''::text) AND (every > 0)))),
    CONSTRAINT schedule_due_has_time CHECK ((((due_at IS NULL) AND (next_at IS NULL)) OR ((due_at IS NOT NULL) AND (next_at IS NOT NULL)))),
    CONSTRAINT schedule_name_label CHECK (((name)::text ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'::text)),
    CONSTRAINT sessions_app_schedule_by_hand_check CHECK ((by_hand >= 0)),
    CONSTRAINT sessions_app_schedule_catch_up_check CHECK ((catch_up >= 0)),
    CONSTRAINT sessions_app_schedule_every_check CHECK ((every >= 0)),
    CONSTRAINT sessions_app_schedule_jitter_check CHECK ((jitter >= 0)),
    CONSTRAINT sessions_app_schedule_pause_after_check CHECK ((pause_after >= 0))
);
CREATE TABLE public.sessions_app_session (
    id uuid NOT NULL,
    name character varying(128) NOT NULL,
    job_set character varying(128) NOT NULL,
    creation_id character varying(255) NOT NULL,
    session_type character varying(12) NOT NULL,
    priority integer NOT NULL,
    status character varying(12) NOT NULL,
    phase character varying(8) NOT NULL,
    status_message character varying(1024) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    scheduled_at timestamp with time zone,
    accepted_at timestamp with time zone,
    started_at timestamp with time zone,
    terminating_at timestamp with time zone,
    finished_at timestamp with time zone,
    exit_code integer,
    node character varying(253) NOT NULL,
    executor character varying(63) NOT NULL,
    root_submitted_at timestamp with time zone NOT NULL,
    tip boolean NOT NULL,
    retry_count integer NOT NULL,
    max_retries integer NOT NULL,
    retry_policy jsonb NOT NULL,
    retry_policies jsonb NOT NULL,
    retry_counters jsonb NOT NULL,
    retry_cause character varying(32) NOT NULL,
    failure_category character varying(63) NOT NULL,
    retry_state character varying(12) NOT NULL,
    cancel_requested_at timestamp with time zone,
    not_before timestamp with time zone,
    avoid_node character varying(253) NOT NULL,
    avoid_executors jsonb NOT NULL,
    lease_returns smallint NOT NULL,
    fencing_token bigint,
    report_seq integer NOT NULL,
    event_seq integer NOT NULL,
    owner_id integer,
    parent_id uuid,
    project_id bigint NOT NULL,
    queue_id bigint NOT NULL,
    root_id uuid NOT NULL,
    spec_id uuid NOT NULL,
    scheduling_key bigint,
    preempt_requested_at timestamp with time zone,
    start_failure jsonb,
    resting character varying(12) DEFAULT ''::character varying NOT NULL,
    failure_signature character varying(12) DEFAULT ''::character varying NOT NULL,
    placement_refusals smallint,
    failure_title character varying(200) DEFAULT ''::character varying NOT NULL,
    changes jsonb,
    progress jsonb,
    chain_progress jsonb,
    retry_marks jsonb,
    gave_way_to uuid,
    wait_deadline timestamp with time zone,
    CONSTRAINT session_finished_when_final CHECK ((((finished_at IS NOT NULL) AND ((phase)::text = 'final'::text)) OR ((NOT ((phase)::text = 'final'::text)) AND (finished_at IS NULL)))),
    CONSTRAINT session_phase_of_status CHECK (((((phase)::text = ANY ((ARRAY['blocked'::character varying, 'waiting'::character varying])::text[])) AND ((status)::text = 'PENDING'::text)) OR (((phase)::text = 'live'::text) AND ((status)::text = ANY ((ARRAY['SCHEDULED'::character varying, 'PREPARING'::character varying, 'PULLING'::character varying, 'PREPARED'::character varying, 'CREATING'::character varying, 'RUNNING'::character varying, 'TERMINATING'::character varying])::text[]))) OR (((phase)::text = 'final'::text) AND ((status)::text = ANY ((ARRAY['CANCELLED'::character varying, 'ERROR'::character varying, 'TERMINATED'::character varying])::text[]))))),
    CONSTRAINT session_root_has_no_parent CHECK ((((parent_id IS NULL) AND (retry_count = 0) AND (root_id = id)) OR ((parent_id IS NOT NULL) AND (retry_count > 0)))),
    CONSTRAINT sessions_app_session_lease_returns_check CHECK ((lease_returns >= 0)),
    CONSTRAINT sessions_app_session_max_retries_check CHECK ((max_retries >= 0)),
    CONSTRAINT sessions_app_session_placement_refusals_check CHECK ((placement_refusals >= 0)),
    CONSTRAINT sessions_app_session_retry_count_check CHECK ((retry_count >= 0))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02', fillfactor='50');
CREATE TABLE public.sessions_app_sessionevent (
    id bigint NOT NULL,
    session_id uuid NOT NULL,
    root_id uuid NOT NULL,
    job_set character varying(128) NOT NULL,
    attempt integer NOT NULL,
    seq integer NOT NULL,
    type character varying(40) NOT NULL,
    "time" timestamp with time zone NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    data jsonb NOT NULL,
    project_id bigint NOT NULL,
    epoch bigint DEFAULT public.reprise_epoch() NOT NULL,
    CONSTRAINT sessions_app_sessionevent_attempt_check CHECK ((attempt >= 0))
);
ALTER TABLE public.sessions_app_sessionevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_sessionevent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_sessionspec (
    id uuid NOT NULL,
    image character varying(512) NOT NULL,
    command jsonb NOT NULL,
    environ jsonb NOT NULL,
    resources jsonb NOT NULL,
    mounts jsonb NOT NULL,
    ports jsonb NOT NULL,
    labels jsonb NOT NULL,
    pod_spec jsonb,
    cluster_size integer NOT NULL,
    batch_timeout double precision,
    scheduling_timeout double precision,
    termination_grace_period double precision NOT NULL,
    request_digest character varying(64) NOT NULL,
    secret_environ text,
    secret_names jsonb,
    on_dependency_failure character varying(8),
    queue_timeout double precision,
    executor_labels jsonb,
    secrets_by integer,
    CONSTRAINT sessions_app_sessionspec_cluster_size_check CHECK ((cluster_size >= 0))
);
CREATE TABLE public.sessions_app_webhookdelivery (
    id bigint NOT NULL,
    event_id bigint,
    session_id uuid,
    type character varying(40) NOT NULL,
    state character varying(12) NOT NULL,
    attempts smallint NOT NULL,
    due_at timestamp with time zone,
    claim uuid,
    redelivery boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    attempted_at timestamp with time zone,
    finished_at timestamp with time zone,
    response_code smallint,
    response_excerpt text NOT NULL,
    error character varying(300) NOT NULL,
    latency_ms integer,
    endpoint_id uuid NOT NULL,
    data jsonb,
    CONSTRAINT sessions_app_webhookdelivery_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT sessions_app_webhookdelivery_latency_ms_check CHECK ((latency_ms >= 0)),
    CONSTRAINT sessions_app_webhookdelivery_response_code_check CHECK ((response_code >= 0)),
    CONSTRAINT webhook_finished_at CHECK ((((finished_at IS NULL) AND ((state)::text = 'waiting'::text)) OR ((NOT ((state)::text = 'waiting'::text)) AND (claim IS NULL) AND (due_at IS NULL) AND (finished_at IS NOT NULL))))
);
ALTER TABLE public.sessions_app_webhookdelivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_webhookdelivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_webhookendpoint (
    epoch bigint,
    xid xid8,
    event_id bigint,
    id uuid NOT NULL,
    url character varying(2000) NOT NULL,
    host character varying(300) NOT NULL,
    description character varying(300) NOT NULL,
    event_types character varying(64)[] NOT NULL,
    secret character varying(300) NOT NULL,
    previous_secret character varying(300) NOT NULL,
    previous_secret_until timestamp with time zone,
    created_by character varying(150) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    paused_at timestamp with time zone,
    paused_reason character varying(300) NOT NULL,
    failures integer NOT NULL,
    failing_since timestamp with time zone,
    project_id bigint NOT NULL,
    CONSTRAINT sessions_app_webhookendpoint_failures_check CHECK ((failures >= 0)),
    CONSTRAINT webhook_paused_for_a_reason CHECK ((((paused_at IS NULL) AND ((paused_reason)::text = ''::text)) OR ((paused_at IS NOT NULL) AND (NOT ((paused_reason)::text = ''::text)))))
);
CREATE TABLE public.sessions_app_webhookreader (
    id bigint NOT NULL,
    epoch bigint,
    xid xid8,
    event_id bigint
);
ALTER TABLE public.sessions_app_webhookreader ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.sessions_app_webhookreader_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sessions_app_webhooksender (
    number smallint NOT NULL,
    token uuid NOT NULL,
    until timestamp with time zone NOT NULL
);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq UNIQUE (username, ip_address, user_agent);
ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptexpiration_pkey PRIMARY KEY (access_attempt_id);
ALTER TABLE ONLY public.axes_accessfailurelog
    ADD CONSTRAINT axes_accessfailurelog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.axes_accesslog
    ADD CONSTRAINT axes_accesslog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_clockedschedule
    ADD CONSTRAINT django_celery_beat_clockedschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_crontabschedule
    ADD CONSTRAINT django_celery_beat_crontabschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_intervalschedule
    ADD CONSTRAINT django_celery_beat_intervalschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_periodictask_name_key UNIQUE (name);
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_periodictask_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_celery_beat_periodictasks
    ADD CONSTRAINT django_celery_beat_periodictasks_pkey PRIMARY KEY (ident);
ALTER TABLE ONLY public.django_celery_beat_solarschedule
    ADD CONSTRAINT django_celery_beat_solar_event_latitude_longitude_ba64999a_uniq UNIQUE (event, latitude, longitude);
ALTER TABLE ONLY public.django_celery_beat_solarschedule
    ADD CONSTRAINT django_celery_beat_solarschedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE ONLY public.sessions_app_failureday
    ADD CONSTRAINT failure_day_unique UNIQUE (project_id, dimension, value, day, key);
ALTER TABLE ONLY public.sessions_app_failurehour
    ADD CONSTRAINT failure_hour_unique UNIQUE (project_id, dimension, value, hour, key);
ALTER TABLE ONLY public.sessions_app_failuretotals
    ADD CONSTRAINT failure_totals_unique UNIQUE (ledger_id, hour);
ALTER TABLE ONLY public.reprise_eventcount
    ADD CONSTRAINT reprise_eventcount_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.reprise_eventcursor
    ADD CONSTRAINT reprise_eventcursor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.reprise_heartbeat
    ADD CONSTRAINT reprise_heartbeat_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.reprise_hourcount
    ADD CONSTRAINT reprise_hourcount_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.reprise_knownserver
    ADD CONSTRAINT reprise_knownserver_pkey PRIMARY KEY (only_row);
ALTER TABLE ONLY public.reprise_parkedtask
    ADD CONSTRAINT reprise_parkedtask_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.reprise_parkedtask
    ADD CONSTRAINT reprise_parkedtask_task_id_key UNIQUE (task_id);
ALTER TABLE ONLY public.reprise_periodicrun
    ADD CONSTRAINT reprise_periodicrun_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.reprise_sweepstart
    ADD CONSTRAINT reprise_sweepstart_pkey PRIMARY KEY (task);
ALTER TABLE ONLY public.sessions_app_retryday
    ADD CONSTRAINT retry_day_unique UNIQUE (project_id, dimension, day, value);
ALTER TABLE public.sessions_app_retrysettings
    ADD CONSTRAINT retry_settings_policy_is_the_clusters CHECK (((((default_policy)::text = ''::text) AND (queue_retries_per_minute IS NULL) AND (retries_per_minute IS NULL)) OR ((domain_id IS NULL) AND (project_id IS NULL)))) NOT VALID;
ALTER TABLE ONLY public.scheduler_executor
    ADD CONSTRAINT scheduler_executor_name_key UNIQUE (name);
ALTER TABLE ONLY public.scheduler_executor
    ADD CONSTRAINT scheduler_executor_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_executor_projects
    ADD CONSTRAINT scheduler_executor_proje_executor_id_project_id_07623206_uniq UNIQUE (executor_id, project_id);
ALTER TABLE ONLY public.scheduler_executor_projects
    ADD CONSTRAINT scheduler_executor_projects_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_lease
    ADD CONSTRAINT scheduler_lease_pkey PRIMARY KEY (session_id);
ALTER TABLE ONLY public.scheduler_node
    ADD CONSTRAINT scheduler_node_address_key UNIQUE (address);
ALTER TABLE ONLY public.scheduler_node
    ADD CONSTRAINT scheduler_node_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_nodeattempt
    ADD CONSTRAINT scheduler_nodeattempt_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_nodereader
    ADD CONSTRAINT scheduler_nodereader_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_pool
    ADD CONSTRAINT scheduler_pool_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_preemption
    ADD CONSTRAINT scheduler_preemption_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.scheduler_queuebelow
    ADD CONSTRAINT scheduler_queuebelow_pkey PRIMARY KEY (queue_id);
ALTER TABLE ONLY public.scheduler_queueusage
    ADD CONSTRAINT scheduler_queueusage_pkey PRIMARY KEY (queue_id);
ALTER TABLE ONLY public.scheduler_reservation
    ADD CONSTRAINT scheduler_reservation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_apitoken
    ADD CONSTRAINT sessions_app_apitoken_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.sessions_app_apitoken
    ADD CONSTRAINT sessions_app_apitoken_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_auditentry
    ADD CONSTRAINT sessions_app_auditentry_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_automaticdispatch
    ADD CONSTRAINT sessions_app_automaticdispatch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_breaker
    ADD CONSTRAINT sessions_app_breaker_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_breakerfailure
    ADD CONSTRAINT sessions_app_breakerfailure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_configversion
    ADD CONSTRAINT sessions_app_configversion_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_dependency
    ADD CONSTRAINT sessions_app_dependency_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_domain
    ADD CONSTRAINT sessions_app_domain_name_key UNIQUE (name);
ALTER TABLE ONLY public.sessions_app_domain
    ADD CONSTRAINT sessions_app_domain_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failurecategory
    ADD CONSTRAINT sessions_app_failurecategory_name_key UNIQUE (name);
ALTER TABLE ONLY public.sessions_app_failurecategory
    ADD CONSTRAINT sessions_app_failurecategory_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failureday
    ADD CONSTRAINT sessions_app_failureday_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failurehour
    ADD CONSTRAINT sessions_app_failurehour_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failureledger
    ADD CONSTRAINT sessions_app_failureledger_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failurereader
    ADD CONSTRAINT sessions_app_failurereader_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failuresignature
    ADD CONSTRAINT sessions_app_failuresignature_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_failuretotals
    ADD CONSTRAINT sessions_app_failuretotals_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_logchunk
    ADD CONSTRAINT sessions_app_logchunk_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_membership
    ADD CONSTRAINT sessions_app_membership_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_preparedaction
    ADD CONSTRAINT sessions_app_preparedaction_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_priorityclass
    ADD CONSTRAINT sessions_app_priorityclass_name_key UNIQUE (name);
ALTER TABLE ONLY public.sessions_app_priorityclass
    ADD CONSTRAINT sessions_app_priorityclass_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_priorityclass
    ADD CONSTRAINT sessions_app_priorityclass_value_key UNIQUE (value);
ALTER TABLE ONLY public.sessions_app_project
    ADD CONSTRAINT sessions_app_project_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_projectusage
    ADD CONSTRAINT sessions_app_projectusage_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_queue
    ADD CONSTRAINT sessions_app_queue_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_requestbudget
    ADD CONSTRAINT sessions_app_requestbudget_pkey PRIMARY KEY (key);
ALTER TABLE ONLY public.sessions_app_retryadvice
    ADD CONSTRAINT sessions_app_retryadvice_pkey PRIMARY KEY (project_id);
ALTER TABLE ONLY public.sessions_app_retrybudgetminute
    ADD CONSTRAINT sessions_app_retrybudgetminute_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrybudgetstate
    ADD CONSTRAINT sessions_app_retrybudgetstate_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrybudgetstate
    ADD CONSTRAINT sessions_app_retrybudgetstate_scope_key UNIQUE (scope);
ALTER TABLE ONLY public.sessions_app_retrycharge
    ADD CONSTRAINT sessions_app_retrycharge_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retryday
    ADD CONSTRAINT sessions_app_retryday_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrydecision
    ADD CONSTRAINT sessions_app_retrydecision_pkey PRIMARY KEY (session_id);
ALTER TABLE ONLY public.sessions_app_retrydefaults
    ADD CONSTRAINT sessions_app_retrydefaults_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrypolicy
    ADD CONSTRAINT sessions_app_retrypolicy_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrypolicyrevision
    ADD CONSTRAINT sessions_app_retrypolicyrevision_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrysettings
    ADD CONSTRAINT sessions_app_retrysettings_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retryslots
    ADD CONSTRAINT sessions_app_retryslots_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_retrytrace
    ADD CONSTRAINT sessions_app_retrytrace_pkey PRIMARY KEY (session_id);
ALTER TABLE ONLY public.sessions_app_savedsearch
    ADD CONSTRAINT sessions_app_savedsearch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_schedule
    ADD CONSTRAINT sessions_app_schedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_session
    ADD CONSTRAINT sessions_app_session_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_sessionevent
    ADD CONSTRAINT sessions_app_sessionevent_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_sessionspec
    ADD CONSTRAINT sessions_app_sessionspec_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_webhookdelivery
    ADD CONSTRAINT sessions_app_webhookdelivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_webhookendpoint
    ADD CONSTRAINT sessions_app_webhookendpoint_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_webhookreader
    ADD CONSTRAINT sessions_app_webhookreader_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sessions_app_webhooksender
    ADD CONSTRAINT sessions_app_webhooksender_pkey PRIMARY KEY (number);
CREATE INDEX audit_action ON public.sessions_app_auditentry USING btree (action, "time", id) WHERE (NOT ((action)::text = 'retry.dispatch'::text));
CREATE INDEX audit_actor ON public.sessions_app_auditentry USING btree (actor, "time", id) WHERE (NOT ((actor)::text = 'reprise'::text));
CREATE INDEX audit_chain ON public.sessions_app_auditentry USING btree (root) WHERE (root IS NOT NULL);
CREATE INDEX audit_domain ON public.sessions_app_auditentry USING btree (domain, "time", id);
CREATE INDEX audit_domain_people ON public.sessions_app_auditentry USING btree (domain, "time", id) WHERE (NOT ((actor)::text = 'reprise'::text));
CREATE INDEX audit_door ON public.sessions_app_auditentry USING btree (door, "time", id) WHERE (NOT ((actor)::text = 'reprise'::text));
CREATE INDEX audit_newest ON public.sessions_app_auditentry USING btree ("time", id);
CREATE INDEX audit_object ON public.sessions_app_auditentry USING btree (object_type, object_id, id);
CREATE INDEX audit_of_people ON public.sessions_app_auditentry USING btree ("time", id) WHERE (NOT ((actor)::text = 'reprise'::text));
CREATE INDEX audit_project ON public.sessions_app_auditentry USING btree (project, "time", id);
CREATE INDEX audit_project_people ON public.sessions_app_auditentry USING btree (project, "time", id) WHERE (NOT ((actor)::text = 'reprise'::text));
CREATE INDEX audit_type ON public.sessions_app_auditentry USING btree (object_type, "time", id) WHERE (NOT ((object_type)::text = 'session'::text));
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accessattempt_ip_address_10922d9c ON public.axes_accessattempt USING btree (ip_address);
CREATE INDEX axes_accessattempt_user_agent_ad89678b ON public.axes_accessattempt USING btree (user_agent);
CREATE INDEX axes_accessattempt_user_agent_ad89678b_like ON public.axes_accessattempt USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessattempt_username_3f2d4ca0 ON public.axes_accessattempt USING btree (username);
CREATE INDEX axes_accessattempt_username_3f2d4ca0_like ON public.axes_accessattempt USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_ip_address_2e9f5a7f ON public.axes_accessfailurelog USING btree (ip_address);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda ON public.axes_accessfailurelog USING btree (user_agent);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda_like ON public.axes_accessfailurelog USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4 ON public.axes_accessfailurelog USING btree (username);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4_like ON public.axes_accessfailurelog USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accesslog_ip_address_86b417e5 ON public.axes_accesslog USING btree (ip_address);
CREATE INDEX axes_accesslog_user_agent_0e659004 ON public.axes_accesslog USING btree (user_agent);
CREATE INDEX axes_accesslog_user_agent_0e659004_like ON public.axes_accesslog USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accesslog_username_df93064b ON public.axes_accesslog USING btree (username);
CREATE INDEX axes_accesslog_username_df93064b_like ON public.axes_accesslog USING btree (username varchar_pattern_ops);
CREATE INDEX breaker_failure_old ON public.sessions_app_breakerfailure USING btree (failed_at);
CREATE UNIQUE INDEX breaker_failure_unique ON public.sessions_app_breakerfailure USING btree (signature, root_id);
CREATE UNIQUE INDEX breaker_one_a_scope ON public.sessions_app_breaker USING btree (scope, signature);
CREATE INDEX breaker_open ON public.sessions_app_breaker USING btree (project_id) WHERE ((state)::text = 'open'::text);
CREATE INDEX decision_breaker ON public.sessions_app_retrydecision USING btree (held_key, due_at, session_id) WHERE (((held_for)::text = 'breaker'::text) AND ((state)::text = 'held'::text));
CREATE INDEX decision_due ON public.sessions_app_retrydecision USING btree (due_at, session_id) WHERE ((state)::text = 'scheduled'::text);
CREATE INDEX decision_over_budget ON public.sessions_app_retrydecision USING btree (held_key, held_order, session_id) WHERE (((held_for)::text = 'shared_budget'::text) AND ((state)::text = 'held'::text));
CREATE INDEX decision_paced ON public.sessions_app_retrydecision USING btree (due_at) WHERE (paced AND ((state)::text = 'scheduled'::text));
CREATE INDEX decision_parked ON public.sessions_app_retrydecision USING btree (due_at, session_id) WHERE (((held_for)::text = 'parked'::text) AND ((state)::text = 'held'::text));
CREATE INDEX decision_scheduled ON public.sessions_app_retrydecision USING btree (project_id, session_id NULLS FIRST) WHERE ((state)::text = 'scheduled'::text);
CREATE INDEX decision_secrets ON public.sessions_app_retrydecision USING btree (session_id) WHERE (changes ? 'secrets'::text);
CREATE INDEX decision_switched ON public.sessions_app_retrydecision USING btree (project_id, session_id) WHERE (((held_for)::text = ANY ((ARRAY[''::character varying, 'switch'::character varying])::text[])) AND ((state)::text = 'held'::text));
CREATE INDEX decision_switched_by_hand ON public.sessions_app_retrydecision USING btree (project_id, session_id) WHERE (((held_for)::text = ANY ((ARRAY[''::character varying, 'switch'::character varying])::text[])) AND ((state)::text = 'held'::text) AND (NOT ((requested_by)::text = ''::text)));
CREATE INDEX dependency_of ON public.sessions_app_dependency USING btree (on_root, root_id);
CREATE INDEX dependency_open ON public.sessions_app_dependency USING btree (on_root, root_id) WHERE ((outcome)::text = ''::text);
CREATE UNIQUE INDEX dependency_unique ON public.sessions_app_dependency USING btree (root_id, on_root);
CREATE INDEX dispatch_chain ON public.sessions_app_automaticdispatch USING btree (root);
CREATE INDEX dispatch_domain ON public.sessions_app_automaticdispatch USING btree (domain, "time", id);
CREATE INDEX dispatch_newest ON public.sessions_app_automaticdispatch USING btree ("time", id);
CREATE INDEX dispatch_object ON public.sessions_app_automaticdispatch USING btree (object_id);
CREATE INDEX dispatch_project ON public.sessions_app_automaticdispatch USING btree (project, "time", id);
CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);
CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);
CREATE INDEX django_celery_beat_periodictask_clocked_id_47a69f82 ON public.django_celery_beat_periodictask USING btree (clocked_id);
CREATE INDEX django_celery_beat_periodictask_crontab_id_d3cba168 ON public.django_celery_beat_periodictask USING btree (crontab_id);
CREATE INDEX django_celery_beat_periodictask_interval_id_a8ca27da ON public.django_celery_beat_periodictask USING btree (interval_id);
CREATE INDEX django_celery_beat_periodictask_name_265a36b7_like ON public.django_celery_beat_periodictask USING btree (name varchar_pattern_ops);
CREATE INDEX django_celery_beat_periodictask_solar_id_a87ce72c ON public.django_celery_beat_periodictask USING btree (solar_id);
CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);
CREATE INDEX event_archived ON public.sessions_app_sessionevent USING btree ("time") WHERE ((attempt = 0) AND ((type)::text = 'session.archived'::text));
CREATE INDEX event_archived_named ON public.sessions_app_sessionevent USING btree (project_id, ((data #>> '{archive,session,creation_id}'::text[]))) WHERE ((type)::text = 'session.archived'::text);
CREATE UNIQUE INDEX event_count_one_a_series ON public.reprise_eventcount USING btree (metric, labels);
CREATE INDEX event_job_set ON public.sessions_app_sessionevent USING btree (project_id, job_set, epoch, xid, id) WHERE (NOT ((job_set)::text = ''::text));
CREATE UNIQUE INDEX event_seq_unique ON public.sessions_app_sessionevent USING btree (session_id, seq);
CREATE INDEX event_xid ON public.sessions_app_sessionevent USING btree (xid);
CREATE INDEX failure_day_of_key ON public.sessions_app_failureday USING btree (project_id, key, dimension, day);
CREATE INDEX failure_day_old ON public.sessions_app_failureday USING btree (day);
CREATE INDEX failure_day_without_hours ON public.sessions_app_failureday USING btree (day) WHERE (hours IS NULL);
CREATE INDEX failure_hour_of_key ON public.sessions_app_failurehour USING btree (project_id, key, dimension, hour);
CREATE INDEX failure_hour_old ON public.sessions_app_failurehour USING btree (hour);
CREATE INDEX failure_last_seen ON public.sessions_app_failuresignature USING btree (last_seen);
CREATE INDEX failure_ledger_of ON public.sessions_app_failureledger USING btree (project_id, dimension, value, key, id);
CREATE INDEX failure_muted ON public.sessions_app_failuresignature USING btree (key) WHERE muted;
CREATE UNIQUE INDEX failure_signature_unique ON public.sessions_app_failuresignature USING btree (project_id, key);
CREATE INDEX failure_totals_old ON public.sessions_app_failuretotals USING btree (hour);
CREATE UNIQUE INDEX heartbeat_one_a_process ON public.reprise_heartbeat USING btree (part, name);
CREATE UNIQUE INDEX hour_count_one_a_kind ON public.reprise_hourcount USING btree (hour, type, cause);
CREATE UNIQUE INDEX lease_of_executor ON public.scheduler_lease USING btree (executor_id, fencing_token);
CREATE INDEX lease_verify ON public.scheduler_lease USING btree (verify_at) WHERE (verify_at IS NOT NULL);
CREATE UNIQUE INDEX log_chunk_offset_unique ON public.sessions_app_logchunk USING btree (session_id, "offset");
CREATE UNIQUE INDEX membership_unique ON public.sessions_app_membership USING btree (user_id, domain_id, project_id) NULLS NOT DISTINCT;
CREATE INDEX node_attempt_newest ON public.scheduler_nodeattempt USING btree (node_id, id);
CREATE UNIQUE INDEX node_of_executor ON public.scheduler_node USING btree (executor_id, name);
CREATE INDEX node_out ON public.scheduler_node USING btree (executor_id) WHERE ((suspected_until IS NOT NULL) OR (quarantined_at IS NOT NULL));
CREATE INDEX parked_waiting ON public.reprise_parkedtask USING btree (parked_at) WHERE ((state)::text = 'parked'::text);
CREATE INDEX preemption_newest ON public.scheduler_preemption USING btree (planned_at, id);
CREATE INDEX preemption_taker ON public.scheduler_preemption USING btree (taker_id);
CREATE UNIQUE INDEX project_name_unique ON public.sessions_app_project USING btree (domain_id, name);
CREATE UNIQUE INDEX queue_name_unique ON public.sessions_app_queue USING btree (project_id, name);
CREATE UNIQUE INDEX queue_one_default ON public.sessions_app_queue USING btree (project_id) WHERE is_default;
CREATE INDEX queue_with_retry_budget ON public.sessions_app_queue USING btree (project_id) WHERE (retry_budget IS NOT NULL);
CREATE INDEX reprise_parkedtask_task_id_ba749f91_like ON public.reprise_parkedtask USING btree (task_id varchar_pattern_ops);
CREATE INDEX reprise_periodicrun_name_e7787499_like ON public.reprise_periodicrun USING btree (name varchar_pattern_ops);
CREATE INDEX reprise_sweepstart_task_e02ea81a_like ON public.reprise_sweepstart USING btree (task varchar_pattern_ops);
CREATE UNIQUE INDEX reservation_one_a_session ON public.scheduler_reservation USING btree (executor_id, session_id);
CREATE UNIQUE INDEX retry_budget_one_a_minute ON public.sessions_app_retrybudgetminute USING btree (scope, minute);
CREATE INDEX retry_day_old ON public.sessions_app_retryday USING btree (day);
CREATE UNIQUE INDEX retry_defaults_one_a_scope ON public.sessions_app_retrydefaults USING btree (domain_id, project_id) NULLS NOT DISTINCT;
CREATE INDEX retry_policy_by_name ON public.sessions_app_retrypolicy USING btree (name);
CREATE UNIQUE INDEX retry_policy_name_unique ON public.sessions_app_retrypolicy USING btree (domain_id, project_id, name) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX retry_policy_revision_unique ON public.sessions_app_retrypolicyrevision USING btree (policy_id, revision);
CREATE UNIQUE INDEX retry_settings_one_a_scope ON public.sessions_app_retrysettings USING btree (domain_id, project_id) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX retry_slots_one_a_minute ON public.sessions_app_retryslots USING btree (queue_id, minute) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX saved_search_name_unique ON public.sessions_app_savedsearch USING btree (user_id, name);
CREATE INDEX schedule_due ON public.sessions_app_schedule USING btree (due_at) WHERE ((due_at IS NOT NULL) AND (paused_at IS NULL));
CREATE UNIQUE INDEX schedule_name_unique ON public.sessions_app_schedule USING btree (project_id, name);
CREATE INDEX scheduler_executor_name_842018be_like ON public.scheduler_executor USING btree (name varchar_pattern_ops);
CREATE INDEX scheduler_executor_projects_executor_id_066df49b ON public.scheduler_executor_projects USING btree (executor_id);
CREATE INDEX scheduler_executor_projects_project_id_05474149 ON public.scheduler_executor_projects USING btree (project_id);
CREATE INDEX scheduler_node_address_50bec5fc_like ON public.scheduler_node USING btree (address varchar_pattern_ops);
CREATE INDEX scheduler_reservation_executor_id_c2c6200d ON public.scheduler_reservation USING btree (executor_id);
CREATE INDEX scheduler_reservation_session_id_e2e4eff2 ON public.scheduler_reservation USING btree (session_id);
CREATE UNIQUE INDEX session_attempt_unique ON public.sessions_app_session USING btree (root_id, retry_count);
CREATE INDEX session_blocked ON public.sessions_app_session USING btree (project_id, id NULLS FIRST) WHERE ((phase)::text = 'blocked'::text);
CREATE INDEX session_by_category ON public.sessions_app_session USING btree (project_id, failure_category, id NULLS FIRST) WHERE (NOT ((failure_category)::text = ''::text));
CREATE INDEX session_by_cause ON public.sessions_app_session USING btree (project_id, retry_cause, id NULLS FIRST) WHERE ((phase)::text = 'final'::text);
CREATE INDEX session_by_job_set ON public.sessions_app_session USING btree (project_id, job_set, id NULLS FIRST) WHERE (NOT ((job_set)::text = ''::text));
CREATE INDEX session_by_node ON public.sessions_app_session USING btree (project_id, node, id NULLS FIRST) WHERE (NOT ((node)::text = ''::text));
CREATE INDEX session_by_owner ON public.sessions_app_session USING btree (owner_id, project_id, id NULLS FIRST);
CREATE INDEX session_by_queue ON public.sessions_app_session USING btree (queue_id, id NULLS FIRST);
CREATE INDEX session_by_type ON public.sessions_app_session USING btree (project_id, session_type, id NULLS FIRST) WHERE (NOT ((session_type)::text = 'batch'::text));
CREATE INDEX session_chain_ended ON public.sessions_app_session USING btree (finished_at) WHERE ((resting)::text = ANY ((ARRAY['succeeded'::character varying, 'exhausted'::character varying, 'not_retried'::character varying, 'cancelled'::character varying])::text[]));
CREATE UNIQUE INDEX session_creation_id_unique ON public.sessions_app_session USING btree (project_id, creation_id);
CREATE INDEX session_executor_ended ON public.sessions_app_session USING btree (project_id, executor, id NULLS FIRST) WHERE (((phase)::text = 'final'::text) AND (NOT ((executor)::text = ''::text)));
CREATE INDEX session_exits ON public.sessions_app_session USING btree (project_id, exit_code, id NULLS FIRST) WHERE ((exit_code IS NOT NULL) AND (NOT ((exit_code = 0) AND (exit_code IS NOT NULL) AND ((retry_cause)::text = ''::text))));
CREATE INDEX session_failures ON public.sessions_app_session USING btree (project_id, id NULLS FIRST) WHERE (((phase)::text = 'final'::text) AND (NOT ((retry_cause)::text = ANY ((ARRAY[''::character varying, 'user_cancelled'::character varying])::text[]))));
CREATE INDEX session_in_line ON public.sessions_app_session USING btree (queue_id, scheduling_key, priority DESC, root_submitted_at, root_id) WHERE ((phase)::text = 'waiting'::text);
CREATE INDEX session_live ON public.sessions_app_session USING btree (project_id, id NULLS FIRST) WHERE ((phase)::text = 'live'::text);
CREATE INDEX session_name ON public.sessions_app_session USING btree (project_id, name varchar_pattern_ops) WHERE (NOT ((name)::text = ''::text));
CREATE INDEX session_on_hold ON public.sessions_app_session USING btree (project_id, id) WHERE ((resting)::text = 'held'::text);
CREATE UNIQUE INDEX session_one_unfinished ON public.sessions_app_session USING btree (root_id) WHERE ((phase)::text = ANY ((ARRAY['blocked'::character varying, 'waiting'::character varying, 'live'::character varying])::text[]));
CREATE INDEX session_rests ON public.sessions_app_session USING btree (project_id, resting, id NULLS FIRST) WHERE ((NOT ((resting)::text = ''::text)) AND (NOT (((resting)::text = 'succeeded'::text) AND ((retry_cause)::text = ''::text))));
CREATE INDEX session_signature ON public.sessions_app_session USING btree (project_id, failure_signature, id NULLS FIRST) WHERE (NOT ((failure_signature)::text = ''::text));
CREATE INDEX session_unrested ON public.sessions_app_session USING btree (project_id, id NULLS FIRST) WHERE (((phase)::text = 'final'::text) AND ((resting)::text = ''::text));
CREATE INDEX session_wait_deadline ON public.sessions_app_session USING btree (wait_deadline) WHERE (((phase)::text = 'waiting'::text) AND (wait_deadline IS NOT NULL));
CREATE INDEX session_waiting ON public.sessions_app_session USING btree (project_id, id NULLS FIRST) WHERE ((phase)::text = 'waiting'::text);
CREATE INDEX session_without_key ON public.sessions_app_session USING btree (id) WHERE (((phase)::text = 'waiting'::text) AND (scheduling_key IS NULL));
CREATE INDEX sessions_app_apitoken_digest_ae3d680a_like ON public.sessions_app_apitoken USING btree (digest varchar_pattern_ops);
CREATE INDEX sessions_app_apitoken_project_id_f3d1c63e ON public.sessions_app_apitoken USING btree (project_id);
CREATE INDEX sessions_app_apitoken_user_id_a693f664 ON public.sessions_app_apitoken USING btree (user_id);
CREATE INDEX sessions_app_breaker_project_id_6e624eda ON public.sessions_app_breaker USING btree (project_id);
CREATE INDEX sessions_app_breaker_queue_id_8bc37bb5 ON public.sessions_app_breaker USING btree (queue_id);
CREATE INDEX sessions_app_domain_name_56ac623c_like ON public.sessions_app_domain USING btree (name varchar_pattern_ops);
CREATE INDEX sessions_app_failurecategory_name_a3e678a4_like ON public.sessions_app_failurecategory USING btree (name varchar_pattern_ops);
CREATE INDEX sessions_app_membership_domain_id_2a1058ca ON public.sessions_app_membership USING btree (domain_id);
CREATE INDEX sessions_app_membership_project_id_fb5a8268 ON public.sessions_app_membership USING btree (project_id);
CREATE INDEX sessions_app_membership_user_id_cbaca32a ON public.sessions_app_membership USING btree (user_id);
CREATE INDEX sessions_app_preparedaction_expires_at_ba328605 ON public.sessions_app_preparedaction USING btree (expires_at);
CREATE INDEX sessions_app_preparedaction_user_id_c8215bef ON public.sessions_app_preparedaction USING btree (user_id);
CREATE INDEX sessions_app_priorityclass_name_17549d38_like ON public.sessions_app_priorityclass USING btree (name varchar_pattern_ops);
CREATE INDEX sessions_app_project_domain_id_04bba028 ON public.sessions_app_project USING btree (domain_id);
CREATE INDEX sessions_app_queue_project_id_b072550b ON public.sessions_app_queue USING btree (project_id);
CREATE INDEX sessions_app_retrybudgetstate_scope_87b9a02f_like ON public.sessions_app_retrybudgetstate USING btree (scope varchar_pattern_ops);
CREATE INDEX sessions_app_retrydefaults_domain_id_b046561d ON public.sessions_app_retrydefaults USING btree (domain_id);
CREATE INDEX sessions_app_retrydefaults_project_id_394203d9 ON public.sessions_app_retrydefaults USING btree (project_id);
CREATE INDEX sessions_app_retrypolicy_domain_id_20110497 ON public.sessions_app_retrypolicy USING btree (domain_id);
CREATE INDEX sessions_app_retrypolicy_project_id_d2b4cf3e ON public.sessions_app_retrypolicy USING btree (project_id);
CREATE INDEX sessions_app_retrysettings_domain_id_ecb0a528 ON public.sessions_app_retrysettings USING btree (domain_id);
CREATE INDEX sessions_app_retrysettings_project_id_a1ab7e51 ON public.sessions_app_retrysettings USING btree (project_id);
CREATE INDEX sessions_app_retryslots_queue_id_c5c96bca ON public.sessions_app_retryslots USING btree (queue_id);
CREATE INDEX sessions_app_schedule_owner_id_b1c6d4ea ON public.sessions_app_schedule USING btree (owner_id);
CREATE INDEX sessions_app_webhookendpoint_project_id_e04ffc4e ON public.sessions_app_webhookendpoint USING btree (project_id);
CREATE INDEX spec_secrets ON public.sessions_app_sessionspec USING btree ("left"(secret_environ, 8)) WHERE (secret_environ IS NOT NULL);
CREATE UNIQUE INDEX usage_domain_name_unique ON public.sessions_app_projectusage USING btree (domain_id, name);
CREATE UNIQUE INDEX usage_project_name_unique ON public.sessions_app_projectusage USING btree (project_id, name);
CREATE INDEX webhook_active ON public.sessions_app_webhookendpoint USING btree (project_id) WHERE (paused_at IS NULL);
CREATE INDEX webhook_due ON public.sessions_app_webhookdelivery USING btree (endpoint_id, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX webhook_finished ON public.sessions_app_webhookdelivery USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX webhook_given_up ON public.sessions_app_webhookdelivery USING btree (endpoint_id, id) WHERE ((state)::text = 'failed'::text);
CREATE INDEX webhook_in_flight ON public.sessions_app_webhookdelivery USING btree (endpoint_id) WHERE (claim IS NOT NULL);
CREATE INDEX webhook_line ON public.sessions_app_webhookdelivery USING btree (endpoint_id, session_id, id) WHERE ((state)::text = 'waiting'::text);
CREATE INDEX webhook_log ON public.sessions_app_webhookdelivery USING btree (endpoint_id, id);
CREATE INDEX webhook_of_session ON public.sessions_app_webhookdelivery USING btree (endpoint_id, session_id, id);
CREATE INDEX webhook_ping_due ON public.sessions_app_webhookdelivery USING btree (due_at) WHERE ((due_at IS NOT NULL) AND (event_id IS NULL));
CREATE UNIQUE INDEX webhook_told_once ON public.sessions_app_webhookdelivery USING btree (endpoint_id, event_id) WHERE (NOT redelivery);
CREATE STATISTICS public.session_ends (mcv) ON status, phase, retry_cause FROM public.sessions_app_session;
CREATE TRIGGER audit_changed AFTER UPDATE ON public.auth_group FOR EACH ROW WHEN (((old.name)::text IS DISTINCT FROM (new.name)::text)) EXECUTE FUNCTION public.reprise_audit('group', '{name}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.auth_user FOR EACH ROW WHEN ((((old.username)::text IS DISTINCT FROM (new.username)::text) OR ((old.first_name)::text IS DISTINCT FROM (new.first_name)::text) OR ((old.last_name)::text IS DISTINCT FROM (new.last_name)::text) OR ((old.email)::text IS DISTINCT FROM (new.email)::text) OR (old.is_superuser IS DISTINCT FROM new.is_superuser) OR (old.is_staff IS DISTINCT FROM new.is_staff) OR (old.is_active IS DISTINCT FROM new.is_active) OR ((old.password)::text IS DISTINCT FROM (new.password)::text))) EXECUTE FUNCTION public.reprise_audit('user', '{username,first_name,last_name,email,is_superuser,is_staff,is_active}', '{password}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.django_celery_beat_clockedschedule FOR EACH ROW WHEN ((old.clocked_time IS DISTINCT FROM new.clocked_time)) EXECUTE FUNCTION public.reprise_audit('clocked', '{clocked_time}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.django_celery_beat_crontabschedule FOR EACH ROW WHEN ((((old.minute)::text IS DISTINCT FROM (new.minute)::text) OR ((old.hour)::text IS DISTINCT FROM (new.hour)::text) OR ((old.day_of_month)::text IS DISTINCT FROM (new.day_of_month)::text) OR ((old.month_of_year)::text IS DISTINCT FROM (new.month_of_year)::text) OR ((old.day_of_week)::text IS DISTINCT FROM (new.day_of_week)::text) OR ((old.timezone)::text IS DISTINCT FROM (new.timezone)::text))) EXECUTE FUNCTION public.reprise_audit('crontab', '{minute,hour,day_of_month,month_of_year,day_of_week,timezone}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.django_celery_beat_intervalschedule FOR EACH ROW WHEN (((old.every IS DISTINCT FROM new.every) OR ((old.period)::text IS DISTINCT FROM (new.period)::text))) EXECUTE FUNCTION public.reprise_audit('interval', '{every,period}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.django_celery_beat_periodictask FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR ((old.task)::text IS DISTINCT FROM (new.task)::text) OR (old.interval_id IS DISTINCT FROM new.interval_id) OR (old.crontab_id IS DISTINCT FROM new.crontab_id) OR (old.solar_id IS DISTINCT FROM new.solar_id) OR (old.clocked_id IS DISTINCT FROM new.clocked_id) OR (old.args IS DISTINCT FROM new.args) OR (old.kwargs IS DISTINCT FROM new.kwargs) OR ((old.queue)::text IS DISTINCT FROM (new.queue)::text) OR ((old.exchange)::text IS DISTINCT FROM (new.exchange)::text) OR ((old.routing_key)::text IS DISTINCT FROM (new.routing_key)::text) OR (old.headers IS DISTINCT FROM new.headers) OR (old.priority IS DISTINCT FROM new.priority) OR (old.expires IS DISTINCT FROM new.expires) OR (old.expire_seconds IS DISTINCT FROM new.expire_seconds) OR (old.one_off IS DISTINCT FROM new.one_off) OR (old.start_time IS DISTINCT FROM new.start_time) OR (old.enabled IS DISTINCT FROM new.enabled) OR (old.description IS DISTINCT FROM new.description))) EXECUTE FUNCTION public.reprise_audit('periodic_task', '{name,task,interval_id,crontab_id,solar_id,clocked_id,args,kwargs,queue,exchange,routing_key,headers,priority,expires,expire_seconds,one_off,start_time,enabled,description}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.scheduler_executor FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old.cordoned IS DISTINCT FROM new.cordoned) OR ((old.cordon_reason)::text IS DISTINCT FROM (new.cordon_reason)::text) OR (old.draining_since IS DISTINCT FROM new.draining_since) OR ((old.drained_by)::text IS DISTINCT FROM (new.drained_by)::text) OR (old.drain_force IS DISTINCT FROM new.drain_force) OR (old.unconfirmed_after IS DISTINCT FROM new.unconfirmed_after) OR ((old.placement)::text IS DISTINCT FROM (new.placement)::text) OR ((old.avoid_suspects)::text IS DISTINCT FROM (new.avoid_suspects)::text) OR (old.auto_quarantine IS DISTINCT FROM new.auto_quarantine) OR ((old.preemption)::text IS DISTINCT FROM (new.preemption)::text) OR (old.labels IS DISTINCT FROM new.labels))) EXECUTE FUNCTION public.reprise_audit('executor', '{name,cordoned,cordon_reason,draining_since,drained_by,drain_force,unconfirmed_after,placement,avoid_suspects,auto_quarantine,preemption,labels}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_apitoken FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR ((old.prefix)::text IS DISTINCT FROM (new.prefix)::text) OR (old.user_id IS DISTINCT FROM new.user_id) OR ((old.executor_name)::text IS DISTINCT FROM (new.executor_name)::text) OR (old.project_id IS DISTINCT FROM new.project_id) OR (old.read_only IS DISTINCT FROM new.read_only) OR (old.expires_at IS DISTINCT FROM new.expires_at) OR ((old.made_with)::text IS DISTINCT FROM (new.made_with)::text) OR ((old.digest)::text IS DISTINCT FROM (new.digest)::text))) EXECUTE FUNCTION public.reprise_audit('token', '{name,prefix,user_id,executor_name,project_id,read_only,expires_at,made_with}', '{digest}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_domain FOR EACH ROW WHEN (((old.name)::text IS DISTINCT FROM (new.name)::text)) EXECUTE FUNCTION public.reprise_audit('domain', '{name}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_failurecategory FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old."position" IS DISTINCT FROM new."position") OR (old.matchers IS DISTINCT FROM new.matchers))) EXECUTE FUNCTION public.reprise_audit('failure_category', '{name,position,matchers}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_membership FOR EACH ROW WHEN (((old.user_id IS DISTINCT FROM new.user_id) OR (old.domain_id IS DISTINCT FROM new.domain_id) OR (old.project_id IS DISTINCT FROM new.project_id) OR ((old.role)::text IS DISTINCT FROM (new.role)::text))) EXECUTE FUNCTION public.reprise_audit('membership', '{user_id,domain_id,project_id,role}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_priorityclass FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old.value IS DISTINCT FROM new.value) OR (old.preemptible IS DISTINCT FROM new.preemptible) OR (old.may_preempt IS DISTINCT FROM new.may_preempt) OR (old.protected_for IS DISTINCT FROM new.protected_for) OR (old.domains IS DISTINCT FROM new.domains) OR (old.projects IS DISTINCT FROM new.projects))) EXECUTE FUNCTION public.reprise_audit('priority_class', '{name,value,preemptible,may_preempt,protected_for,domains,projects}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_project FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old.domain_id IS DISTINCT FROM new.domain_id))) EXECUTE FUNCTION public.reprise_audit('project', '{name,domain_id}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_projectusage FOR EACH ROW WHEN (((old.domain_id IS DISTINCT FROM new.domain_id) OR (old.project_id IS DISTINCT FROM new.project_id) OR ((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old."limit" IS DISTINCT FROM new."limit"))) EXECUTE FUNCTION public.reprise_audit('quota', '{domain_id,project_id,name,limit}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_queue FOR EACH ROW WHEN (((old.project_id IS DISTINCT FROM new.project_id) OR ((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old.is_default IS DISTINCT FROM new.is_default) OR (old.priority_factor IS DISTINCT FROM new.priority_factor) OR (old.cordoned IS DISTINCT FROM new.cordoned) OR ((old.cordon_reason)::text IS DISTINCT FROM (new.cordon_reason)::text) OR (old.resource_limits IS DISTINCT FROM new.resource_limits) OR (old.retry_policies IS DISTINCT FROM new.retry_policies) OR (old.breaker IS DISTINCT FROM new.breaker) OR (old.retry_budget IS DISTINCT FROM new.retry_budget) OR (old.time_limits IS DISTINCT FROM new.time_limits))) EXECUTE FUNCTION public.reprise_audit('queue', '{project_id,name,is_default,priority_factor,cordoned,cordon_reason,resource_limits,retry_policies,breaker,retry_budget,time_limits}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_retrydefaults FOR EACH ROW WHEN (((old.domain_id IS DISTINCT FROM new.domain_id) OR (old.project_id IS DISTINCT FROM new.project_id) OR (old.policy IS DISTINCT FROM new.policy) OR (old.bounds IS DISTINCT FROM new.bounds))) EXECUTE FUNCTION public.reprise_audit('retry_defaults', '{domain_id,project_id,policy,bounds}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_retrypolicy FOR EACH ROW WHEN (((old.domain_id IS DISTINCT FROM new.domain_id) OR (old.project_id IS DISTINCT FROM new.project_id) OR ((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old.revision IS DISTINCT FROM new.revision) OR (old.archived_at IS DISTINCT FROM new.archived_at))) EXECUTE FUNCTION public.reprise_audit_policy();
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_retrypolicyrevision FOR EACH ROW WHEN (((old.policy_id IS DISTINCT FROM new.policy_id) OR (old.revision IS DISTINCT FROM new.revision) OR (old.document IS DISTINCT FROM new.document))) EXECUTE FUNCTION public.reprise_audit_revision();
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_retrysettings FOR EACH ROW WHEN (((old.domain_id IS DISTINCT FROM new.domain_id) OR (old.project_id IS DISTINCT FROM new.project_id) OR ((old.mode)::text IS DISTINCT FROM (new.mode)::text) OR (old.global_max_retries IS DISTINCT FROM new.global_max_retries) OR ((old.default_policy)::text IS DISTINCT FROM (new.default_policy)::text) OR (old.retries_per_minute IS DISTINCT FROM new.retries_per_minute) OR (old.queue_retries_per_minute IS DISTINCT FROM new.queue_retries_per_minute) OR (old.refuse_unfittable IS DISTINCT FROM new.refuse_unfittable) OR (old.breaker IS DISTINCT FROM new.breaker) OR (old.retry_budget IS DISTINCT FROM new.retry_budget) OR (old.global_unlimited IS DISTINCT FROM new.global_unlimited) OR (old.pod_defaults IS DISTINCT FROM new.pod_defaults))) EXECUTE FUNCTION public.reprise_audit('retry_settings', '{domain_id,project_id,mode,global_max_retries,default_policy,retries_per_minute,queue_retries_per_minute,refuse_unfittable,breaker,retry_budget,global_unlimited,pod_defaults}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_schedule FOR EACH ROW WHEN (((old.project_id IS DISTINCT FROM new.project_id) OR ((old.name)::text IS DISTINCT FROM (new.name)::text) OR ((old.queue)::text IS DISTINCT FROM (new.queue)::text) OR ((old.cron)::text IS DISTINCT FROM (new.cron)::text) OR ((old.time_zone)::text IS DISTINCT FROM (new.time_zone)::text) OR (old.every IS DISTINCT FROM new.every) OR (old.template IS DISTINCT FROM new.template) OR ((old.overlap)::text IS DISTINCT FROM (new.overlap)::text) OR (old.catch_up IS DISTINCT FROM new.catch_up) OR (old.jitter IS DISTINCT FROM new.jitter) OR (old.starts_at IS DISTINCT FROM new.starts_at) OR (old.until IS DISTINCT FROM new.until) OR (old.pause_after IS DISTINCT FROM new.pause_after) OR (old.owner_id IS DISTINCT FROM new.owner_id) OR (old.paused_at IS DISTINCT FROM new.paused_at) OR ((old.paused_reason)::text IS DISTINCT FROM (new.paused_reason)::text))) EXECUTE FUNCTION public.reprise_audit('schedule', '{project_id,name,queue,cron,time_zone,every,template,overlap,catch_up,jitter,starts_at,until,pause_after,owner_id,paused_at,paused_reason}', '{}');
CREATE TRIGGER audit_changed AFTER UPDATE ON public.sessions_app_webhookendpoint FOR EACH ROW WHEN (((old.project_id IS DISTINCT FROM new.project_id) OR ((old.url)::text IS DISTINCT FROM (new.url)::text) OR ((old.description)::text IS DISTINCT FROM (new.description)::text) OR (old.event_types IS DISTINCT FROM new.event_types) OR ((old.created_by)::text IS DISTINCT FROM (new.created_by)::text) OR (old.paused_at IS DISTINCT FROM new.paused_at) OR ((old.paused_reason)::text IS DISTINCT FROM (new.paused_reason)::text) OR ((old.secret)::text IS DISTINCT FROM (new.secret)::text) OR ((old.previous_secret)::text IS DISTINCT FROM (new.previous_secret)::text))) EXECUTE FUNCTION public.reprise_audit('webhook', '{project_id,url,description,event_types,created_by,paused_at,paused_reason}', '{secret,previous_secret}');
CREATE TRIGGER audit_kept BEFORE DELETE OR UPDATE ON public.sessions_app_auditentry FOR EACH STATEMENT EXECUTE FUNCTION public.reprise_audit_kept();
CREATE TRIGGER audit_kept_whole BEFORE TRUNCATE ON public.sessions_app_auditentry FOR EACH STATEMENT EXECUTE FUNCTION public.reprise_audit_kept();
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.auth_group FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('group', '{name}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.auth_user FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('user', '{username,first_name,last_name,email,is_superuser,is_staff,is_active}', '{password}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.django_celery_beat_clockedschedule FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('clocked', '{clocked_time}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.django_celery_beat_crontabschedule FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('crontab', '{minute,hour,day_of_month,month_of_year,day_of_week,timezone}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.django_celery_beat_intervalschedule FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('interval', '{every,period}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.django_celery_beat_periodictask FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('periodic_task', '{name,task,interval_id,crontab_id,solar_id,clocked_id,args,kwargs,queue,exchange,routing_key,headers,priority,expires,expire_seconds,one_off,start_time,enabled,description}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.scheduler_executor FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('executor', '{name,cordoned,cordon_reason,draining_since,drained_by,drain_force,unconfirmed_after,placement,avoid_suspects,auto_quarantine,preemption,labels}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.scheduler_executor_projects FOR EACH ROW EXECUTE FUNCTION public.reprise_audit_serves();
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_apitoken FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('token', '{name,prefix,user_id,executor_name,project_id,read_only,expires_at,made_with}', '{digest}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_domain FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('domain', '{name}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_failurecategory FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('failure_category', '{name,position,matchers}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_membership FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('membership', '{user_id,domain_id,project_id,role}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_priorityclass FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('priority_class', '{name,value,preemptible,may_preempt,protected_for,domains,projects}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_project FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('project', '{name,domain_id}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_projectusage FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('quota', '{domain_id,project_id,name,limit}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_queue FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('queue', '{project_id,name,is_default,priority_factor,cordoned,cordon_reason,resource_limits,retry_policies,breaker,retry_budget,time_limits}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_retrydefaults FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('retry_defaults', '{domain_id,project_id,policy,bounds}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_retrypolicy FOR EACH ROW EXECUTE FUNCTION public.reprise_audit_policy();
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_retrypolicyrevision FOR EACH ROW EXECUTE FUNCTION public.reprise_audit_revision();
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_retrysettings FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('retry_settings', '{domain_id,project_id,mode,global_max_retries,default_policy,retries_per_minute,queue_retries_per_minute,refuse_unfittable,breaker,retry_budget,global_unlimited,pod_defaults}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_schedule FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('schedule', '{project_id,name,queue,cron,time_zone,every,template,overlap,catch_up,jitter,starts_at,until,pause_after,owner_id,paused_at,paused_reason}', '{}');
CREATE TRIGGER audit_made AFTER INSERT OR DELETE ON public.sessions_app_webhookendpoint FOR EACH ROW EXECUTE FUNCTION public.reprise_audit('webhook', '{project_id,url,description,event_types,created_by,paused_at,paused_reason}', '{secret,previous_secret}');
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_breaker FOR EACH ROW WHEN (((new.state)::text = 'open'::text)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_failurecategory FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_failuresignature FOR EACH ROW WHEN (new.muted) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_queue FOR EACH ROW WHEN ((new.retry_budget IS NOT NULL)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_retrybudgetstate FOR EACH ROW WHEN ((new.spent_since IS NOT NULL)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_retrydefaults FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_retrypolicy FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_added AFTER INSERT ON public.sessions_app_retrysettings FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_breaker FOR EACH ROW WHEN ((((old.state)::text IS DISTINCT FROM (new.state)::text) OR (old.probe IS DISTINCT FROM new.probe))) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_failurecategory FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_failuresignature FOR EACH ROW WHEN ((old.muted IS DISTINCT FROM new.muted)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_project FOR EACH ROW WHEN ((old.domain_id IS DISTINCT FROM new.domain_id)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_queue FOR EACH ROW WHEN (((old.project_id IS DISTINCT FROM new.project_id) OR (old.retry_budget IS DISTINCT FROM new.retry_budget))) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_retrybudgetstate FOR EACH ROW WHEN (((old.spent_since IS NULL) <> (new.spent_since IS NULL))) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_retrydefaults FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_retrypolicy FOR EACH ROW WHEN ((((old.name)::text IS DISTINCT FROM (new.name)::text) OR (old.project_id IS DISTINCT FROM new.project_id) OR (old.domain_id IS DISTINCT FROM new.domain_id) OR (old.revision IS DISTINCT FROM new.revision))) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_changed AFTER UPDATE ON public.sessions_app_retrysettings FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_breaker FOR EACH ROW WHEN (((old.state)::text = 'open'::text)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_failurecategory FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_failuresignature FOR EACH ROW WHEN (old.muted) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_queue FOR EACH ROW WHEN ((old.retry_budget IS NOT NULL)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_retrybudgetstate FOR EACH ROW WHEN ((old.spent_since IS NOT NULL)) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_retrydefaults FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_retrypolicy FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER config_gone AFTER DELETE ON public.sessions_app_retrysettings FOR EACH ROW WHEN (true) EXECUTE FUNCTION public.reprise_config_changed();
CREATE TRIGGER decision_project AFTER INSERT OR UPDATE OF state ON public.sessions_app_retrydecision FOR EACH ROW WHEN (((new.project_id IS NULL) AND ((new.state)::text = 'scheduled'::text))) EXECUTE FUNCTION public.reprise_decision_of_project();
CREATE TRIGGER decision_traces AFTER DELETE ON public.sessions_app_retrydecision REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.reprise_traces_go();
CREATE TRIGGER dispatch_kept BEFORE UPDATE ON public.sessions_app_automaticdispatch FOR EACH STATEMENT EXECUTE FUNCTION public.reprise_audit_kept();
CREATE CONSTRAINT TRIGGER retry_charge AFTER INSERT ON public.sessions_app_retrycharge DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.reprise_charge_budgets();
CREATE CONSTRAINT TRIGGER session_counters AFTER INSERT OR UPDATE OF retry_counters, retry_count ON public.sessions_app_session NOT DEFERRABLE INITIALLY IMMEDIATE FOR EACH ROW WHEN (((new.retry_count <> 0) OR (new.retry_counters <> '{}'::jsonb))) EXECUTE FUNCTION public.reprise_counters_add_up();
CREATE TRIGGER session_resting AFTER INSERT OR UPDATE OF retry_state ON public.sessions_app_session FOR EACH ROW WHEN (((new.resting)::text <> (
        CASE
            WHEN ((new.retry_state)::text = ANY ((ARRAY['held'::character varying, 'succeeded'::character varying, 'exhausted'::character varying, 'not_retried'::character varying, 'cancelled'::character varying, 'parked'::character varying])::text[])) THEN new.retry_state
            ELSE ''::character varying
        END)::text)) EXECUTE FUNCTION public.reprise_session_rests();
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptex_access_attempt_id_6b73a47a_fk_axes_acce FOREIGN KEY (access_attempt_id) REFERENCES public.axes_accessattempt(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_clocked_id_47a69f82_fk_django_ce FOREIGN KEY (clocked_id) REFERENCES public.django_celery_beat_clockedschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_crontab_id_d3cba168_fk_django_ce FOREIGN KEY (crontab_id) REFERENCES public.django_celery_beat_crontabschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_interval_id_a8ca27da_fk_django_ce FOREIGN KEY (interval_id) REFERENCES public.django_celery_beat_intervalschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.django_celery_beat_periodictask
    ADD CONSTRAINT django_celery_beat_p_solar_id_a87ce72c_fk_django_ce FOREIGN KEY (solar_id) REFERENCES public.django_celery_beat_solarschedule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_executor_projects
    ADD CONSTRAINT scheduler_executor_p_executor_id_066df49b_fk_scheduler FOREIGN KEY (executor_id) REFERENCES public.scheduler_executor(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_executor_projects
    ADD CONSTRAINT scheduler_executor_p_project_id_05474149_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_lease
    ADD CONSTRAINT scheduler_lease_executor_id_73ca9bd6_fk_scheduler_executor_id FOREIGN KEY (executor_id) REFERENCES public.scheduler_executor(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_lease
    ADD CONSTRAINT scheduler_lease_session_id_b3bccf58_fk_sessions_app_session_id FOREIGN KEY (session_id) REFERENCES public.sessions_app_session(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_node
    ADD CONSTRAINT scheduler_node_executor_id_9c8f39ca_fk_scheduler_executor_id FOREIGN KEY (executor_id) REFERENCES public.scheduler_executor(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_nodeattempt
    ADD CONSTRAINT scheduler_nodeattempt_node_id_5a1669b3_fk_scheduler_node_id FOREIGN KEY (node_id) REFERENCES public.scheduler_node(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_preemption
    ADD CONSTRAINT scheduler_preemption_executor_id_d4db3895_fk_scheduler FOREIGN KEY (executor_id) REFERENCES public.scheduler_executor(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_queuebelow
    ADD CONSTRAINT scheduler_queuebelow_queue_id_efc06abd_fk_sessions_app_queue_id FOREIGN KEY (queue_id) REFERENCES public.sessions_app_queue(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_queueusage
    ADD CONSTRAINT scheduler_queueusage_queue_id_23a4ee13_fk_sessions_app_queue_id FOREIGN KEY (queue_id) REFERENCES public.sessions_app_queue(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.scheduler_reservation
    ADD CONSTRAINT scheduler_reservatio_executor_id_c2c6200d_fk_scheduler FOREIGN KEY (executor_id) REFERENCES public.scheduler_executor(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_apitoken
    ADD CONSTRAINT sessions_app_apitoke_project_id_f3d1c63e_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_apitoken
    ADD CONSTRAINT sessions_app_apitoken_user_id_a693f664_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_breaker
    ADD CONSTRAINT sessions_app_breaker_project_id_6e624eda_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_breaker
    ADD CONSTRAINT sessions_app_breaker_queue_id_8bc37bb5_fk_sessions_app_queue_id FOREIGN KEY (queue_id) REFERENCES public.sessions_app_queue(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_failuretotals
    ADD CONSTRAINT sessions_app_failure_ledger_id_b273b3f1_fk_sessions_ FOREIGN KEY (ledger_id) REFERENCES public.sessions_app_failureledger(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_failurehour
    ADD CONSTRAINT sessions_app_failure_project_id_48a1e7e5_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_failureledger
    ADD CONSTRAINT sessions_app_failure_project_id_514f6083_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_failureday
    ADD CONSTRAINT sessions_app_failure_project_id_5fa270bf_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_failuresignature
    ADD CONSTRAINT sessions_app_failure_project_id_92a46be8_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_membership
    ADD CONSTRAINT sessions_app_members_domain_id_2a1058ca_fk_sessions_ FOREIGN KEY (domain_id) REFERENCES public.sessions_app_domain(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_membership
    ADD CONSTRAINT sessions_app_members_project_id_fb5a8268_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_membership
    ADD CONSTRAINT sessions_app_membership_user_id_cbaca32a_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_preparedaction
    ADD CONSTRAINT sessions_app_preparedaction_user_id_c8215bef_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_project
    ADD CONSTRAINT sessions_app_project_domain_id_04bba028_fk_sessions_ FOREIGN KEY (domain_id) REFERENCES public.sessions_app_domain(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_projectusage
    ADD CONSTRAINT sessions_app_project_domain_id_7e548369_fk_sessions_ FOREIGN KEY (domain_id) REFERENCES public.sessions_app_domain(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_projectusage
    ADD CONSTRAINT sessions_app_project_project_id_7e2582f5_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_queue
    ADD CONSTRAINT sessions_app_queue_project_id_b072550b_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retryadvice
    ADD CONSTRAINT sessions_app_retryad_project_id_91e83f96_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retryday
    ADD CONSTRAINT sessions_app_retryda_project_id_9e0d9676_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrydefaults
    ADD CONSTRAINT sessions_app_retryde_domain_id_b046561d_fk_sessions_ FOREIGN KEY (domain_id) REFERENCES public.sessions_app_domain(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrydefaults
    ADD CONSTRAINT sessions_app_retryde_project_id_394203d9_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrydecision
    ADD CONSTRAINT sessions_app_retryde_session_id_79885fe2_fk_sessions_ FOREIGN KEY (session_id) REFERENCES public.sessions_app_session(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrypolicy
    ADD CONSTRAINT sessions_app_retrypo_domain_id_20110497_fk_sessions_ FOREIGN KEY (domain_id) REFERENCES public.sessions_app_domain(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrypolicyrevision
    ADD CONSTRAINT sessions_app_retrypo_policy_id_8f7b53b3_fk_sessions_ FOREIGN KEY (policy_id) REFERENCES public.sessions_app_retrypolicy(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrypolicy
    ADD CONSTRAINT sessions_app_retrypo_project_id_d2b4cf3e_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrysettings
    ADD CONSTRAINT sessions_app_retryse_domain_id_ecb0a528_fk_sessions_ FOREIGN KEY (domain_id) REFERENCES public.sessions_app_domain(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retrysettings
    ADD CONSTRAINT sessions_app_retryse_project_id_a1ab7e51_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_retryslots
    ADD CONSTRAINT sessions_app_retrysl_queue_id_c5c96bca_fk_sessions_ FOREIGN KEY (queue_id) REFERENCES public.sessions_app_queue(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_savedsearch
    ADD CONSTRAINT sessions_app_savedsearch_user_id_183093a8_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_schedule
    ADD CONSTRAINT sessions_app_schedul_project_id_55a09768_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_schedule
    ADD CONSTRAINT sessions_app_schedule_owner_id_b1c6d4ea_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_session
    ADD CONSTRAINT sessions_app_session_owner_id_c19408fc_fk_auth_user_id FOREIGN KEY (owner_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_session
    ADD CONSTRAINT sessions_app_session_project_id_4d5e064b_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_session
    ADD CONSTRAINT sessions_app_session_queue_id_d0f9b3e8_fk_sessions_app_queue_id FOREIGN KEY (queue_id) REFERENCES public.sessions_app_queue(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_session
    ADD CONSTRAINT sessions_app_session_root_id_0500d616_fk_sessions_ FOREIGN KEY (root_id) REFERENCES public.sessions_app_session(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_webhookdelivery
    ADD CONSTRAINT sessions_app_webhook_endpoint_id_2d178742_fk_sessions_ FOREIGN KEY (endpoint_id) REFERENCES public.sessions_app_webhookendpoint(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.sessions_app_webhookendpoint
    ADD CONSTRAINT sessions_app_webhook_project_id_e04ffc4e_fk_sessions_ FOREIGN KEY (project_id) REFERENCES public.sessions_app_project(id) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO public.django_migrations (app, name, applied) VALUES
    ('contenttypes', '0001_initial', now()),
    ('auth', '0001_initial', now()),
    ('admin', '0001_initial', now()),
    ('admin', '0002_logentry_remove_auto_add', now()),
    ('admin', '0003_logentry_add_action_flag_choices', now()),
    ('contenttypes', '0002_remove_content_type_name', now()),
    ('auth', '0002_alter_permission_name_max_length', now()),
    ('auth', '0003_alter_user_email_max_length', now()),
    ('auth', '0004_alter_user_username_opts', now()),
    ('auth', '0005_alter_user_last_login_null', now()),
    ('auth', '0006_require_contenttypes_0002', now()),
    ('auth', '0007_alter_validators_add_error_messages', now()),
    ('auth', '0008_alter_user_username_max_length', now()),
    ('auth', '0009_alter_user_last_name_max_length', now()),
    ('auth', '0010_alter_group_name_max_length', now()),
    ('auth', '0011_update_proxy_permissions', now()),
    ('auth', '0012_alter_user_first_name_max_length', now()),
    ('axes', '0001_initial', now()),
    ('axes', '0002_auto_20151217_2044', now()),
    ('axes', '0003_auto_20160322_0929', now()),
    ('axes', '0004_auto_20181024_1538', now()),
    ('axes', '0005_remove_accessattempt_trusted', now()),
    ('axes', '0006_remove_accesslog_trusted', now()),
    ('axes', '0007_alter_accessattempt_unique_together', now()),
    ('axes', '0008_accessfailurelog', now()),
    ('axes', '0009_add_session_hash', now()),
    ('axes', '0010_accessattemptexpiration', now()),
    ('django_celery_beat', '0001_initial', now()),
    ('django_celery_beat', '0002_auto_20161118_0346', now()),
    ('django_celery_beat', '0003_auto_20161209_0049', now()),
    ('django_celery_beat', '0004_auto_20170221_0000', now()),
    ('django_celery_beat', '0005_add_solarschedule_events_choices', now()),
    ('django_celery_beat', '0006_auto_20180322_0932', now()),
    ('django_celery_beat', '0007_auto_20180521_0826', now()),
    ('django_celery_beat', '0008_auto_20180914_1922', now()),
    ('django_celery_beat', '0006_auto_20180210_1226', now()),
    ('django_celery_beat', '0006_periodictask_priority', now()),
    ('django_celery_beat', '0009_periodictask_headers', now()),
    ('django_celery_beat', '0010_auto_20190429_0326', now()),
    ('django_celery_beat', '0011_auto_20190508_0153', now()),
    ('django_celery_beat', '0012_periodictask_expire_seconds', now()),
    ('django_celery_beat', '0013_auto_20200609_0727', now()),
    ('django_celery_beat', '0014_remove_clockedschedule_enabled', now()),
    ('django_celery_beat', '0015_edit_solarschedule_events_choices', now()),
    ('django_celery_beat', '0016_alter_crontabschedule_timezone', now()),
    ('django_celery_beat', '0017_alter_crontabschedule_month_of_year', now()),
    ('django_celery_beat', '0018_improve_crontab_helptext', now()),
    ('django_celery_beat', '0019_alter_periodictasks_options', now()),
    ('sessions_app', '0001_initial', now()),
    ('sessions_app', '0002_tables', now()),
    ('sessions_app', '0003_held_by_project', now()),
    ('sessions_app', '0004_operators', now()),
    ('sessions_app', '0005_named_policies', now()),
    ('sessions_app', '0006_quotas', now()),
    ('sessions_app', '0007_event_epoch', now()),
    ('sessions_app', '0008_event_streams', now()),
    ('sessions_app', '0009_retention', now()),
    ('sessions_app', '0010_fair_share', now()),
    ('sessions_app', '0011_session_lines', now()),
    ('sessions_app', '0012_preemption', now()),
    ('sessions_app', '0013_start_failure', now()),
    ('sessions_app', '0014_events_without_project_constraint', now()),
    ('sessions_app', '0015_token_maker', now()),
    ('sessions_app', '0016_request_budgets', now()),
    ('sessions_app', '0017_webhooks', now()),
    ('sessions_app', '0018_audit_columns', now()),
    ('sessions_app', '0019_audit_indexes', now()),
    ('sessions_app', '0020_audit_triggers', now()),
    ('sessions_app', '0021_deliveries_of_session', now()),
    ('sessions_app', '0022_list_indexes', now()),
    ('sessions_app', '0023_token_budget', now()),
    ('sessions_app', '0024_secrets', now()),
    ('sessions_app', '0025_secret_index', now()),
    ('sessions_app', '0026_longer_creation_ids', now()),
    ('scheduler', '0001_initial', now()),
    ('scheduler', '0002_fencing', now()),
    ('scheduler', '0003_executor_round', now()),
    ('scheduler', '0004_leases_protect', now()),
    ('scheduler', '0005_fair_share', now()),
    ('scheduler', '0006_executor_registry', now()),
    ('scheduler', '0007_drain', now()),
    ('scheduler', '0008_state_directories', now()),
    ('scheduler', '0009_executor_trouble', now()),
    ('scheduler', '0010_start_verification', now()),
    ('scheduler', '0011_lease_verify', now()),
    ('scheduler', '0012_audit_triggers', now()),
    ('scheduler', '0013_project_troubles', now()),
    ('reprise', '0001_operations', now()),
    ('reprise', '0002_audit_triggers', now()),
    ('reprise', '0003_standby', now()),
    ('reprise', '0004_known_server', now()),
    ('reprise', '0005_hour_counts', now()),
    ('sessions_app', '0027_automatic_dispatches', now()),
    ('sessions_app', '0028_counters_trigger', now()),
    ('sessions_app', '0029_fewer_indexes', now()),
    ('sessions_app', '0030_resting', now()),
    ('sessions_app', '0031_resting_filled', now()),
    ('sessions_app', '0032_resting_indexes', now()),
    ('sessions_app', '0033_retry_trace', now()),
    ('sessions_app', '0034_traces_return', now()),
    ('sessions_app', '0035_sessions_of_executors', now()),
    ('sessions_app', '0036_room_for_updates', now()),
    ('sessions_app', '0037_pages', now()),
    ('sessions_app', '0038_fewer_lists_indexed', now()),
    ('sessions_app', '0039_exits', now()),
    ('sessions_app', '0040_failure_signature', now()),
    ('sessions_app', '0041_signature_index', now()),
    ('sessions_app', '0042_placement', now()),
    ('sessions_app', '0043_ascending_lists', now()),
    ('sessions_app', '0044_refuse_unfittable', now()),
    ('sessions_app', '0049_schedules', now()),
    ('sessions_app', '0050_schedules_audited', now()),
    ('sessions_app', '0051_failure_title', now()),
    ('sessions_app', '0052_failures', now()),
    ('sessions_app', '0054_held_for', now()),
    ('sessions_app', '0055_hold_indexes', now()),
    ('sessions_app', '0056_changes', now()),
    ('sessions_app', '0057_dependencies', now()),
    ('sessions_app', '0058_blocked_sessions', now()),
    ('sessions_app', '0061_retry_days', now()),
    ('sessions_app', '0062_retry_advice', now()),
    ('sessions_app', '0065_progress', now()),
    ('sessions_app', '0066_retry_marks', now()),
    ('sessions_app', '0067_breakers', now()),
    ('sessions_app', '0068_held_by_breakers', now()),
    ('sessions_app', '0069_breakers_audited', now()),
    ('sessions_app', '0070_shared_budgets', now()),
    ('sessions_app', '0071_shared_budget_indexes', now()),
    ('sessions_app', '0073_priority_classes', now()),
    ('sessions_app', '0074_priority_classes_audited', now()),
    ('scheduler', '0014_hot_acceptance', now()),
    ('scheduler', '0015_lease_lines', now()),
    ('scheduler', '0016_placement', now()),
    ('scheduler', '0017_reservations', now()),
    ('scheduler', '0018_nodes_digest', now()),
    ('scheduler', '0019_reservation_rows', now()),
    ('scheduler', '0021_nodes', now()),
    ('scheduler', '0022_nodes_audited', now()),
    ('scheduler', '0023_progress', now()),
    ('scheduler', '0024_preemption', now()),
    ('scheduler', '0025_preemption_audited', now()),
    ('scheduler', '0027_executor_labels', now()),
    ('scheduler', '0028_node_templates', now()),
    ('scheduler', '0029_executor_warnings', now()),
    ('scheduler', '0030_reservation_limited_since', now()),
    ('scheduler', '0031_one_index_of_leases', now()),
    ('scheduler', '0032_preemptions_outlive_executors', now()),
    ('scheduler', '0033_executor_pod_defaults', now()),
    ('sessions', '0001_initial', now()),
    ('sessions_app', '0077_queue_timeout', now()),
    ('sessions_app', '0078_wait_deadline', now()),
    ('sessions_app', '0079_executor_labels', now()),
    ('sessions_app', '0081_delivery_data', now()),
    ('sessions_app', '0082_actions_given', now()),
    ('sessions_app', '0083_unlimited', now()),
    ('sessions_app', '0084_failure_days', now()),
    ('sessions_app', '0085_muted_failures', now()),
    ('sessions_app', '0086_hours_of_days', now()),
    ('sessions_app', '0087_config_version', now()),
    ('sessions_app', '0088_fewer_round_trips', now()),
    ('sessions_app', '0089_failure_totals', now()),
    ('sessions_app', '0090_charges_side_by_side', now()),
    ('sessions_app', '0091_dispatch_looks_less', now()),
    ('sessions_app', '0092_attempts_by_root', now()),
    ('sessions_app', '0093_by_hand_and_paced', now()),
    ('sessions_app', '0094_archived_by_name', now()),
    ('sessions_app', '0095_secrets_by', now()),
    ('sessions_app', '0096_lines_by_root', now()),
    ('sessions_app', '0097_failure_exit_code', now()),
    ('sessions_app', '0098_pod_defaults', now());
