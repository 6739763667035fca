-- The floor of settle and dispatch: the same rows in the same two transactions, by set-based
-- statements. `bench_target` holds the sessions of each batch, `bench_template` the bytes.
SELECT nextval('bench_batch') AS k \gset
BEGIN;
UPDATE sessions_app_session s SET status = 'ERROR', phase = 'final', finished_at = now(),
    exit_code = 3, node = 'node-1', status_message = 'boom', retry_state = 'scheduled',
    retry_cause = 'kernel_nonzero_exit', report_seq = 3, event_seq = 6
    FROM bench_target t WHERE t.batch = :k AND s.id = t.id;
INSERT INTO sessions_app_sessionevent
    (session_id, root_id, project_id, job_set, attempt, seq, type, time, data)
    SELECT t.id, t.id, p.id, 'bench', 0, v.seq, v.type, now(), v.data
    FROM bench_target t, sessions_app_project p, bench_template b, LATERAL (VALUES
        (5, 'session.error', b.error), (6, 'session.retry_scheduled', b.retry_scheduled))
        AS v(seq, type, data)
    WHERE t.batch = :k;
INSERT INTO sessions_app_retrydecision
    (session_id, state, action, reason, cause, rule, paid_by, used, "limit", delay, due_at,
     avoid_node, avoid_executor, termination, policy_revisions, decided_at, dispatched_by)
    SELECT t.id, 'scheduled', 'retry', 'inline_retry', 'kernel_nonzero_exit', '',
        'inline/failure', 0, 3, 0.001, now(), '', '', b.termination, '{}', now(), ''
    FROM bench_target t, bench_template b WHERE t.batch = :k;
INSERT INTO sessions_app_retrytrace (session_id, steps)
    SELECT t.id, b.steps FROM bench_target t, bench_template b WHERE t.batch = :k;
COMMIT;
BEGIN;
INSERT INTO sessions_app_session
    (id, spec_id, project_id, queue_id, owner_id, name, job_set, creation_id, session_type,
     priority, status, phase, status_message, created_at, node, executor, parent_id, root_id,
     root_submitted_at, tip, retry_count, max_retries, retry_policy, retry_policies,
     retry_counters, retry_cause, failure_category, retry_state, avoid_node, avoid_executors,
     lease_returns, report_seq, event_seq)
    SELECT t.child_id, p.spec_id, p.project_id, p.queue_id, p.owner_id, p.name, p.job_set,
        p.creation_id || chr(58) || 'retry' || chr(58) || '1', p.session_type, p.priority, 'PENDING', 'waiting', '', now(),
        '', '', p.id, p.root_id, p.root_submitted_at, true, 1, p.max_retries, p.retry_policy,
        p.retry_policies, '{"inline/failure": 1}', '', '', 'none', '', '[]', 0, 0, 1
    FROM bench_target t JOIN sessions_app_session p ON p.id = t.id WHERE t.batch = :k;
UPDATE sessions_app_retrydecision d SET state = 'dispatched', next_session_id = t.child_id,
    dispatched_at = now(), dispatched_by = ''
    FROM bench_target t WHERE t.batch = :k AND d.session_id = t.id;
UPDATE sessions_app_session s SET tip = false, retry_state = 'retried', event_seq = 7
    FROM bench_target t WHERE t.batch = :k AND s.id = t.id;
INSERT INTO sessions_app_sessionevent
    (session_id, root_id, project_id, job_set, attempt, seq, type, time, data)
    SELECT v.session_id, t.id, p.id, 'bench', v.attempt, v.seq, v.type, now(), v.data
    FROM bench_target t, sessions_app_project p, bench_template b, LATERAL (VALUES
        (t.id, 0, 7, 'session.retry_dispatched', b.retry_dispatched),
        (t.child_id, 1, 1, 'session.submitted', b.submitted))
        AS v(session_id, attempt, seq, type, data)
    WHERE t.batch = :k;
INSERT INTO sessions_app_automaticdispatch (id, time, via, object_id, project, domain, root, data)
    SELECT nextval('sessions_app_auditentry_id_seq'), now(), '{}', t.id::text, '', '', NULL, b.audit
    FROM bench_target t, bench_template b WHERE t.batch = :k;
COMMIT;
