"""Few retries are charged to shared budgets side by side, as long as these have room (decision
0072)."""

from importlib import import_module

from django.db import migrations

_BEFORE = import_module("sessions_app.migrations.0088_fewer_round_trips")

PARTS = 8
"""Commits that charge side by side, at most. Each has a part of the minute: one of its first
seconds."""
MOST = 8
"""Retries of a scope, at most, that such a commit makes."""
RESERVED = PARTS * MOST
"""Retries that others may be charging: a budget that has less room is charged by one at a time."""

# Whether a budget has no room for these retries and `reserved` ones more, or an older chain waits
# for it.
_REFUSE = """
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
"""
# Who has the lock alone waits for all that share it. Who shares it holds the lock of a part, too,
# from before the look at the counts. So whoever looks last sees all charges but those of the other
# parts, and has left room for these.
CHARGE = """
CREATE OR REPLACE FUNCTION reprise_charge_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    part int := 0;
BEGIN
    IF {most} < ANY (NEW.made) OR reprise_budgets_refuse(NEW, 2 * {reserved}) THEN
        PERFORM pg_advisory_xact_lock({lock});
    ELSE
        PERFORM pg_advisory_xact_lock_shared({lock});
        FOR place IN pg_backend_pid() .. pg_backend_pid() + {parts} - 1 LOOP
            part := 1 + place % {parts};
            EXIT WHEN pg_try_advisory_xact_lock({lock}, part);
            part := 0;
        END LOOP;
        IF part = 0 THEN
            part := 1 + pg_backend_pid() % {parts};
            PERFORM pg_advisory_xact_lock({lock}, part);
        END IF;
    END IF;
    IF reprise_budgets_refuse(NEW, CASE part WHEN 0 THEN 0 ELSE {reserved} END) THEN
        RAISE EXCEPTION 'a shared budget of these retries is spent'
            USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME,
                CONSTRAINT = '{constraint}';
    END IF;
    INSERT INTO sessions_app_retrybudgetminute AS m (scope, minute, first_attempts, retries)
    SELECT v.scope, to_timestamp(NEW.minute * 60 + part), 0, v.made
    FROM unnest(NEW.scopes, NEW.made) AS v(scope, made)
    ORDER BY 1
    ON CONFLICT (scope, minute) DO UPDATE SET retries = m.retries + excluded.retries;
    DELETE FROM sessions_app_retrycharge WHERE id = NEW.id;
    RETURN NULL;
END $$;
""".format(
    lock=0x5245_000E,
    constraint="retry_budget_has_room",
    parts=PARTS,
    most=MOST,
    reserved=RESERVED,
)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0089_failure_totals")]

    operations = [
        migrations.RunSQL(
            _REFUSE + CHARGE,
            _BEFORE.CHARGE
            + "DROP FUNCTION reprise_budgets_refuse(sessions_app_retrycharge, bigint)",
        ),
    ]
