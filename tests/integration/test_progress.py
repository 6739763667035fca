"""How far runs are: told by their executors, kept by sessions, given to the next attempt."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Executor, Lease
from scheduler.services.expire import leases_expire
from scheduler.services.progress import progress_note
from scheduler.wire import ProgressNews
from sessions_app.locks import database_now
from sessions_app.models import Project, Session, SessionEvent
from sessions_app.services.chains.dispatch import retries_dispatch
from tests import factories
from tests.agent import Agent, Api, agent, running
from tests.factories import reread
from tests.invariants import check_all
from tests.pages import signed_in


def told(step: float, **more: Any) -> dict[str, Any]:
    return {"step": step, "of": None, "note": "", "best": step, "rate": None, **more}


def news(played: Agent, session: Session, step: float, **more: Any) -> dict[str, Any]:
    lease = {"session_id": str(session.pk), "fencing_token": played.tokens.get(session.pk, 1)}
    return {**lease, **told(step, **more)}


def by_lease(played: Agent, *told: dict[str, Any]) -> None:
    played.lease(progress=list(told))


def by_logs(played: Agent, *told: dict[str, Any]) -> None:
    played.ask("logs", {"chunks": [], "progress": list(told)})


def retried(at: Project, **fields: Any) -> Session:
    fields = {"max_retries": 3, "retry_delay": 1e-6, **fields}
    return factories.submit(at, retry_policy=fields)


def shown(session: Session, at: Project) -> dict[str, Any]:
    api = Api(factories.token(factories.user(superuser=True)))
    (listed,) = [
        each
        for each in api.read(f"sessions/?project={at.address}")["results"]
        if each["id"] == str(session.pk)
    ]
    alone = api.read(f"sessions/{session.pk}/")
    assert alone["progress"] == listed["progress"]
    found: dict[str, Any] = alone["progress"]
    return found


@pytest.mark.parametrize("send", [by_lease, by_logs])
def test_a_live_run_shows_how_far_it_is(
    at: Project, played: Agent, send: Callable[..., None]
) -> None:
    session = running(played, factories.submit(at))
    assert shown(session, at) is None
    send(played, news(played, session, 40, of=100, checkpoint="s3://b/40", checkpoint_step=40))
    send(played, news(played, session, 30, of=100, note="again", rate=2.5))
    found = shown(session, at)
    assert found.pop("updated_at").endswith("Z")
    assert found == {
        "step": 30, "of": 100, "note": "again", "rate": 2.5, "best_step": 40,
        "checkpoint": "s3://b/40", "checkpoint_step": 40, "made_progress": None,
    }  # fmt: skip
    assert reread(session).progress is None
    assert check_all() == []


def test_it_counts_only_under_the_lease(at: Project, played: Agent) -> None:
    session = running(played, factories.submit(at))
    wrong = {**news(played, session, 1), "fencing_token": played.tokens[session.pk] + 1}
    by_lease(played, wrong)
    by_logs(agent("two"), news(played, session, 2))
    assert Lease.objects.get().progress is None


@pytest.mark.parametrize(
    "bad",
    [
        {"step": "7"},
        {"step": -1},
        {"step": None},
        {"best": "x"},
        {"note": "\1"},
        {"note": "x" * 201},
        {"checkpoint": "ü" * 1025},
        {"checkpoint": "a\nb"},
        {"of": []},
    ],
)
def test_what_cannot_be_read_is_left_out(at: Project, played: Agent, bad: dict[str, Any]) -> None:
    sessions = [factories.submit(at) for _ in range(2)]
    played.lease()
    played.start(*(each.pk for each in sessions))
    broken, right = sessions
    by_lease(played, {**news(played, broken, 1), **bad}, news(played, right, 2))
    assert [each.progress and each.progress["step"] for each in Lease.objects.order_by("pk")] == [
        None,
        2,
    ]
    assert played.report(broken.pk, "ERROR", progress={**told(1), **bad}) == "applied"
    assert reread(broken).progress is None


def test_one_statement_tells_of_all_runs(at: Project, played: Agent) -> None:
    sessions = [factories.submit(at) for _ in range(5)]
    played.lease()
    played.start(*(each.pk for each in sessions))

    def statements(number: int) -> int:
        told = [news(played, each, number + 1) for each in sessions[:number]]
        with CaptureQueriesContext(connection) as queries:
            by_lease(played, *told)
        return len(queries)

    silent = statements(0)
    assert statements(1) == statements(5) == silent + 1
    assert {(each.progress or {})["step"] for each in Lease.objects.all()} == {6}


def test_the_end_keeps_the_last_and_the_best(at: Project, played: Agent) -> None:
    session = running(played, retried(at))
    last = told(30, of=100, best=60, checkpoint="c", checkpoint_step=50)
    assert played.report(session.pk, "ERROR", exit_code=1, progress=last) == "applied"
    found = shown(session, at)
    assert (found["step"], found["best_step"], found["checkpoint_step"]) == (30, 60, 50)
    assert found["made_progress"] is True
    event = SessionEvent.objects.get(session_id=session.pk, type="session.error")
    assert event.data["progress"] == reread(session).progress
    assert check_all() == []


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        (None, (60, 60, "c", 50)),
        (told(70), (70, 70, "c", 50)),
        (told(5), (5, 60, "c", 50)),
        (told(5, checkpoint="d", checkpoint_step=4), (5, 60, "d", 4)),
    ],
)
def test_an_end_loses_nothing_that_was_told_before(
    at: Project, played: Agent, last: dict[str, Any] | None, kept: tuple[Any, ...]
) -> None:
    """An agent that lost its state no longer knows it."""
    session, quiet = (running(played, retried(at)) for _ in range(2))
    by_lease(played, news(played, session, 60, checkpoint="c", checkpoint_step=50))
    facts = {} if last is None else {"progress": last}
    assert played.report(session.pk, "ERROR", exit_code=1, **facts) == "applied"
    found = shown(session, at)
    names = ("step", "best_step", "checkpoint", "checkpoint_step")
    assert tuple(found[name] for name in names) == kept
    assert found["made_progress"] is True
    assert played.report(quiet.pk, "ERROR", exit_code=1) == "applied"
    assert reread(quiet).progress is None
    assert check_all() == []


def test_the_next_attempt_goes_on_at_the_newest_checkpoint(at: Project, played: Agent) -> None:
    attempt = retried(at)
    seen = []
    for last in (
        told(10, best=10, checkpoint="at 8", checkpoint_step=8),
        None,
        told(9, best=9),
        told(12.5, best=12.5, checkpoint="at 12.5", checkpoint_step=12.5),
    ):
        running(played, attempt)
        environ = played.answer["leases"][0]["environ"]
        seen.append((environ["REPRISE_CHECKPOINT"], environ["REPRISE_STEP"]))
        more = {} if last is None else {"progress": last}
        played.report(attempt.pk, "ERROR", exit_code=1, **more)
        retries_dispatch()
        attempt = Session.objects.filter(parent=attempt).first() or attempt
    assert seen == [("", ""), ("at 8", "8"), ("at 8", "8"), ("at 8", "8")]
    advanced = [
        each.progress and each.progress["advanced"]
        for each in Session.objects.order_by("retry_count")
    ]
    assert advanced == [True, None, False, True]
    assert check_all() == []


def test_a_huge_step_is_told_in_short(at: Project, played: Agent) -> None:
    session = running(played, retried(at))
    last = told(1e308, of=1e308, checkpoint="c", checkpoint_step=1e308)
    assert played.report(session.pk, "ERROR", exit_code=1, progress=last) == "applied"
    found = shown(session, at)
    names = ("step", "of", "best_step", "checkpoint_step")
    assert [repr(found[name]) for name in names] == ["1e+308"] * 4
    api = Api(factories.token(factories.user(superuser=True)))
    events = api.read(f"sessions/{session.pk}/events/")["results"]
    (ended,) = [each for each in events if each["type"] == "session.error"]
    assert repr(ended["data"]["progress"]["step"]) == "1e+308"
    retries_dispatch()
    running(played, Session.objects.get(parent=session))
    assert played.answer["leases"][0]["environ"]["REPRISE_STEP"] == "1e+308"


def test_a_lost_run_keeps_what_it_told(at: Project, played: Agent) -> None:
    session = running(played, retried(at))
    by_lease(played, news(played, session, 7, checkpoint="c", checkpoint_step=7))
    played.forget()
    played.lease()
    found = reread(session)
    assert found.retry_cause == "agent_transient"
    assert tuple((found.progress or {})[name] for name in ("step", "advanced")) == (7, True)
    assert check_all() == []


def test_so_does_one_whose_executor_is_silent(at: Project, played: Agent) -> None:
    session = running(played, retried(at))
    by_lease(played, news(played, session, 7))
    Executor.objects.update(last_seen_at=database_now() - timedelta(days=1), unconfirmed_after=1)
    leases_expire()
    Lease.objects.update(lost_at=database_now() - timedelta(days=1))
    leases_expire()
    assert (reread(session).progress or {})["step"] == 7
    assert check_all() == []


def test_another_lease_begins_anew(at: Project, played: Agent) -> None:
    session = factories.submit(at)
    played.lease()
    by_lease(played, news(played, session, 5))
    assert played.give_back(session.pk) == ["applied"]
    other = agent("two")
    assert other.lease() == [session.pk]
    assert Lease.objects.get().progress is None


def test_each_attempt_of_a_chain_shows_how_far_it_came(at: Project, played: Agent) -> None:
    first = running(played, retried(at))
    played.report(first.pk, "ERROR", exit_code=1, progress=told(30, of=100, best=30))
    retries_dispatch()
    second = running(played, factories.tip(first))
    by_lease(played, news(played, second, 1500, of=3000, rate=2.0))
    admin = factories.user(superuser=True)
    api = Api(factories.token(admin))
    with CaptureQueriesContext(connection) as asked:
        attempts = api.read(f"sessions/{first.pk}/attempts/")
    reads = [each["sql"] for each in asked if "scheduler_lease" in each["sql"]]
    assert len(reads) == 1
    assert [each["progress"]["step"] for each in attempts] == [30, 1500]
    assert [each["progress"]["made_progress"] for each in attempts] == [True, None]
    page = signed_in(admin).get(f"/sessions/{first.pk}/").content.decode()
    assert "<small>step 30 of 100 (30 %)</small>" in page
    assert "<small>step 1,500 of 3,000 (50 %)</small>" in page
    listed = signed_in(admin).get("/?columns=progress").content.decode()
    assert "step 1500 of 3000" in " ".join(listed.split())


def test_it_waits_for_no_lock(at: Project, played: Agent) -> None:
    session = running(played, factories.submit(at))
    value = ProgressNews.model_validate(news(played, session, 5))
    with CaptureQueriesContext(connection) as queries:
        progress_note("one", [value])
        progress_note("one", [])
    (statement,) = queries
    assert "SKIP LOCKED" in statement["sql"]
