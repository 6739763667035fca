"""Retention: what was archived answers as before, and what is unfinished stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from reprise.models import EventCursor, ParkedTask
from reprise.upkeep.retention import NotPrunedError, Pruned, prune
from sessions_app.locks import database_now
from sessions_app.models import (
    Breaker,
    LogChunk,
    Project,
    RetryDecision,
    RetryPolicy,
    RetryPolicyRevision,
    RetryTrace,
    Session,
    SessionEvent,
    SessionSpec,
)
from sessions_app.models.breakers import BreakerState
from sessions_app.models.events import ARCHIVED
from sessions_app.models.tenants import Role
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.sessions import retention
from sessions_app.services.sessions.cancel import chain_cancel
from sessions_app.services.sessions.priority import session_set_priority
from tests.agent import Api
from tests.factories import policy, project, settle, start, submit, tip, token, user
from tests.invariants import check_all
from tests.racing import locked


@pytest.fixture
def work() -> Project:
    return project("work", domain="acme")


@pytest.fixture
def api(work: Project) -> Api:
    return Api(token(user("ada", project=work, role=Role.MAINTAINER)))


@pytest.fixture
def at_once(settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "session_retention": 1e-6, "event_retention": 0.0}


def retried(work: Project, **fields: Any) -> Session:
    """A chain of three attempts, the second by policy and the third by hand, which succeeded."""
    root = submit(work, retry_policy=policy(max_retries=1), name="train", **fields)
    session_set_priority(root.pk, 5, by="ada")
    LogChunk.objects.create(session_id=root.pk, offset=0, data=b"hello\n")
    settle(start(root), exit_code=3, node="node-1")
    retries_dispatch()
    second = settle(start(tip(root)))
    session_retry(second.pk, root.pk, by="ada", resources={"memory": "4Gi"})
    settle(start(tip(root)), exit_code=0, status="terminated")
    return root


def ended(work: Project) -> list[Session]:
    """The roots of chains of every kind of end."""
    cancelled, refused = submit(work), submit(work, session_type="interactive")
    chain_cancel(cancelled.pk, by="ada")
    settle(start(refused), exit_code=5)
    whole = retried(work, job_set="sweep", resources={"memory": "1Gi"}, environ={"A": "ä"})
    return [whole, cancelled, refused]


def unfinished(work: Project) -> list[Session]:
    """One that waits, one that runs, one whose retry is scheduled."""
    waiting, running, failed = (submit(work, retry_policy=policy(retry_delay=60)) for _ in range(3))
    start(running)
    settle(start(failed))
    return [waiting, running, failed]


def sound() -> bool:
    """Return whether every invariant holds; what `unfinished` starts has no lease."""
    return [line for line in check_all() if not line.startswith("leases_fit")] == []


def answers(api: Api, sessions: list[Session]) -> dict[str, Any]:
    """Everything that can be read of sessions, by path."""
    found = {}
    for session in sessions:
        for part in ("", "attempts/", "retry-decision/", "events/"):
            path = f"sessions/{session.pk}/{part}"
            answer = api.get(path)
            found[path] = (answer.status_code, answer.json())
    return found


@pytest.mark.usefixtures("at_once")
def test_archived_sessions_answer_as_before(api: Api, work: Project) -> None:
    ended(work)
    sessions = list(Session.objects.all())
    before = answers(api, sessions)
    assert prune() == Pruned(len(sessions), 0)
    assert not Session.objects.exists()
    assert not RetryDecision.objects.exists()
    assert not RetryTrace.objects.exists()
    assert not SessionSpec.objects.exists()
    assert not LogChunk.objects.exists()
    after = answers(api, sessions)
    for path, (_, body) in after.items():
        if path.endswith("events/"):
            last = body["results"].pop()
            assert (last["type"], last["data"]) == (ARCHIVED, {})
    assert after == before
    assert check_all() == []


@pytest.mark.usefixtures("at_once")
def test_unfinished_chains_stay(work: Project) -> None:
    kept = {session.pk for session in unfinished(work)}
    retried(work)
    assert prune().sessions == 3
    assert set(Session.objects.values_list("pk", flat=True)) == kept
    assert prune() == Pruned(0, 0)
    assert sound()


def test_recently_ended_chains_stay(work: Project, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "session_retention": 3600.0}
    old, young = retried(work), retried(work)
    long_ago = database_now() - timedelta(hours=2)
    Session.objects.filter(root=old).update(finished_at=long_ago)
    assert prune().sessions == 3
    assert set(Session.objects.values_list("root", flat=True)) == {young.pk}


def test_nothing_goes_if_it_is_to_be_kept(work: Project, settings: Any) -> None:
    settings.REPRISE = {**settings.REPRISE, "session_retention": 0.0, "event_retention": 0.0}
    retried(work)
    assert prune() == Pruned(0, 0)


@pytest.mark.usefixtures("at_once")
def test_archived_sessions_can_be_read_and_not_changed(api: Api, work: Project) -> None:
    root = retried(work)
    prune()
    path = f"sessions/{root.pk}/"
    for verb in ("cancel", "retry"):
        refused = api.post(f"{path}{verb}/")
        assert refused.status_code == 409
        assert "only in the event log" in refused.json()["detail"]
    assert api.get(f"{path}logs/").status_code == 404
    stranger = Api(token(user(project=project("far", domain="globex"))))
    for part in ("", "attempts/", "retry-decision/", "events/", "logs/"):
        hidden, missing = stranger.get(path + part), stranger.get(f"sessions/{work_id(1)}/{part}")
        assert (hidden.status_code, missing.status_code) == (404, 404)
        assert hidden.content.replace(str(root.pk).encode(), work_id(1).encode()) == missing.content
    assert stranger.post(f"{path}cancel/").status_code == 404


def work_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


@pytest.mark.usefixtures("at_once")
def test_the_page_of_what_is_archived(work: Project) -> None:
    root = retried(work)
    prune()
    browser = Client()
    browser.force_login(user("ada", project=work))
    page = browser.get(f"/sessions/{root.pk}/")
    assert page.status_code == 200
    shown = page.content.decode()
    assert "train" in shown
    assert "its log has been deleted" in shown
    assert "Cancel" not in shown
    for part, said in (
        ("steps/", "classify"),
        ("log/", "its log has been deleted"),
        ("pod/", "Exit code"),
        ("compare/", "Neither attempt has a log"),
        ("what-if/", "cannot be tried again"),
        ("attempts/?first=1&last=2", "Attempt 2:"),
    ):
        answer = browser.get(f"/sessions/{root.pk}/{part}")
        assert answer.status_code == 200, part
        assert said in answer.content.decode(), part
    assert browser.get(f"/sessions/{root.pk}/log/download/").status_code == 404


@pytest.mark.usefixtures("at_once")
def test_deleted_users_own_nothing(work: Project) -> None:
    owner = user(project=work)
    root = submit(work, owner=owner)
    chain_cancel(root.pk, by="ada")
    prune()
    owner.delete()
    admin = Api(token(user(superuser=True)))
    assert admin.read(f"sessions/{root.pk}/")["owner"] is None


@pytest.mark.usefixtures("at_once")
def test_events_go_chain_by_chain_once_they_are_counted(
    api: Api, work: Project, settings: Any
) -> None:
    roots, kept = [retried(work).pk for _ in range(3)], unfinished(work)
    assert prune().sessions == 9
    archived = SessionEvent.objects.filter(root_id__in=roots).count()
    settings.REPRISE = {**settings.REPRISE, "event_retention": 1e-6}
    assert prune() == Pruned(0, 0)  # nothing is counted yet
    last = SessionEvent.objects.latest("pk").pk
    EventCursor.objects.update_or_create(
        pk=1, defaults={"counted_id": last, "fence_at": database_now()}
    )
    assert prune() == Pruned(0, archived)
    assert set(SessionEvent.objects.values_list("root_id", flat=True)) == {each.pk for each in kept}
    assert api.get(f"sessions/{roots[0]}/").status_code == 404
    assert sound()


@pytest.mark.usefixtures("at_once")
def test_a_slice_takes_whole_chains(work: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ATTEMPTS", 4)
    roots = [retried(work).pk for _ in range(3)]
    now = database_now()
    assert retention.chains_ended(now) == roots[:2]  # the second one begins within the slice
    assert retention.chains_archive(roots[:2], now) == 6
    assert retention.chains_ended(now) == roots[2:]
    assert prune().sessions == 3
    assert retention.chains_forget(database_now(), 2**62) > 0
    assert set(SessionEvent.objects.values_list("root_id", flat=True)) == set(roots[1:])


@pytest.mark.usefixtures("at_once")
def test_archiving_takes_a_fixed_number_of_statements(work: Project) -> None:
    def archive(chains: int) -> int:
        for _ in range(chains):
            retried(work)
        now = database_now()
        with CaptureQueriesContext(connection) as queries:
            assert retention.chains_archive(retention.chains_ended(now), now) == 3 * chains
        return len(queries)

    assert archive(1) == archive(8)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("at_once")
def test_a_chain_that_is_held_is_passed_over(work: Project) -> None:
    held, free = retried(work), retried(work)
    with locked(held.pk):
        assert prune().sessions == 3
        assert not Session.objects.filter(root=free).exists()
    assert prune().sessions == 3
    assert check_all() == []


def test_a_chain_that_goes_on_again_is_left(work: Project) -> None:
    """Between looking and locking somebody retried it by hand."""
    root = submit(work)
    settle(start(root))
    now = database_now()
    assert retention.chains_ended(now) == [root.pk]
    session_retry(root.pk, root.pk, by="ada")
    assert retention.chains_archive([root.pk], now) == 0
    assert check_all() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("at_once")
def test_metrics_tell_of_it(work: Project, settings: Any) -> None:
    settings.REPRISE_METRICS_TOKEN = "secret"

    def scraped() -> dict[str, float]:
        answer = Client().get("/metrics", headers={"Authorization": "Bearer secret"})
        families = text_string_to_metric_families(answer.content.decode())
        return {each.name: each.value for family in families for each in family.samples}

    assert scraped()["reprise_sessions_archived_total"] == 0
    retried(work)
    assert scraped()["reprise_oldest_ended_chain_age_seconds"] > 0
    prune()
    after = scraped()
    assert after["reprise_sessions_archived_total"] == 3
    assert after["reprise_events_deleted_total"] == 0
    assert after["reprise_oldest_ended_chain_age_seconds"] == 0


def test_a_chain_that_cannot_be_archived_is_left_out_and_named(
    work: Project, at_once: None
) -> None:
    bad, *good = (submit(work) for _ in range(4))
    for session in (bad, *good):
        settle(start(session), exit_code=0)
    # Its archiving event would have a number that is taken.
    Session.objects.filter(pk=bad.pk).update(event_seq=1)
    LogEntry.objects.create(
        user=user(), action_flag=1, action_time=database_now() - timedelta(days=400)
    )
    for _ in range(2):
        with pytest.raises(NotPrunedError, match=f"^chain {bad.pk}: IntegrityError: [^;]+$"):
            prune()
        assert list(Session.objects.values_list("pk", flat=True)) == [bad.pk]
    assert not LogEntry.objects.exists()
    last = SessionEvent.objects.filter(session_id=bad.pk).latest("seq").seq
    Session.objects.filter(pk=bad.pk).update(event_seq=last)
    assert prune().sessions == 1


def test_records_of_the_past_go(work: Project, owner: Any) -> None:
    now = database_now()
    old, young = now - timedelta(days=366), now - timedelta(days=364)
    for number, closed_at in enumerate((old, young, old)):
        Breaker.objects.create(
            scope="cluster",
            signature=f"v1:{number}",
            state=BreakerState.CLOSED,
            closed_at=closed_at,
            muted=number == 2,
        )
    Breaker.objects.create(scope="cluster", signature="v1:3", state=BreakerState.OPEN)
    for state, at in (("sent", old), ("discarded", young), ("parked", None)):
        ParkedTask.objects.create(
            task_id=state,
            name="task",
            state=state,
            first_parked_at=old,
            parked_at=old,
            handled_at=at,
            message=b"",
        )
    kept = RetryPolicy.objects.create(name="kept", revision=3)
    for number, made_at in enumerate((old, old, young), start=1):
        RetryPolicyRevision.objects.create(
            policy=kept, revision=number, document={}, created_at=made_at, created_by="ada"
        )
    for at in (old, young):
        LogEntry.objects.create(user=owner, action_flag=1, action_time=at)
    prune()
    assert sorted(Breaker.objects.values_list("signature", flat=True)) == ["v1:1", "v1:2", "v1:3"]
    assert sorted(ParkedTask.objects.values_list("state", flat=True)) == ["discarded", "parked"]
    assert sorted(RetryPolicyRevision.objects.values_list("revision", flat=True)) == [2, 3]
    assert list(LogEntry.objects.values_list("action_time", flat=True)) == [young]
