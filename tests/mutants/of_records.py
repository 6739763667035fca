"""Bugs in what is counted, and in what the log tells."""

from tests.mutants.mutant import Mutant, integration, unit
from tests.mutants.planting import Edit

COUNTERS = (
    Mutant(
        "slots-without-a-lock",
        (Edit("sessions_app.services.chains.storm_slots:slots_reserve", "lock_slots()", "pass"),),
        integration("storm_limits.py::test_two_workers_give_each_slot_once"),
    ),
    Mutant(
        "quota-that-nobody-guards",
        (
            Edit(
                "sessions_app.services.write.usage:_MOVE",
                'AND (NOT v.guarded OR u."limit" IS NULL OR u.used + v.k <= u."limit")',
                "",
            ),
        ),
        integration("quota_races.py::test_two_at_the_last_place"),
    ),
    Mutant(
        "quota-that-is-never-given-back",
        (
            Edit(
                "sessions_app.services.write.usage:_sign",
                "1 if move.after is Phase.LIVE else -1",
                "1",
            ),
        ),
        integration("quotas.py::TestCounters::test_through_a_whole_chain"),
    ),
    Mutant(
        "one-retry-too-many",
        (Edit("retry.engine.case:check_budget", "used >= limit", "used > limit"),),
        unit("retry/test_decide.py::test_each_refusal"),
    ),
    Mutant(
        "excluded-exit-code-is-retried",
        (Edit("retry.engine.decide:_exit_code", "not denied and", ""),),
        unit("retry/test_decide.py::test_exit_codes_filter_failures_only"),
    ),
)

LOG = (
    Mutant(
        "numbers-of-events-with-gaps",
        (
            Edit(
                "sessions_app.services.write.transitions:_numbered",
                "event_seq + position + 1",
                "event_seq + position + 2",
            ),
        ),
        integration("settle.py::test_an_end_gets_its_cause_and_its_decision"),
    ),
    Mutant(
        "change-that-the-log-does-not-tell",
        (
            Edit(
                "sessions_app.services.write.transitions:_numbered",
                "{**facts, **data}",
                "{**data}",
            ),
        ),
        integration("fold.py::test_the_log_folds_to_the_row_at_every_moment"),
    ),
    Mutant(
        "fold-that-forgets-the-decision",
        (
            Edit(
                "sessions_app.core.fold:fold",
                '{**state.get("decision", {}), **data["decision"]}',
                'data["decision"]',
            ),
        ),
        unit("test_fold.py"),
    ),
    Mutant(
        "stream-past-an-open-transaction",
        (
            Edit(
                "sessions_app.eventlog.reading:_OF_JOB_SETS",
                "pg_snapshot_xmin(pg_current_snapshot())",
                "pg_snapshot_xmax(pg_current_snapshot())",
            ),
        ),
        integration("event_streams.py::test_an_event_waits_for_older_transactions"),
    ),
    Mutant(
        "outbox-out-of-order",
        (
            Edit(
                "sessions_app.webhooks.reader:_READ",
                "row_number() OVER (PARTITION BY endpoint_id, session_id ORDER BY seq) = 1",
                "true",
            ),
        ),
        integration("webhooks.py::test_a_session_waits_for_its_event_and_others_do_not"),
    ),
    Mutant(
        "archive-of-what-goes-on-again",
        (
            Edit(
                "sessions_app.locks.claims:_STILL_ENDED",
                "AND resting IN ('succeeded', 'exhausted', 'not_retried', 'cancelled')",
                "",
            ),
        ),
        integration("retention.py::test_a_chain_that_goes_on_again_is_left"),
    ),
    Mutant(
        "events-that-go-before-they-are-counted",
        (Edit("sessions_app.locks.claims:_CLAIM_ARCHIVED", "AND id <= %s", "AND %s >= 0"),),
        integration("retention.py::test_events_go_chain_by_chain_once_they_are_counted"),
    ),
)
