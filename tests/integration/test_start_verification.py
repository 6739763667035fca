"""Start verification; deadlines are on the database's clock, so tests set the times back."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import Executor, Lease
from scheduler.services.expire import leases_expire
from scheduler.services.verify import TASK, Verified, starts_verify
from scheduler.tasks import verify_starts
from sessions_app import wakeups
from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent
from tests.factories import policy, reread, submit
from tests.invariants import check_all
from tests.unit.retry.recorded import condition, container, recorded
from tests.unit.test_pod_status import pod as bare_pod
from tests.unit.test_pod_status import waiting

TIMES = ("verify_at", "pod_created_at", "initializing_since", "granted_at")


def pod(phase: str = "Pending", *, node: str = "") -> Any:
    return bare_pod(phase, node=node)


def pulling() -> Any:
    made = pod(node="n1")
    container(made, "main", waiting={"reason": "ContainerCreating"})
    condition(made, "PodReadyToStartContainers")
    return made


def shown(
    played: Agent, at: Project, seen: Any, status: str = "PREPARING", **fields: Any
) -> Session:
    """A session whose executor has reported this pod of it."""
    session = submit(at, **{"retry_policy": policy(), **fields})
    played.lease()
    assert played.report(session.pk, "PREPARING") == "applied"
    show(played, session, seen, status)
    return session


def show(played: Agent, session: Session, seen: Any, status: str = "PREPARING") -> None:
    assert played.report(session.pk, status, pod=seen) == "applied"


def later(seconds: float, *sessions: Session) -> None:
    """As if so much time had passed for these leases, or for all."""
    by = timedelta(seconds=seconds)
    found = Lease.objects.filter(session__in=sessions) if sessions else Lease.objects.all()
    for lease in found:
        for name in TIMES:
            if (moment := getattr(lease, name)) is not None:
                setattr(lease, name, moment - by)
        lease.save()


def due_now() -> None:
    """All checks are."""
    Lease.objects.filter(verify_at__isnull=False).update(verify_at=timezone.now())


def due_in(session: Session) -> float:
    """Seconds until the next check."""
    moment = Lease.objects.get(session=session).verify_at
    assert moment is not None
    return (moment - timezone.now()).total_seconds()


def verified() -> int:
    """Do what the task does: by a hint, or by its sweep."""
    failed: int = verify_starts.run()
    return failed


def types(session: Session) -> list[str]:
    events = SessionEvent.objects.filter(session_id=session.pk).order_by("seq")
    return list(events.values_list("type", flat=True))


def stops(played: Agent) -> list[tuple[str, str]]:
    played.lease()
    return [(each["session_id"], each["reason"]) for each in played.answer["stops"]]


@pytest.fixture(autouse=True)
def consistent() -> Iterator[None]:
    yield
    assert check_all() == []


class TestWhen:
    """Tests of when a start is looked at, and of what counts."""

    def test_first_30_s_after_the_pod_was_created(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pod())
        assert 25 < due_in(session) <= 30
        assert verified() == 0
        assert Lease.objects.get(session=session).verify_at is not None

    @pytest.mark.parametrize(("age", "first"), [(20.0, 10.0), (500.0, -25.0), (-500.0, 30.0)])
    def test_a_pod_is_no_older_than_its_lease_and_not_from_the_future(
        self, at: Project, played: Agent, age: float, first: float
    ) -> None:
        session = submit(at)
        played.lease()
        Lease.objects.update(granted_at=timezone.now() - timedelta(seconds=55))
        played.report(session.pk, "PREPARING")
        seen = pod()
        created = timezone.now() - timedelta(seconds=age)
        seen["metadata"]["creationTimestamp"] = created.isoformat()
        show(played, session, seen)
        assert abs(due_in(session) - first) < 8

    @pytest.mark.parametrize("timestamp", ["yesterday", 7, None, "0001-01-01T00:00:00+23:59"])
    def test_a_time_that_is_none_is_now(self, at: Project, played: Agent, timestamp: Any) -> None:
        seen = pod()
        seen["metadata"]["creationTimestamp"] = timestamp
        assert 20 < due_in(shown(played, at, seen)) <= 30

    def test_waiting_is_looked_at_again_and_times_out(self, at: Project, played: Agent) -> None:
        seen = recorded("unschedulable-cpu")
        session = shown(played, at, seen)
        later(30)
        assert starts_verify() == Verified(1, 0)
        assert 25 < due_in(session) <= 30
        later(140)
        assert starts_verify() == Verified(1, 0)
        assert due_in(session) <= 10
        later(10)
        assert starts_verify() == Verified(1, 1)
        stopping = reread(session)
        assert stopping.status == "TERMINATING"
        assert stopping.status_message.startswith("no node has been found for the pod (0/1 nodes")
        assert "180 s" in stopping.status_message

    def test_a_session_has_its_own_scheduling_timeout(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pod(), scheduling_timeout=5.5)
        assert 3 < due_in(session) <= 5.5
        later(6)
        assert verified() == 1

    def test_initializing_does_not_count_against_it(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pulling(), "PULLING", scheduling_timeout=5)
        later(200)
        assert verified() == 0
        assert 25 < due_in(session) <= 30
        later(31)
        assert verified() == 0
        assert 35 < due_in(session) <= 40
        later(1600)
        assert verified() == 1
        played.fail(session.pk, exit_code=137, pod=pod("Failed", node="n1"))
        assert reread(session).retry_cause == "image_pull_failure"

    def test_a_start_that_takes_too_long_says_what_was_heard_last(
        self, at: Project, played: Agent
    ) -> None:
        session = shown(played, at, recorded("volume-mount-stuck"), "PULLING")
        played.report(
            session.pk, "PULLING", message="FailedMount: no such claim", pod=pulling_volume()
        )
        assert reread(session).status_message == "FailedMount: no such claim"
        later(1801)
        assert verified() == 1
        assert "FailedMount: no such claim" in reread(session).status_message
        played.fail(session.pk)
        assert reread(session).retry_cause == "start_failure"

    def test_a_failed_mount_is_no_failed_pull(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pulling())
        message = 'FailedMount: MountVolume.SetUp failed for volume "v" : secret "s" not found'
        assert played.report(session.pk, "PULLING", message=message, pod=pulling()) == "applied"
        later(1900)
        due_now()
        assert verified() == 1
        fresh = reread(session)
        assert fresh.status_message.startswith(f"its volumes cannot be mounted ({message})")
        assert "image" not in fresh.status_message
        assert fresh.start_failure is not None
        assert fresh.start_failure["pod_message"] == message
        played.report(session.pk, "ERROR")
        assert reread(session).retry_cause == "start_failure"
        trace = RetryDecision.objects.get(session_id=session.pk).trace
        assert trace[0]["said"] == message

    def test_a_passing_reason_needs_two_checks(self, at: Project, played: Agent) -> None:
        session = shown(played, at, waiting("ErrImagePull"), "PULLING")
        later(30)
        assert verified() == 0
        assert "cannot be pulled" in reread(session).status_message
        show(played, session, pulling(), "PULLING")
        later(30)
        assert verified() == 0
        show(played, session, waiting("ErrImagePull"), "PULLING")
        later(60)
        assert verified() == 1

    def test_a_permanent_reason_hastens_the_check(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pulling(), "PULLING")
        show(played, session, waiting("ImagePullBackOff"), "PULLING")
        assert 20 < due_in(session) <= 30, "never before the first one"
        later(200)
        show(played, session, pulling(), "PULLING")
        verified()
        show(played, session, waiting("ImagePullBackOff"), "PULLING")
        assert due_in(session) <= 0
        assert verified() == 1

    def test_a_pod_that_nobody_can_read_is_looked_for_three_times(
        self, at: Project, played: Agent
    ) -> None:
        session = shown(played, at, {"odd": True})
        for failed in (0, 0, 1):
            later(31)
            assert verified() == failed
        played.fail(session.pk)
        assert reread(session).retry_cause == "agent_transient"

    @pytest.mark.parametrize("status", ["RUNNING", "TERMINATING"])
    def test_a_start_ends_it(self, at: Project, played: Agent, status: str) -> None:
        session = shown(played, at, pod())
        show(played, session, pod("Running", node="n1"), status)
        lease = Lease.objects.get(session=session)
        assert (lease.verify_at, lease.pod) == (None, None)

    def test_a_pod_that_runs_is_looked_at_no_more(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pod("Running", node="n1"), "CREATING")
        later(30)
        assert starts_verify() == Verified(1, 0)
        assert Lease.objects.get(session=session).verify_at is None

    def test_other_drivers_show_no_pods(self, at: Project, played: Agent) -> None:
        session = submit(at)
        played.lease()
        with CaptureQueriesContext(
            connection,
        ) as queries:
            played.report(session.pk, "PREPARING")
            played.report(session.pk, "PULLING")
        assert not [each for each in queries if "verify_at" in each["sql"]]
        assert Lease.objects.get(session=session).verify_at is None

    def test_a_new_lease_begins_anew(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pod())
        later(100)
        returned = {"session_id": str(session.pk), "fencing_token": played.tokens.pop(session.pk)}
        played.ask("return", {"returns": [{**returned, "own_trouble": True}]})
        assert not Lease.objects.exists()
        Session.objects.update(avoid_executors=[])
        played.lease()
        assert Lease.objects.get(session=session).verify_at is None


def pulling_volume() -> Any:
    made = pulling()
    condition(made, "PodReadyToStartContainers", "False")
    return made


class TestBelieved:
    """Old facts fail nobody."""

    def test_a_silent_executor_says_nothing_about_now(self, at: Project, played: Agent) -> None:
        """Also a server that was off for an hour: its executors have not called in yet."""
        session = shown(played, at, pod())
        later(3600)
        Executor.objects.update(last_seen_at=timezone.now() - timedelta(seconds=31))
        assert starts_verify() == Verified(1, 0)
        assert 25 < due_in(session) <= 30
        played.lease()
        show(played, session, pod("Running", node="n1"), "RUNNING")
        later(31)
        assert verified() == 0
        assert reread(session).status == "RUNNING"

    def test_an_executor_in_trouble_does_not_see_its_pods(self, at: Project, played: Agent) -> None:
        unseen, hopeless = (
            shown(played, at, each) for each in (pod(), waiting("ImagePullBackOff"))
        )
        played.lease(trouble="the cluster does not answer")
        later(200)
        assert verified() == 1
        assert (reread(unseen).status, reread(hopeless).status) == ("PREPARING", "TERMINATING")
        played.lease()
        later(31)
        assert verified() == 1

    def test_a_sweep_brings_what_no_hint_did(
        self, at: Project, played: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(wakeups.publisher, "hints", lambda *_: None)
        session = shown(played, at, waiting("ImagePullBackOff"), "PULLING")
        later(3600)
        assert verified() == 1
        for _ in range(3):
            assert verified() == 0
        assert types(session).count("session.start_failed") == 1

    def test_checks_are_hinted_at(
        self,
        at: Project,
        played: Agent,
        monkeypatch: pytest.MonkeyPatch,
        django_capture_on_commit_callbacks: Any,
    ) -> None:
        hinted: list[tuple[str, float]] = []
        monkeypatch.setattr(
            wakeups.publisher,
            "hints",
            lambda due, task: hinted.extend(
                (task, each - timezone.now().timestamp()) for each in due
            ),
        )
        with django_capture_on_commit_callbacks(execute=True):
            shown(played, at, pod())
        ((task, left),) = hinted
        assert task == TASK
        assert 20 < left <= 31
        later(30)
        hinted.clear()
        with django_capture_on_commit_callbacks(execute=True):
            starts_verify()
        assert [task for task, _ in hinted] == [TASK]


class TestVerdict:
    """Tests of what follows from a failed start."""

    @pytest.fixture
    def failed(self, at: Project, played: Agent) -> Session:
        session = shown(played, at, waiting("ImagePullBackOff"), "PULLING")
        later(30)
        assert verified() == 1
        return reread(session)

    def test_the_executor_is_told_to_stop_it(self, failed: Session, played: Agent) -> None:
        assert failed.status == "TERMINATING"
        assert types(failed)[-2:] == ["session.terminating", "session.start_failed"]
        event = SessionEvent.objects.get(session_id=failed.pk, type="session.start_failed")
        assert event.data == {"cause": "image_pull_failure", "message": failed.status_message}
        assert stops(played) == [(str(failed.pk), "start_failed")]
        lease = Lease.objects.get(session=failed)
        assert (lease.verify_at, lease.pod) == (None, None)

    def test_its_end_has_the_evidence_of_the_start(self, failed: Session, played: Agent) -> None:
        deleted = pod("Failed", node="n1")
        container(deleted, "second", terminated={"exitCode": 137, "reason": "Error"})
        deleted["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
        show(played, failed, deleted, "TERMINATING")
        played.fail(failed.pk, exit_code=137, pod=deleted, deleted_by_us=True)
        ended = reread(failed)
        assert (ended.status, ended.retry_cause) == ("ERROR", "image_pull_failure")
        assert ended.status_message == failed.status_message
        assert "container second: its image busybox:1 cannot be pulled" in ended.status_message
        assert ended.status_message.endswith(
            "Check that the image exists and that this cluster may pull it."
        )
        assert ended.exit_code is None
        assert ended.retry_state == "scheduled"
        decision = RetryDecision.objects.get(session=failed)
        assert decision.termination["pod_message"] == "so it is said."
        trace = str(decision.trace)
        assert "so it is said" in trace

    @pytest.mark.parametrize("facts", [{"reason": "PodVanished"}, {"lease_expired": True}])
    def test_however_the_stop_goes(
        self, failed: Session, played: Agent, facts: dict[str, Any]
    ) -> None:
        played.fail(failed.pk, **facts)
        assert reread(failed).retry_cause == "image_pull_failure"

    def test_an_executor_that_is_lost_meanwhile(self, failed: Session) -> None:
        Executor.objects.update(last_seen_at=timezone.now() - timedelta(seconds=1000))
        leases_expire()
        Lease.objects.update(lost_at=timezone.now() - timedelta(seconds=1000))
        leases_expire()
        assert reread(failed).retry_cause == "image_pull_failure"
        assert not Lease.objects.exists()

    def test_an_executor_that_lost_the_run(self, failed: Session, played: Agent) -> None:
        played.tokens.clear()
        played.lease()
        assert reread(failed).retry_cause == "image_pull_failure"

    def test_a_run_that_began_after_it_is_stopped(self, failed: Session, played: Agent) -> None:
        assert played.report(failed.pk, "RUNNING", pod=pod("Running", node="n1")) == "stale"
        assert reread(failed).status == "TERMINATING"
        assert stops(played) == [(str(failed.pk), "start_failed")]

    def test_unless_it_succeeded_before(self, failed: Session, played: Agent) -> None:
        played.succeed(failed.pk)
        assert (reread(failed).status, reread(failed).retry_cause) == ("TERMINATED", "")

    def test_a_cancellation_after_it_counts(self, failed: Session, played: Agent) -> None:
        chain_cancel(failed.pk, by="ann")
        assert stops(played) == [(str(failed.pk), "cancelled")]
        played.fail(failed.pk)
        assert (reread(failed).status, reread(failed).retry_cause) == (
            "CANCELLED",
            "user_cancelled",
        )

    def test_policies_decide_as_for_any_failure(self, at: Project, played: Agent) -> None:
        excluded = policy(eligible_causes=["kernel_nonzero_exit"])
        session = shown(played, at, waiting("ErrImageNeverPull"), retry_policy=excluded)
        later(30)
        verified()
        played.fail(session.pk)
        assert reread(session).retry_state == "not_retried"

    def test_a_name_that_is_none_is_never_retried(self, at: Project, played: Agent) -> None:
        session = shown(played, at, recorded("invalid-image-name"), "PULLING")
        later(30)
        verified()
        played.fail(session.pk)
        ended = reread(session)
        assert (ended.retry_cause, ended.retry_state) == ("validation_error", "not_retried")


class TestStopped:
    """A stop during verification ends it."""

    def test_cancelled(self, at: Project, played: Agent) -> None:
        session = shown(played, at, waiting("ImagePullBackOff"), "PULLING")
        chain_cancel(session.pk, by="ann")
        later(30)
        assert starts_verify() == Verified(1, 0)
        assert Lease.objects.get(session=session).verify_at is None
        assert stops(played) == [(str(session.pk), "cancelled")]
        played.fail(session.pk)
        assert (reread(session).status, reread(session).retry_state) == ("CANCELLED", "cancelled")
        assert "session.start_failed" not in types(session)

    def test_settled(self, at: Project, played: Agent) -> None:
        session = shown(played, at, waiting("ImagePullBackOff"), "PULLING")
        later(30)
        played.fail(session.pk, exit_code=3)
        assert starts_verify() == Verified(0, 0)
        assert reread(session).retry_cause == "kernel_nonzero_exit"

    def test_lost(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pod())
        Executor.objects.update(last_seen_at=timezone.now() - timedelta(seconds=1000))
        leases_expire()
        later(1000)
        assert starts_verify() == Verified(1, 0)
        assert reread(session).status == "TERMINATING"
        assert "start" not in reread(session).status_message

    def test_a_lease_that_no_longer_counts(self, at: Project, played: Agent) -> None:
        session = shown(played, at, waiting("ImagePullBackOff"))
        Session.objects.filter(pk=session.pk).update(fencing_token=10**9)
        later(30)
        assert starts_verify() == Verified(1, 0)
        assert Lease.objects.get().verify_at is None
        Session.objects.filter(pk=session.pk).update(
            fencing_token=Lease.objects.get().fencing_token
        )


class TestTold:
    """People see what a pod waits for, in plain words, before anything has failed."""

    @pytest.mark.parametrize(
        ("seen", "status", "words"),
        [
            (recorded("unschedulable-cpu"), "PREPARING", "no node has been found for the pod (0/1"),
            (waiting("ErrImagePull"), "PULLING", "container second: its image busybox:1 cannot be"),
            (pulling(), "PULLING", "the image of container main is being pulled"),
        ],
    )
    def test_in_the_status(
        self, at: Project, played: Agent, seen: Any, status: str, words: str
    ) -> None:
        session = shown(played, at, pod())
        message = "said by the cluster" if words.startswith(("no", "container")) else ""
        played.report(session.pk, status, pod=seen, message=message)
        assert reread(session).status_message.startswith(words)
        show(played, session, pod("Running", node="n1"), "RUNNING")
        assert reread(session).status_message == ""

    def test_by_a_check_if_nobody_has_said_it(self, at: Project, played: Agent) -> None:
        session = shown(played, at, pod())
        assert reread(session).status_message == ""
        later(30)
        starts_verify()
        assert reread(session).status_message == "no node has been found for the pod"
        assert types(session)[-1] == "session.progress"
        later(30)
        starts_verify()
        assert types(session).count("session.progress") == 1


def statements(count: int, at: Project, played: Agent) -> int:
    """Of one batch, in which each third fails, waits and initializes."""
    kinds = (waiting("ImagePullBackOff"), pod(), pulling())
    sessions = [submit(at) for _ in range(count)]
    played.lease()
    played.send(*[played.reporting(each.pk, "PREPARING") for each in sessions])
    shows = [
        played.reporting(each.pk, "PULLING", pod=kinds[number % 3])
        for number, each in enumerate(sessions)
    ]
    with CaptureQueriesContext(connection) as watching:
        played.send(*shows)
    assert sum("verify_at" in each["sql"] for each in watching) == 1
    later(30, *sessions)
    with CaptureQueriesContext(connection) as queries:
        assert starts_verify() == Verified(count, count // 3)
    return len(queries)


def test_a_batch_is_a_fixed_number_of_statements(at: Project, played: Agent) -> None:
    few = statements(3, at, played)
    assert statements(30, at, played) == few <= 14


def test_the_next_check_is_found_by_its_index(at: Project, played: Agent) -> None:
    shown(played, at, pod())
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN SELECT min(verify_at) FROM scheduler_lease")
        assert "lease_verify" in str(cursor.fetchall())


def test_the_numbers_are_settings() -> None:
    names = {
        "start_check_first": 30, "start_check_again": 30, "start_check_step": 10,
        "start_check_longest": 80, "scheduling_timeout": 180, "initializing_timeout": 1800,
        "missing_pod_checks": 3,
    }  # fmt: skip
    assert {name: settings.REPRISE[name] for name in names} == names
