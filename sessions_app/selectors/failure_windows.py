"""SQL of the figures of failures in a time: differences of totals, and the hours around these.

`a` are the first totals of a ledger in the time and `z` the last ones: `z` without `a` is what
happened between them. Rows of hours are read before `a` and from `z` on only; all of the time is
read so if it has no two totals. Times begin and end with an hour.

Long arrays are unnested in the list of columns, which costs less than in `FROM`. Shorter ones are
filled up with NULL there, too.
"""

_FIRST = """
    SELECT {columns} FROM sessions_app_failuretotals t WHERE t.ledger_id = l.id
        AND t.hour >= {since} AND t.hour <= {until} ORDER BY t.hour LIMIT 1
"""
_LAST = """
    SELECT {columns} FROM sessions_app_failuretotals t WHERE t.ledger_id = l.id
        AND t.hour > a.hour AND t.hour <= {until} ORDER BY t.hour DESC LIMIT 1
"""
_FIRST_ASKED = _FIRST.format(columns="*", since="%(since)s", until="%(until)s")
_LAST_ASKED = _LAST.format(columns="*", until="%(until)s")
# PostgreSQL knows little about how many rows there are: with `OFFSET 0` it has to look them up.
_AROUND = """
    (SELECT {columns} FROM sessions_app_failurehour h
    WHERE {of} AND h.hour >= {since} AND h.hour < {a}
    UNION ALL
    SELECT {columns} FROM sessions_app_failurehour h
    WHERE {of} AND h.hour >= {z} AND h.hour < {until}
    OFFSET 0)
"""
_OF_PLACE = """
    h.project_id = r.project_id AND h.dimension = %(dimension)s AND h.value = r.value
"""
_PLACES = """
    unnest(%(projects)s::bigint[]) AS p(project_id)
    CROSS JOIN unnest(%(values)s::text[]) AS v(value)
"""

_AROUND_PLACE = _AROUND.format(
    columns="h.*", of=_OF_PLACE, since="%(since)s", a="r.a", z="r.z", until="%(until)s"
)
OF_SIGNATURES = f"""
    WITH pairs AS MATERIALIZED (
        SELECT l.project_id, l.value, l.names, a.hour AS a, z.hour AS z,
            a.sessions AS a1, a.chains AS a2, a.recovered_chains AS a3, a.lost_run_seconds AS a4,
            z.sessions AS z1, z.chains AS z2, z.recovered_chains AS z3, z.lost_run_seconds AS z4
        FROM {_PLACES} JOIN sessions_app_failureledger l ON l.project_id = p.project_id
            AND l.dimension = %(dimension)s AND l.value = v.value AND l.key = ''
        CROSS JOIN LATERAL ({_FIRST_ASKED}) AS a
        CROSS JOIN LATERAL ({_LAST_ASKED}) AS z
    ), around AS (
        SELECT project_id, value, coalesce(min(a), %(until)s) AS a, coalesce(max(z), %(until)s) AS z
        FROM {_PLACES} LEFT JOIN pairs USING (project_id, value) GROUP BY 1, 2
    )
    SELECT project_id, key, sum(sessions) AS sessions, sum(chains) AS chains,
        sum(recovered_chains) AS recovered_chains, sum(lost_run_seconds) AS lost_run_seconds
    FROM (
        SELECT n.project_id, n.key, n.z1 - coalesce(n.a1, 0) AS sessions,
            n.z2 - coalesce(n.a2, 0) AS chains, n.z3 - coalesce(n.a3, 0) AS recovered_chains,
            n.z4 - coalesce(n.a4, 0) AS lost_run_seconds
        FROM (SELECT project_id, unnest(names) AS key,
                unnest(a1) AS a1, unnest(a2) AS a2, unnest(a3) AS a3, unnest(a4) AS a4,
                unnest(z1) AS z1, unnest(z2) AS z2, unnest(z3) AS z3, unnest(z4) AS z4
            FROM pairs) AS n
        UNION ALL
        SELECT r.project_id, h.key, h.sessions::integer, h.chains::integer,
            h.recovered_chains::integer, h.lost_run_seconds
        FROM around r CROSS JOIN LATERAL {_AROUND_PLACE} AS h
        UNION ALL
        SELECT project_id, %(key)s, 0, 0, 0, 0 FROM unnest(%(projects)s::bigint[]) AS p(project_id)
    ) AS added
    WHERE key = coalesce(%(key)s::text, key) GROUP BY 1, 2
    HAVING %(key)s::text IS NOT NULL
        OR sum(sessions) > 0 OR sum(chains) > 0 OR sum(recovered_chains) > 0
"""
"""The figures of each signature with failures or recoveries in the time: of all of these, or of
those of one queue, image or node. Of one signature also if nothing of it happened in the time."""

