-- Retries: the sums of their counters, the past of a chain, and the charge of shared budgets.

-- The counters of a session add up. It is looked at when they are written, not at each change. One
-- budget has paid for all retries of most chains, and a query inside a trigger costs 9 us.
CREATE FUNCTION reprise_counters_add_up() RETURNS trigger LANGUAGE plpgsql AS $$
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
END $$;
CREATE CONSTRAINT TRIGGER session_counters
    AFTER INSERT OR UPDATE OF retry_counters, retry_count ON sessions_app_session
    FOR EACH ROW WHEN (NEW.retry_count <> 0 OR NEW.retry_counters <> '{}')
    EXECUTE FUNCTION reprise_counters_add_up();

-- Traces go with their decisions: a foreign key would cost a look at each insert.
CREATE FUNCTION reprise_traces_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM sessions_app_retrytrace
        WHERE session_id = ANY(ARRAY(SELECT session_id FROM gone));
    RETURN NULL;
END $$;
CREATE TRIGGER decision_traces AFTER DELETE ON sessions_app_retrydecision
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION reprise_traces_go();

-- The attempts before one of a chain, newest first, at most so many: its cause, its signature ("" if
-- it made progress), and the budget and the time of its retry, if it was dispatched.
CREATE FUNCTION reprise_chain_past(root uuid, before int, most int)
RETURNS json LANGUAGE plpgsql AS $$
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

-- What a transaction makes of shared budgets is charged by its commit (decisions 0069 and 0072). One
-- lock for all guards them, and all other dispatchers wait for it: so it is held while PostgreSQL
-- charges and flushes its log, and for no round trip. The row is gone before anybody sees it, hence
-- no log of it.
CREATE UNLOGGED TABLE sessions_app_retrycharge (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    minute bigint NOT NULL,
    scopes text[] NOT NULL,
    retries_from bigint[] NOT NULL,
    attempts_from bigint[] NOT NULL,
    made bigint[] NOT NULL,
    ratios numeric[] NOT NULL,
    bursts bigint[] NOT NULL,
    newest timestamptz[] NOT NULL
);

-- Return whether a budget has no room for these retries and `reserved` ones more, or an older chain
-- waits for it.
CREATE FUNCTION reprise_budgets_refuse(charge sessions_app_retrycharge, reserved bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
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

-- Few retries (at most 8 of a scope) are charged side by side, by at most 8 commits: each has a part
-- of the minute, one of its first seconds, and leaves room for the 64 of the others. They share the
-- lock (1380253710) and hold that of a part from before they look at the counts; who has the lock
-- alone waits for all that share it. If there is too little room, the subtransaction gives both locks
-- back, and the lock is taken alone.
CREATE FUNCTION reprise_charge_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE CONSTRAINT TRIGGER retry_charge AFTER INSERT ON sessions_app_retrycharge
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION reprise_charge_budgets();
