"""Dispatch looks less: at the sum of a chain's counters only if it has several of them, and at
shared budgets once while they have room."""

from importlib import import_module

from django.db import migrations

_COUNTERS = import_module("sessions_app.migrations.0028_counters_trigger")
_CHARGE = import_module("sessions_app.migrations.0090_charges_side_by_side")

# One budget has paid for all retries of most chains. A query inside a trigger costs 9 us.
_ADD_UP = """
CREATE OR REPLACE FUNCTION reprise_counters_add_up() RETURNS trigger LANGUAGE plpgsql AS $$
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
"""
# Few retries share the lock and take a part of it, as before, and then look once. If there is too
# little room for that, the subtransaction gives both locks back, and the lock is taken alone.
_LOOK_ONCE = """
CREATE OR REPLACE FUNCTION reprise_charge_budgets() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    part int := 0;
BEGIN
    IF {most} >= ALL (NEW.made) THEN
        BEGIN
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
            IF reprise_budgets_refuse(NEW, {reserved}) THEN
                RAISE no_data_found;
            END IF;
        EXCEPTION WHEN no_data_found THEN
            part := 0;
        END;
    END IF;
    IF part = 0 THEN
        PERFORM pg_advisory_xact_lock({lock});
        IF reprise_budgets_refuse(NEW, 0) THEN
            RAISE EXCEPTION 'a shared budget of these retries is spent'
                USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME,
                    CONSTRAINT = '{constraint}';
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
""".format(
    lock=0x5245_000E,
    constraint="retry_budget_has_room",
    parts=_CHARGE.PARTS,
    most=_CHARGE.MOST,
    reserved=_CHARGE.RESERVED,
)


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0090_charges_side_by_side")]

    operations = [
        migrations.RunSQL(_ADD_UP, _COUNTERS.COUNTERS),
        migrations.RunSQL(_LOOK_ONCE, _CHARGE.CHARGE),
    ]
