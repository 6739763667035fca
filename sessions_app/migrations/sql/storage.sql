-- How tables are stored.

-- Half of each page is free, so that updates find room on the page: a call leases and accepts all
-- the sessions that one call has inserted, and dispatch writes all decisions of a call again.
ALTER TABLE sessions_app_session SET (fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE sessions_app_retrydecision SET (fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
-- Small rows that are written all the time: each update finds room on its page.
ALTER TABLE sessions_app_projectusage SET (fillfactor = 30);
-- It is written often, and worth nothing after a crash.
ALTER TABLE sessions_app_requestbudget SET UNLOGGED;
-- How many sessions of a status there are, and of a cause, only both columns tell together.
CREATE STATISTICS session_ends (mcv) ON status, phase, retry_cause FROM sessions_app_session;
