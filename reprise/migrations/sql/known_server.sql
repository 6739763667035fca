-- Which server the database was last on, to be compared with the one it is on now.

-- The timeline of the WAL that is written now: that of the control file is the one before until the
-- first checkpoint after a promotion. Both are for every role. It fails on a standby.
CREATE FUNCTION reprise_server(OUT system_identifier bigint, OUT timeline bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.system_identifier,
        ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
    FROM pg_control_system() s
$$;
-- No model's: what empties the tables of models leaves it, and nobody changes it by a page.
CREATE TABLE reprise_knownserver (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO reprise_knownserver (system_identifier, timeline)
    SELECT system_identifier, timeline FROM reprise_server();
CREATE FUNCTION reprise_server_known() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM reprise_knownserver k, reprise_server() s
        WHERE k.system_identifier = s.system_identifier AND k.timeline = s.timeline)
$$;
