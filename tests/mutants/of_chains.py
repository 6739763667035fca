"""Bugs in what becomes of chains: their ends, their retries, and what people ask for."""

from tests.mutants.mutant import Mutant, integration
from tests.mutants.planting import Edit

DISPATCH = (
    Mutant(
        "dispatch-without-a-lock",
        (
            Edit(
                "sessions_app.locks.decisions:_CLAIM_DUE",
                "FOR NO KEY UPDATE OF r SKIP LOCKED FOR NO KEY UPDATE OF s, d",
                "",
            ),
        ),
        integration("races.py::test_two_dispatchers_of_one_decision"),
        judge=True,
    ),
    Mutant(
        "dispatch-by-an-old-decision",
        (
            Edit(
                "sessions_app.locks.decisions:_CLAIM_DUE",
                "FOR NO KEY UPDATE OF s, d",
                "FOR NO KEY UPDATE OF s",
            ),
        ),
        integration("races.py::test_a_dispatcher_that_waited_sees_what_others_have_sent_off"),
    ),
    Mutant(
        "dispatch-of-what-is-switched-off",
        (
            Edit(
                "sessions_app.services.chains.switch_holds:switch_holds",
                "return mode is Mode.OFF or",
                "return False and",
            ),
        ),
        integration("cancel_retry.py::test_a_waiting_retry_is_held_at_dispatch"),
    ),
    Mutant(
        "dispatch-that-forgets-its-slot",
        (
            Edit(
                "sessions_app.services.chains.dispatch:_dispatch",
                "for s in ready if s.id not in late]",
                "for s in ready]",
            ),
        ),
        integration("storm_limits.py::test_retries_over_the_limit_get_the_next_free_slots"),
    ),
    Mutant(
        "budget-that-nobody-charges",
        (
            Edit(
                "sessions_app.services.chains.dispatch:_dispatch",
                "gate.charge(writes, sent)",
                "pass",
            ),
        ),
        integration("shared_budgets.py::test_two_dispatchers_never_go_over_it"),
    ),
)

SETTLE = (
    Mutant(
        "settings-of-an-older-version",
        (
            Edit(
                "sessions_app.in_force.retry_scope:retry_scopes",
                "{(each.version, key): each for key, each in found.items() if each.version}",
                '{("", key): each for key, each in found.items()}',
            ),
            Edit(
                "sessions_app.in_force.retry_scope:scopes_in",
                '(version or "", project_id)',
                '("", project_id)',
            ),
        ),
        integration("config_version.py::test_a_change_counts_from_its_commit"),
    ),
    Mutant(
        "decision-written-after-the-commit",
        (
            Edit(
                "sessions_app.services.chains.settle:settle_locked",
                "decisions_insert(writes, decisions, now=now)",
                "from django.db import transaction; "
                "transaction.on_commit(lambda: decisions_insert(writes, decisions, now=now))",
            ),
        ),
        integration("settle.py::test_an_end_gets_its_cause_and_its_decision"),
        judge=True,
    ),
    Mutant(
        "decision-without-its-trace",
        (
            Edit(
                "sessions_app.services.chains.decisions:_TRACES",
                "new.decision.trace",
                "[]",
            ),
        ),
        integration("settle.py::test_an_end_gets_its_cause_and_its_decision"),
    ),
    Mutant(
        "late-success-accepted",
        (
            Edit(
                "scheduler.services.reports:_check",
                "if session.status in FINAL_STATUSES:",
                "if session.status in FINAL_STATUSES and report.status is not Status.TERMINATED:",
            ),
            Edit(
                "sessions_app.core.states:_transitions",
                "for status in FINAL_STATUSES}",
                "for status in FINAL_STATUSES} | {Status.ERROR: frozenset({Status.TERMINATED})}",
            ),
        ),
        integration(
            "reports.py::test_a_report_after_the_end_is_stale_or_a_duplicate",
            "expire.py::test_an_end_after_that_is_stale",
        ),
        judge=True,
    ),
    Mutant(
        "success-of-a-cancelled-run-counts",
        (
            Edit(
                "sessions_app.services.chains.settle:_understood",
                "if session.cancel_requested_at:",
                "if session.cancel_requested_at and termination.status != 'terminated':",
            ),
        ),
        integration("reports.py::test_cancel_wins_over_a_late_success"),
        judge=True,
    ),
)

