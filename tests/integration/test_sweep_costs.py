"""What a sweep reads grows with what it has to do, not with what merely lies there."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from retry.engine.decide import Mode
from retry.evidence.termination import Termination
from sessions_app.locks import claims
from sessions_app.models import Project, RetryDecision, RetrySettings, Session
from sessions_app.services.chains.dispatch import held_resume
from sessions_app.services.chains.settle import End, sessions_settle
from tests.factories import policy, project, submit, user
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
