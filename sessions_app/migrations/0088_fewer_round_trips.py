"""Functions let settle and dispatch do with fewer statements (decision 0068).

A statement that calls a function in a column pays for it only where it does; a subquery costs each
statement, also where it is not evaluated.
"""

from django.db import migrations

# Charges shared budgets. One lock for all guards them. What they made before is read once it is held:
# each statement of a function sees what was committed until then.
_CHARGE = """
CREATE OR REPLACE FUNCTION reprise_charge_budgets(
    slots bigint, this_minute bigint, scopes text[], retries_from bigint[], attempts_from bigint[],
    retries_made bigint[]
) RETURNS TABLE (of text, first_attempts bigint, retries bigint, head timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(slots);
    RETURN QUERY
        SELECT v.scope,
            coalesce(sum(m.first_attempts)
                FILTER (WHERE m.minute >= to_timestamp(v.attempts_from * 60)), 0)::bigint,
            coalesce(sum(m.retries), 0)::bigint,
            (SELECT min(d.held_order) FROM sessions_app_retrydecision d
                WHERE d.state = 'held' AND d.held_for = 'shared_budget' AND d.held_key = v.scope)
        FROM unnest($3, $4, $5) AS v(scope, retries_from, attempts_from)
        LEFT JOIN sessions_app_retrybudgetminute m
            ON m.scope = v.scope AND m.minute >= to_timestamp(v.retries_from * 60)
        GROUP BY v.scope;
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(this_minute * 60), 0, v.made
    FROM unnest($3, $6) AS v(scope, made)
    ORDER BY 1
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries;
END $$;
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
        migrations.RunSQL(_CHARGE, "DROP FUNCTION reprise_charge_budgets"),
        migrations.RunSQL(_PAST, "DROP FUNCTION reprise_chain_past"),
    ]