PEOPLE = (
    Mutant(
        "cancel-ignores-a-held-retry",
        (
            Edit(
                "sessions_app.core.states:WAITING_RETRY",
                "GRANTED_RETRY | {RetryState.PARKED}",
                "frozenset({RetryState.SCHEDULED, RetryState.PARKED})",
            ),
        ),
        integration("cancel_retry.py::test_a_held_retry_can_be_cancelled"),
        judge=True,
    ),
    Mutant(
        "cancel-leaves-the-retry-waiting",
        (
            Edit(
                "sessions_app.services.sessions.cancel:_stop",
                "decisions_cancel([tip.id for tip in waiting]) if waiting else {}",
                "{}",
            ),
        ),
        integration("cancel_retry.py::test_a_waiting_retry_is_cancelled_and_never_comes"),
        judge=True,
    ),
    Mutant(
        "cancelled-retry-keeps-its-slot",
        (
            Edit(
                "sessions_app.services.sessions.cancel:_stop",
                "for tip in waiting if tip.id in slots]",
                "for tip in waiting if False]",
            ),
        ),
        integration("storm_limits.py::test_a_cancelled_retry_gives_its_slot_back"),
    ),
    Mutant(
        "dry-run-that-cancels",
        (Edit("sessions_app.services.sessions.cancel:chains_cancel", "if dry_run:", "if False:"),),
        integration("rest_bulk_actions.py::test_a_dry_run_says_the_same_and_changes_nothing"),
    ),
    Mutant(
        "bulk-cancel-of-what-it-refused",
        (
            Edit(
                "sessions_app.services.sessions.cancel:chains_cancel",
                "if refusals[root_id] is None and",
                "if",
            ),
        ),
        integration("cancel_retry_bulk.py::test_cancel_gives_each_chain_its_outcome"),
    ),
    Mutant(
        "dry-run-that-preempts",
        (
            Edit(
                "sessions_app.services.sessions.preempt:sessions_preempt",
                "if dry_run:",
                "if False:",
            ),
        ),
        integration("bulk_preempt.py::test_what_runs_is_stopped_and_the_rest_is_refused"),
    ),
    Mutant(
        "bulk-preempt-of-what-has-ended",
        (
            Edit(
                "sessions_app.services.sessions.preempt:_refusal",
                "if session.preempt_requested_at is None else _EndedSince(why)",
                "if session.preempt_requested_at is None else None",
            ),
        ),
        integration(
            "bulk_preempt.py::test_repeating_it_changes_nothing_until_another_attempt_runs"
        ),
    ),
    Mutant(
        "priority-of-what-waits-no-longer",
        (
            Edit(
                "sessions_app.services.sessions.priority:_refusal",
                "if session.status is Status.PENDING:",
                "if session.status:",
            ),
        ),
        integration("priority.py::test_only_what_waits_can_be_changed"),
    ),
    Mutant(
        "priority-that-leaves-its-class",
        (
            Edit(
                "sessions_app.services.sessions.priority:_change",
                "folded(before.rank, priority)",
                "priority",
            ),
        ),
        integration("priority.py::test_the_class_stays_and_retries_keep_the_priority"),
    ),
    Mutant(
        "manual-retry-of-a-chain-that-stays-cancelled",
        (
            Edit(
                "sessions_app.services.chains.manual_retry:_uncancel",
                "if each.chain.root.cancel_requested_at is not None",
                "if False",
            ),
        ),
        integration("cancel_retry.py::test_a_manual_retry_clears_a_cancellation"),
        judge=True,
    ),
    Mutant(
        "manual-retry-of-an-older-attempt",
        (
            Edit(
                "sessions_app.services.chains.manual_retry:_ended",
                "if tip.id != session_id:",
                "if False:",
            ),
        ),
        integration("cancel_retry.py::test_only_the_newest_attempt_can_be_retried"),
    ),
    Mutant(
        "secrets-for-the-program-of-another",
        (
            Edit(
                "sessions_app.services.secrets.changed:changed_secrets",
                "had.names if had.by is None or had.by != by else ()",
                "()",
            ),
        ),
        integration("secrets_of_others.py::test_whoever_changes_what_runs_does_not_get_them"),
    ),
    Mutant(
        "creation-id-finds-another-request",
        (
            Edit(
                "sessions_app.services.sessions.submit:_outcome",
                "found is not None and found.digest == root.digest and",
                "found is not None and",
            ),
        ),
        integration("rest_sessions.py::test_a_creation_id_with_another_body_is_a_conflict"),
    ),
)

DEPENDENCIES = (
    Mutant(
        "dependency-that-ends-while-it-is-looked-at",
        (Edit("sessions_app.locks.dependencies:_SHARE", "FOR SHARE", ""),),
        integration("dependency_races.py::test_an_end_waits_for_a_submission_that_looks_at_it"),
    ),
    Mutant(
        "dependant-that-waits-for-one-of-several",
        (
            Edit(
                "sessions_app.services.chains.dependants:dependants_judge",
                "if each.fails or not each.left",
                "if True",
            ),
        ),
        integration("dependencies.py::test_all_of_several_have_to_end"),
    ),
)
