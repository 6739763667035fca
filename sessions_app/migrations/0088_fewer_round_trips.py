"""Functions let settle and dispatch do with fewer statements (decision 0069)."""

from django.db import migrations

# What a transaction makes of shared budgets is charged by its commit. One lock for all guards them,
# and all other dispatchers wait for it: so it is held while PostgreSQL charges and flushes its log,
# and for no round trip. The row is gone before anybody sees it, hence no log of it.
_TABLE = """
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
"""
CHARGE = """
CREATE OR REPLACE FUNCTION reprise_charge_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock({lock});
    IF EXISTS (
        SELECT FROM unnest(NEW.scopes, NEW.retries_from, NEW.attempts_from, NEW.made, NEW.ratios,
                NEW.bursts, NEW.newest)
            AS v(scope, retries_from, attempts_from, made, ratio, burst, newest)
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(m.retries), 0) AS retries, coalesce(sum(m.first_attempts)
                FILTER (WHERE m.minute >= to_timestamp(v.attempts_from * 60)), 0) AS first_attempts
            FROM sessions_app_retrybudgetminute m
            WHERE m.scope = v.scope AND m.minute >= to_timestamp(v.retries_from * 60)) c
        WHERE v.newest IS NOT NULL AND (
            c.retries + v.made > v.burst + floor(v.ratio * c.first_attempts)
            OR EXISTS (SELECT FROM sessions_app_retrydecision d
                WHERE d.state = 'held' AND d.held_for = 'shared_budget' AND d.held_key = v.scope
                    AND d.held_order < v.newest))
    ) THEN
        RAISE EXCEPTION 'a shared budget of these retries is spent'
            USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME,
                CONSTRAINT = '{constraint}';
    END IF;
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(NEW.minute * 60), 0, v.made
    FROM unnest(NEW.scopes, NEW.made) AS v(scope, made)
    ORDER BY 1
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries;
    DELETE FROM sessions_app_retrycharge WHERE id = NEW.id;
    RETURN NULL;
END $$;
""".format(lock=0x5245_000E, constraint="retry_budget_has_room")
_TRIGGER = """
CREATE CONSTRAINT TRIGGER retry_charge AFTER INSERT ON sessions_app_retrycharge
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION reprise_charge_budgets();
"""
_NO_CHARGE = """
DROP TABLE sessions_app_retrycharge;
DROP FUNCTION reprise_charge_budgets;
"""
# The attempts before one of a chain, newest first, at most so many: its cause, its signature ("" if
# it made progress), and the budget and the time of its retry, if it was dispatched.
_PAST = """
CREATE OR REPLACE FUNCTION reprise_chain_past(root uuid, before int, most int)
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
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0087_config_version")]

    operations = [
        migrations.RunSQL(_TABLE + CHARGE + _TRIGGER, _NO_CHARGE),
        migrations.RunSQL(_PAST, "DROP FUNCTION reprise_chain_past"),
    ]