# `|| '{}'` unpacks a long array once, not for each of its elements that is read.
_PICKED = """
    SELECT t.hour, ARRAY(SELECT t.plain[n.place] FROM unnest(l.places) WITH ORDINALITY
        AS n(place, at) ORDER BY n.at) AS sessions
    FROM ({totals}) AS t
"""
_PLAIN = "t.hour, t.sessions || '{}'::integer[] AS plain"
_FIRST_PICKED = _PICKED.format(
    totals=_FIRST.format(columns=_PLAIN, since="b.since", until="b.until")
)
_LAST_PICKED = _PICKED.format(totals=_LAST.format(columns=_PLAIN, until="b.until"))
_AROUND_BIN = _AROUND.format(
    columns="h.key, h.sessions", of=_OF_PLACE, since="r.since", a="r.a", z="r.z", until="r.until"
)
# `IS TRUE` makes a filter of what would be a join, whose size PostgreSQL cannot tell.
SPARKLINES = f"""
    WITH shown AS (
        SELECT project_id, array_agg(key) AS keys
        FROM unnest(%(projects)s::bigint[], %(keys)s::text[]) AS v(project_id, key) GROUP BY 1
    ), bins AS (
        SELECT bin - 1 AS bin, since, until
        FROM unnest(%(begins)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY
            AS b(since, until, bin) WHERE since < until
    ), ledgers AS MATERIALIZED (
        SELECT l.id, l.project_id, l.value, l.keys, ARRAY(
            SELECT array_position(l.names, n.key) FROM unnest(l.keys) WITH ORDINALITY
                AS n(key, at) ORDER BY n.at) AS places
        FROM (SELECT l.id, l.project_id, l.value, s.keys, l.names || '{{}}'::varchar[] AS names
            FROM shown s CROSS JOIN unnest(%(values)s::text[]) AS v(value)
            JOIN sessions_app_failureledger l ON l.project_id = s.project_id
                AND l.dimension = %(dimension)s AND l.value = v.value AND l.key = ''
            OFFSET 0) AS l
    ), pairs AS MATERIALIZED (
        SELECT l.project_id, l.value, l.keys, b.bin, a.hour AS a, z.hour AS z,
            a.sessions AS a_sessions, z.sessions AS z_sessions
        FROM ledgers l CROSS JOIN bins b
        CROSS JOIN LATERAL ({_FIRST_PICKED}) AS a
        CROSS JOIN LATERAL ({_LAST_PICKED}) AS z
    ), around AS (
        SELECT s.project_id, v.value, b.bin, b.since, b.until, coalesce(min(p.a), b.until) AS a,
            coalesce(max(p.z), b.until) AS z
        FROM shown s CROSS JOIN unnest(%(values)s::text[]) AS v(value) CROSS JOIN bins b
        LEFT JOIN pairs p ON p.project_id = s.project_id AND p.value = v.value AND p.bin = b.bin
        GROUP BY 1, 2, 3, 4, 5
    )
    SELECT project_id, key, bin, sum(sessions) FROM (
        SELECT p.project_id, n.key, p.bin, coalesce(n.z, 0) - coalesce(n.a, 0) AS sessions
        FROM pairs p CROSS JOIN LATERAL
            unnest(p.keys, p.a_sessions, p.z_sessions) AS n(key, a, z)
        UNION ALL
        SELECT r.project_id, h.key, r.bin, h.sessions::integer
        FROM around r CROSS JOIN LATERAL {_AROUND_BIN} AS h
        WHERE ((r.project_id, h.key) IN (
            SELECT * FROM unnest(%(projects)s::bigint[], %(keys)s::text[]))) IS TRUE
    ) AS added
    GROUP BY 1, 2, 3 HAVING sum(sessions) > 0
"""
"""The failed attempts of the signatures of a page in each bin of the time. A bin is a time of its
own; one that has no beginning of an hour in it is empty."""

_OF_VALUES = """
    h.project_id = v.project_id AND h.key = v.key AND h.dimension = d.dimension AND h.value <> ''
"""
_AROUND_SIGNATURE = _AROUND.format(
    columns="h.value, h.sessions",
    of=_OF_VALUES,
    since="%(since)s",
    a="coalesce((SELECT min(a) FROM pairs), %(until)s)",
    z="coalesce((SELECT max(z) FROM pairs), %(until)s)",
    until="%(until)s",
)
MOST_FREQUENT = f"""
    SELECT v.project_id, v.key, d.dimension, t.value, t.sessions
    FROM unnest(%(projects)s::bigint[], %(keys)s::text[]) AS v(project_id, key)
    CROSS JOIN unnest(%(dimensions)s::text[]) AS d(dimension)
    CROSS JOIN LATERAL (
        WITH pairs AS MATERIALIZED (
            SELECT l.names, a.hour AS a, z.hour AS z, a.sessions AS a_sessions,
                z.sessions AS z_sessions
            FROM sessions_app_failureledger l
            CROSS JOIN LATERAL ({_FIRST_ASKED}) AS a
            CROSS JOIN LATERAL ({_LAST_ASKED}) AS z
            WHERE l.project_id = v.project_id AND l.dimension = d.dimension AND l.value = ''
                AND l.key = v.key)
        SELECT value, sum(sessions) AS sessions FROM (
            SELECT n.value, n.z - coalesce(n.a, 0) AS sessions
            FROM (SELECT unnest(names) AS value, unnest(a_sessions) AS a, unnest(z_sessions) AS z
                FROM pairs) AS n
            WHERE n.z <> coalesce(n.a, 0)
            UNION ALL
            SELECT h.value, h.sessions::integer FROM {_AROUND_SIGNATURE} AS h) AS added
        GROUP BY 1 HAVING sum(sessions) > 0 ORDER BY 2 DESC, 1 LIMIT %(top)s) AS t
    ORDER BY 1, 2, 3, 5 DESC, 4
"""
"""The queues, images and nodes with most failed attempts, of each signature of a page."""
