"""The switch is flipped while thousands of retries wait: held at once, none lost, none twice."""

from collections import Counter
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Count

from interfaces.requests.bodies import SessionCreate
from retry.engine.decide import Mode
from retry.evidence.termination import Termination
from sessions_app import tasks, wakeups
from sessions_app.in_force.config_scope import ConfigScope
from sessions_app.models import Project, Queue, RetryDecision, Session, SessionEvent
from sessions_app.services.chains.dispatch import BATCH, retries_dispatch
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.chains.switch_holds import held_resume
from sessions_app.services.resources.retry_config import retry_settings_put
from sessions_app.services.sessions.submission import Placed
from sessions_app.services.sessions.submit import Submitted, sessions_submit
from sessions_app.tasks import MAX_BATCHES, dispatch_due_retries, sweep_retries
from tests.factories import policy, project, tip
from tests.integration.test_storm_limits import due_again, minute_of
from tests.integration.test_wakeups import Unstarted
from tests.invariants import check_all

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

RUN = BATCH * MAX_BATCHES
MANY = RUN + 1000
LIMIT = 1500


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Unstarted:
    made = Unstarted()
    monkeypatch.setattr(wakeups, "publisher", made)
    return made


def failed(at: Project, owner: User, count: int) -> list[Session]:
    """Sessions whose retries are due, in bulk."""
    asked = SessionCreate(command=["true"], retry_policy=policy()).submission()
    placed = Placed(Queue.objects.get(project=at, is_default=True), owner.pk, asked)
    for start in range(0, count, 1000):
        made = sessions_submit([placed] * min(1000, count - start))
        ids = [each.session_id for each in made if isinstance(each, Submitted)]
        sessions_settle({session_id: End(Termination(exit_code=1)) for session_id in ids})
    return list(Session.objects.filter(project=at))


def switch(at: Project, mode: Mode) -> None:
    retry_settings_put(ConfigScope(project=at), mode=mode, by="root")


def states() -> Counter[str]:
    rows = RetryDecision.objects.values_list("state").annotate(Count("pk"))
    return Counter(dict(rows))


def run_all(publisher: Unstarted, task: Any) -> int:
    """Run a task as often as it asks for it; how often that was."""
    runs = 0
    while runs == 0 or publisher._sweep or publisher._sends:
        publisher._sends.clear()
        publisher._known.clear()
        publisher._sweep = False
        task()
        runs += 1
    return runs


def test_thousands_are_held_and_come_back_paced(publisher: Unstarted, owner: User) -> None:
    off, other = project(), project()
    failed(off, owner, MANY)
    (free,) = failed(other, owner, 1)
    switch(off, Mode.OFF)

    # The other project's retry is due last; it comes once those before it are out of the way.
    publisher._sends.clear()
    assert run_all(publisher, dispatch_due_retries) <= MANY // RUN + 2
    assert states() == {"held": MANY, "dispatched": 1}
    assert tip(free).retry_count == 1
    assert retries_dispatch().claimed == held_resume() == 0

    retry_settings_put(ConfigScope(), retries_per_minute=LIMIT, by="root")
    switch(off, Mode.ON)
    assert publisher._sweep
    # One for each run that is full, and one that finds nothing; hints are for the slots.
    for _ in range(MANY // RUN + 2):
        sweep_retries()
    assert states()["held"] == 0
    per_minute = Counter(went_in(off) + waits_in(off))
    assert max(per_minute.values()) <= LIMIT
    assert sum(per_minute.values()) == MANY
    assert len(per_minute) <= MANY // LIMIT + 2
    # Whose slot has come since is on its way already.
    postponed = SessionEvent.objects.filter(type="session.retry_postponed", data__has_key="due_at")
    given = RetryDecision.objects.filter(paced=True)
    assert set(postponed.values_list("session_id", flat=True)) == set(
        given.values_list("pk", flat=True)
    )
    assert postponed.count() == given.count() >= states()["scheduled"]

    while waiting := list(Session.objects.filter(retry_state="scheduled")[:1000]):
        due_again(*waiting)
        while retries_dispatch().claimed:
            pass
    assert states() == {"dispatched": MANY + 1}
    assert Session.objects.filter(retry_count=1, parent__project=off).count() == MANY
    assert check_all() == []


def went_in(at: Project) -> list[datetime]:
    made = Session.objects.filter(parent__project=at).values_list("created_at", flat=True)
    return [minute_of(moment) for moment in made]


def waits_in(at: Project) -> list[datetime]:
    rows = RetryDecision.objects.filter(session__project=at, state="scheduled")
    return [minute_of(due) for due in rows.values_list("due_at", flat=True) if due]


def test_a_full_run_asks_for_the_next_at_once(
    publisher: Unstarted, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_BATCHES", 2)
    at = project()
    failed(at, owner, 5 * BATCH)
    switch(at, Mode.PAUSED)
    assert run_all(publisher, dispatch_due_retries) == 3
    assert states() == {"held": 5 * BATCH}
    switch(at, Mode.ON)
    publisher._sweep = False
    sweep_retries()
    assert publisher._sweep
    assert states() == {"held": 3 * BATCH, "dispatched": 2 * BATCH}
    assert run_all(publisher, sweep_retries) <= 3
    assert states() == {"dispatched": 5 * BATCH}
