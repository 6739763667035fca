-- The sessions of `session_history.py`, one a row, by their position in time. In each 16 of them
-- there are four chains of one attempt, three of two and one of six, which overlap.
CREATE FUNCTION pg_temp.at(place bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT to_timestamp(%(began)s) + place * make_interval(secs => %(step)s) $$;
CREATE FUNCTION pg_temp.id(place bigint) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT (lpad(to_hex(((%(began)s + place * %(step)s) * 1000)::bigint), 12, '0') || '70008000'
        || lpad(to_hex(place), 12, '0'))::uuid $$;
CREATE VIEW pg_temp.past AS
SELECT n.*, pg_temp.id(n.position) AS id, pg_temp.at(n.position) AS created_at,
    pg_temp.id(n.first) AS root_id, pg_temp.at(n.first) AS root_at,
    pg_temp.id(n.before) AS parent_id, pg_temp.id(n.after) AS child_id,
    CASE WHEN rare = 'project' THEN 12 WHEN rare <> '' OR draw < 30 THEN 0
        ELSE 1 + draw %% 11 END AS project,
    CASE WHEN chain %% 4 = 0 THEN 0 ELSE 1 + chain %% 39 END AS owner,
    'node-' || CASE WHEN position %% 4 = 0 THEN 0 ELSE position %% 400 END AS node,
    'executor-' || position %% 8 AS executor,
    CASE WHEN NOT done THEN 'unfinished' WHEN rare IN ('failed', 'cancelled') THEN rare
        WHEN after IS NULL AND luck < 70 THEN 'succeeded' ELSE 'error' END AS ending
FROM (
    SELECT p.position, p.done, p.luck, p.j, (p.position - p.j) / 16 AS block,
        p.position - p.j + (ARRAY[0,1,2,1,4,5,2,1,8,9,5,1,12,1,9,1])[p.j + 1] AS first,
        p.position - p.j + (ARRAY[NULL,NULL,NULL,1,NULL,NULL,2,3,NULL,NULL,5,7,NULL,11,9,13])[p.j + 1]
            AS before,
        p.position - p.j + (ARRAY[NULL,3,6,7,NULL,10,NULL,11,NULL,14,NULL,13,NULL,15,NULL,NULL])[p.j + 1]
            AS after,
        (ARRAY[0,0,0,1,0,0,1,2,0,0,1,3,0,4,1,5])[p.j + 1] AS attempt,
        c.chain, (c.chain * 8191) %% 100 AS draw,
        CASE WHEN p.done AND p.j = 0 AND p.position BETWEEN 16 AND 95 THEN 'failed'
            WHEN p.done AND p.j = 0 AND p.position BETWEEN 96 AND 175 THEN 'cancelled'
            WHEN p.done AND p.j = 0 AND p.position BETWEEN 176 AND 255 THEN 'project'
            ELSE '' END AS rare
    FROM (
        SELECT i AS position, i < %(unfinished)s AS done, (i * 7919) %% 100 AS luck,
            -- Those that have not ended are the first attempts of their chains.
            CASE WHEN i < %(unfinished)s THEN (i %% 16)::int ELSE 0 END AS j
        FROM generate_series(0::bigint, %(count)s - 1) AS i
    ) p,
    LATERAL (SELECT (p.position - p.j) / 2
        + (ARRAY[0,1,2,1,3,4,2,1,5,6,4,1,7,1,6,1])[p.j + 1] AS chain) c
    OFFSET 0 -- each is worked out once, not wherever it is mentioned
) n
