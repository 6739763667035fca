-- The life of the database in which an event was written: see reprise/upkeep/restored.py.
--
-- It is a constant while the database lives, so that planning a statement is all that it costs; a
-- restore replaces it. STABLE and not IMMUTABLE: a plan that was made before must not go on with the
-- old one. It begins with the time and not with 0: the place of a reader of another database, which
-- had this address before, must not be ahead of everything that this one tells.
DO $migration$ BEGIN
    EXECUTE format(
        'CREATE FUNCTION reprise_epoch() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE '
        'AS $$ SELECT %s::bigint $$', extract(epoch FROM clock_timestamp())::bigint);
END $migration$;
