"""Bugs in what executors are given, and believed."""

from tests.mutants.mutant import Mutant, integration, unit
from tests.mutants.planting import Edit

FENCING = (
    Mutant(
        "progress-under-any-token",
        (
            Edit(
                "scheduler.locks:_NOTE_PROGRESS",
                "USING (session_id, fencing_token)",
                "ON f.session_id = t.session_id",
            ),
        ),
        integration("progress.py::test_it_counts_only_under_the_lease"),
    ),
    Mutant(
        "fencing-token-ignored",
        (
            Edit(
                "scheduler.services.reports:_check",
                "report.fencing_token != session.fencing_token",
                "False",
            ),
        ),
        integration(
            "reports.py::test_the_token_is_looked_at_before_the_number",
            "reports.py::test_a_report_under_the_lease_before_this_one_is_stale",
        ),
        judge=True,
    ),
    Mutant(
        "fencing-token-of-output-ignored",
        (
            Edit(
                "sessions_app.services.sessions.logs:logs_append",
                "tokens.get(piece.session_id) != piece.fencing_token",
                "piece.session_id not in tokens",
            ),
        ),
        integration("logs.py::test_an_old_token_is_stale"),
    ),
    Mutant(
        "one-fencing-token-for-all",
        (
            Edit(
                "scheduler.locks:next_fencing_tokens",
                "[token for token, _ in rows]",
                "[rows[0][0]] * count",
            ),
        ),
        integration("fold.py::test_the_log_folds_to_the_row_at_every_moment"),
        judge=True,
    ),
    Mutant(
        "superseded-agent-is-heard",
        (
            Edit(
                "scheduler.services.executors:executor_check",
                "if known != incarnation:",
                "if False:",
            ),
        ),
        integration("reports.py::test_a_superseded_agent_is_told_so"),
    ),
)

LEASES = (
    Mutant(
        "lease-without-a-lock",
        (Edit("scheduler.locks:_CLAIM_WAITING_SESSIONS", "FOR NO KEY UPDATE SKIP LOCKED", ""),),
        integration("races.py::test_two_executors_lease_at_once"),
    ),
    Mutant(
        "leases-that-are-held-take-no-room",
        (
            Edit(
                "scheduler.allocation.supply:Supply.slots",
                "- sum(each.leases for each in self.leases)",
                "",
            ),
        ),
        integration("leases.py::test_no_more_is_leased_than_the_executor_takes"),
    ),
    Mutant(
        "leases-that-wait-for-a-new-node-take-no-room-there",
        (
            Edit(
                "scheduler.allocation.holdings:room_beside",
                "room.take(ask, nodes=nodes, template=each.template)",
                "room.take(ask, nodes=nodes)",
            ),
        ),
        integration("node_templates.py::test_no_more_is_leased_than_templates_can_still_bring"),
    ),
    Mutant(
        "new-nodes-are-waited-for-among-those-kept-free",
        (
            Edit(
                "scheduler.allocation.claims:Claims._claimed",
                "site.nodes_left_out(line, kept if plan.template else ())",
                "site.nodes_left_out(line, ())",
            ),
        ),
        integration(
            "node_templates.py::"
            "test_who_waits_for_a_new_node_stays_away_from_nodes_that_are_kept_free"
        ),
    ),
    Mutant(
        "preemption-forgets-what-is-underway",
        (
            Edit(
                "scheduler.services.preemption_view:view_now",
                "found.moved(real.changes())",
                "found.moved([])",
            ),
        ),
        integration(
            "making_room_for_many.py::test_a_queue_of_small_sessions_gets_its_share_by_one_sweep"
        ),
    ),
    Mutant(
        "room-of-a-taker-is-given-to-others",
        (
            Edit(
                "scheduler.core.preemption_plans:Plans",
                "self._taken[plan.nodes[0]].append(taker.ask.amounts)",
                "pass",
            ),
        ),
        unit(
            "test_preemption_plans.py::test_the_room_that_one_taker_gets_is_not_planned_for_the_next"
        ),
    ),
    Mutant(
        "lease-call-that-was-overtaken",
        (
            Edit(
                "scheduler.services.executors:_HEARTBEAT",
                "AND (%(round)s = 0 OR e.round <= %(round)s)",
                "",
            ),
        ),
        integration("leases.py::test_a_lease_call_that_comes_late_ends_nothing"),
    ),
    Mutant(
        "replaced-agent-counts-as-fenced",
        (
            Edit(
                "scheduler.services.executors:_HEARTBEAT",
                "coalesce(e.fenced_at < clock_timestamp(), true)",
                "true",
            ),
        ),
        integration(
            "started_twice.py::test_runs_of_the_first_agent_do_not_end_by_the_word_of_the_second"
        ),
    ),
    Mutant(
        "run-that-is-gone-goes-on",
        (
            Edit(
                "scheduler.services.executors:_reconcile",
                "[s for s in sessions if s.accepted_at is not None] if fenced else []",
                "[]",
            ),
        ),
        integration("leases.py::test_an_accepted_run_that_is_not_known_has_ended"),
    ),
)

EXPIRY = (
    Mutant(
        "lost-run-forgets-its-progress",
        (
            Edit(
                "scheduler.services.executors:lost_ends",
                "progress=told.get(session.id)",
                "progress=None",
            ),
        ),
        integration("progress.py::test_a_lost_run_keeps_what_it_told"),
    ),
    Mutant(
        "silence-without-grace",
        (
            Edit(
                "scheduler.services.executors:lease_silence",
                'settings.REPRISE["lease_ttl"] + settings.REPRISE["lease_grace"]',
                'settings.REPRISE["lease_ttl"]',
            ),
        ),
        integration("expire.py::test_a_silent_executor_loses_its_runs_after_ttl_and_grace"),
    ),
    Mutant(
        "lost-run-settled-at-once",
        (
            Edit(
                "scheduler.services.expire:_UNCONFIRMED",
                "clock_timestamp() - make_interval(",
                "clock_timestamp() + make_interval(",
            ),
        ),
        integration("expire.py::test_a_lost_run_that_nobody_confirms_settles_unfenced"),
    ),
    Mutant(
        "expiry-of-what-was-accepted-meanwhile",
        (
            Edit(
                "scheduler.services.expire:_expire_unaccepted",
                "[s for s in _locked(overdue) if s.accepted_at is None]",
                "_locked(overdue)",
            ),
        ),
        integration(
            "races.py::test_a_lease_that_is_accepted_between_the_look_and_the_lock_of_expiry"
        ),
    ),
)

STARTS = (
    Mutant(
        "start-judged-by-what-a-silent-executor-said",
        (Edit("scheduler.services.verify:_is_so", "return row.heard and", "return True or"),),
        integration(
            "start_verification.py::TestBelieved::test_a_silent_executor_says_nothing_about_now"
        ),
    ),
    Mutant(
        "suspicion-is-a-verdict",
        (
            Edit(
                "scheduler.core.start_checks:check",
                "failed, watch = watch.suspected,",
                "failed, watch = True,",
            ),
        ),
        unit("test_start_checks.py::test_a_passing_reason_fails_when_it_is_seen_again"),
    ),
)
