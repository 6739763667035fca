"""Tests that a sweep reads as much as it has to do, not as much as there is."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from retry.engine.decide import Mode
from retry.evidence.termination import Termination
from retry.policies.shared_budget import SharedBudget
from scheduler.models import Executor, Lease
from scheduler.services import expire
from scheduler.services.executors import lease_silence
from sessions_app.core.cursors import START
from sessions_app.db.bulk import columns
from sessions_app.eventlog import places
from sessions_app.eventlog.places import position_here, stretch_range
from sessions_app.locks import claims
from sessions_app.models import Project, RetryDecision, RetrySettings, Session
from sessions_app.selectors import uncharged_retries
from sessions_app.services.breakers.sweep import breakers_sweep
from sessions_app.services.budgets.sweep import budgets_sweep
from sessions_app.services.chains.breaker_holds import breaker_held_resume
from sessions_app.services.chains.over_budget import over_budget_resume
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.failures import chain_ends, reading
from tests.factories import executor, policy, project, submit, user
from tests.invariants import check_all

MANY = 120


def switch(mode: Mode, **scope: Any) -> None:
    RetrySettings.objects.update_or_create(**scope, defaults={"mode": mode.value})


def held(at: Project, count: int) -> list[Session]:
    """Failed sessions of a paused project."""
    switch(Mode.PAUSED, project=at)
    owner = user(superuser=True)
    sessions = [submit(at, owner=owner, retry_policy=policy()) for _ in range(count)]
    sessions_settle({session.pk: End(Termination(exit_code=1)) for session in sessions})
    assert RetryDecision.objects.filter(session__project=at, state="held").count() == count
    return sessions


def most_rows(query: str, parameters: Any) -> float:
    """The most rows that any step of a statement's plan yields, with the plan of a large table."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        for kind in ("seqscan", "bitmapscan", "sort", "hashjoin"):
            cursor.execute(f"SET LOCAL enable_{kind} = off")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", parameters)
        (answer,) = cursor.fetchone()
    plan = json.loads(answer) if isinstance(answer, str) else answer
    rows = [each["Actual Rows"] * each["Actual Loops"] for each in steps(plan[0]["Plan"])]
    return float(max(rows))


def steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from steps(part)


def test_retries_that_stay_held_are_not_read() -> None:
    held(project(), MANY)
    assert most_rows(claims._CLAIM_RESUMABLE, {"limit": 200}) < MANY / 2
    assert held_resume() == 0


def test_held_retries_of_every_project_that_is_on_are_resumed() -> None:
    off, *on = [project() for _ in range(4)]
    sessions = [held(at, count) for at, count in zip([off, *on], (2, 3, 1, 4), strict=True)]
    for at in on:
        switch(Mode.ON, project=at)
    assert [held_resume(3), held_resume(3), held_resume(3)] == [3, 3, 2]
    assert held_resume() == 0
    states = dict(RetryDecision.objects.values_list("session", "state"))
    assert [{states[each.pk] for each in group} for group in sessions] == [
        {"held"}, {"scheduled"}, {"scheduled"}, {"scheduled"},
    ]  # fmt: skip
    assert check_all() == []


@pytest.mark.parametrize("above", ["cluster", "domain"])
def test_a_switch_above_holds_them(above: str) -> None:
    at = project()
    held(at, 1)
    switch(Mode.ON, project=at)
    scope = {"domain": at.domain} if above == "domain" else {"domain": None, "project": None}
    switch(Mode.OFF, **scope)
    assert held_resume() == 0
    switch(Mode.ON, **scope)
    assert held_resume() == 1


def test_retries_that_come_later_without_a_slot_are_not_read() -> None:
    at = project()
    owner = user(superuser=True)
    later = policy(retry_delay=900)
    sessions = [submit(at, owner=owner, retry_policy=later) for _ in range(MANY)]
    sessions_settle({session.pk: End(Termination(exit_code=1)) for session in sessions})
    RetryDecision.objects.filter(session=sessions[0]).update(paced=True)
    scopes = uncharged_retries._SCOPES.named(["cluster"], [1000], [SharedBudget()])
    asked = {**scopes, "uncounted": "{}", "platform": "{}", "without": "{}"}
    for due in (None, timezone.now()):
        assert most_rows(uncharged_retries._UNCHARGED, {**asked, "due": due}) < MANY / 2


def test_leases_of_executors_that_call_are_not_read() -> None:
    at, calls, silent = project(), executor(), executor()
    Executor.objects.update(last_seen_at=timezone.now())
    Executor.objects.filter(pk=silent.pk).update(last_seen_at=timezone.now() - timedelta(days=1))
    granted = [
        Lease(
            session=submit(at), executor=silent if token == 1 else calls, fencing_token=token,
            granted_at=timezone.now(), accepted=True, queue_id=1, scheduling_key=1,
        )
        for token in range(1, MANY + 1)
    ]  # fmt: skip
    Lease.objects.bulk_create(granted)
    silence = lease_silence()
    assert most_rows(expire._SILENT, [silence, expire.BATCH]) < MANY / 2
    assert list(expire._overdue(expire._SILENT, [silence])) == [granted[0].session_id]


def test_a_stretch_of_a_log_that_has_just_grown_is_read_by_indexes() -> None:
    held(project(), MANY)
    with transaction.atomic(), connection.cursor() as cursor:
        here = position_here()
        wanted = {**stretch_range(START, here), "states": chain_ends._STATES, "limit": 10}
        plans = []
        for query, values in (
            (places._REACH, wanted),
            (reading._ENDS, wanted),
            (chain_ends._ENDS, wanted),
            (chain_ends._ATTEMPTS, columns([(1, uuid4(), 0)])),
        ):
            cursor.execute(f"EXPLAIN {query}", values)
            plans += [line for (line,) in cursor.fetchall()]
    for table in ("sessions_app_sessionevent", "sessions_app_session "):
        assert not [line for line in plans if f"Seq Scan on {table}" in line]


@pytest.mark.parametrize(
    ("sweep", "most"),
    [
        (breakers_sweep, 1),
        (budgets_sweep, 1),
        (over_budget_resume, 1),
        (breaker_held_resume, 3),  # one of them, and its transaction
    ],
)
def test_what_nobody_asks_for_costs_a_sweep_one_statement(
    sweep: Callable[[], int], most: int
) -> None:
    held(project(), 2)
    with CaptureQueriesContext(connection) as captured:
        assert sweep() == 0
    assert len(captured) == most, captured.captured_queries
