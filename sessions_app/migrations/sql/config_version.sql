-- A version tells processes whether what retries are decided by is still as they have read it.
--
-- It is random, not counted: no number comes twice, neither after a transaction that was rolled
-- back, nor in a database that was brought back to an earlier time. Its row is the last that a
-- change of configuration locks.
CREATE FUNCTION reprise_config_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessions_app_configversion (id, version) VALUES (1, gen_random_uuid())
    ON CONFLICT (id) DO UPDATE SET version = excluded.version;
    RETURN NULL;
END $$;
INSERT INTO sessions_app_configversion (id, version) VALUES (1, gen_random_uuid());
