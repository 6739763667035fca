"""Reports: each fact counts once, under the lease that counts, whatever order they come in."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Lease
from scheduler.services.ignored_reports import MOST_IGNORED
from scheduler.services.reports import MOST_OF_SESSION
from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from sessions_app.services.sessions.cancel import chain_cancel
from tests.agent import Agent, agent, running
from tests.factories import policy, reread, submit, user
from tests.invariants import check_all


@pytest.fixture
def session(at: Project, played: Agent) -> Session:
    """A session that is leased and not accepted yet."""
    made = submit(at, retry_policy=policy())
    played.lease()
    return made


def event_types(session: Session) -> list[str]:
    events = SessionEvent.objects.filter(session_id=session.pk).order_by("seq")
    return [kind.removeprefix("session.") for kind in events.values_list("type", flat=True)]


def outcome(played: Agent, report: dict[str, Any]) -> tuple[str, str]:
    (answer,) = played.ask("reports", {"reports": [report]})["outcomes"]
    return answer["outcome"], answer["detail"]


def test_a_whole_run_is_told_step_by_step(played: Agent, session: Session) -> None:
    steps = ("PREPARING", "PULLING", "PREPARED", "CREATING", "RUNNING", "TERMINATING")
    for step in (*steps, "TERMINATED"):
        assert played.report(session.pk, step, node="n1", at=1.5) == "applied"
    ended = reread(session)
    assert (ended.status, ended.exit_code, ended.node) == ("TERMINATED", 0, "n1")
    times = (ended.accepted_at, ended.started_at, ended.terminating_at, ended.finished_at)
    assert None not in times
    assert sorted(filter(None, times)) == list(times)
    assert event_types(session) == [
        "submitted", "scheduled", *(step.lower() for step in steps), "terminated"
    ]  # fmt: skip
    assert not Lease.objects.exists()
    assert check_all() == []


def test_middle_steps_may_be_skipped(played: Agent, session: Session) -> None:
    assert played.report(session.pk, "TERMINATED") == "applied"
    assert reread(session).status == "TERMINATED"


def test_a_repeated_report_is_a_duplicate(played: Agent, session: Session) -> None:
    report = played.reporting(session.pk, "RUNNING")
    assert [outcome(played, report)[0] for _ in range(3)] == ["applied", "duplicate", "duplicate"]
    assert event_types(session) == ["submitted", "scheduled", "running"]


def test_an_older_number_is_a_duplicate(played: Agent, session: Session) -> None:
    assert played.report(session.pk, "RUNNING", seq=5) == "applied"
    assert played.report(session.pk, "ERROR", seq=4) == "duplicate"
    assert reread(session).status == "RUNNING"


def test_reports_of_one_batch_are_put_in_order(played: Agent, session: Session) -> None:
    reports = [played.reporting(session.pk, step) for step in ("PREPARING", "RUNNING", "ERROR")]
    assert played.send(*reports[::-1], reports[1]) == ["applied"] * 3 + ["duplicate"]
    assert event_types(session)[2:5] == ["preparing", "running", "error"]
    assert check_all() == []


def test_a_status_is_read_in_any_case(played: Agent, session: Session) -> None:
    played.report(session.pk, "running")
    assert reread(session).status == "RUNNING"


def test_the_same_status_again_is_applied_without_an_event(played: Agent, session: Session) -> None:
    assert [played.report(session.pk, "RUNNING") for _ in range(2)] == ["applied", "applied"]
    assert event_types(session) == ["submitted", "scheduled", "running"]
    assert reread(session).report_seq == 2


def test_a_step_back_is_kept_as_an_event_and_ignored(played: Agent, session: Session) -> None:
    played.report(session.pk, "RUNNING")
    back = played.reporting(session.pk, "PULLING", node="elsewhere")
    assert outcome(played, back) == ("stale", "the session is RUNNING already")
    assert outcome(played, back)[0] == "duplicate"
    assert (reread(session).status, reread(session).node) == ("RUNNING", "")
    assert event_types(session)[-1] == "report_ignored"
    assert check_all() == []


def test_the_token_is_looked_at_before_the_number(played: Agent, session: Session) -> None:
    played.report(session.pk, "RUNNING", seq=9)
    wrong = played.tokens[session.pk] + 1
    late = played.reporting(session.pk, "ERROR", seq=1, fencing_token=wrong)
    assert outcome(played, late) == ("stale", "the lease is no longer the session's")
    assert reread(session).report_seq == 9


def written(session: Session) -> tuple[Any, ...]:
    """All that a report can change of a session."""
    lease = Lease.objects.filter(session_id=session.pk).values_list().first()
    return Session.objects.filter(pk=session.pk).values_list().get(), event_types(session), lease


@pytest.mark.parametrize("status", ["RUNNING", "ERROR", "TERMINATED"])
@pytest.mark.parametrize("step", ["leased", "running", "ended"])
def test_another_executor_is_answered_as_for_an_unknown_session(
    played: Agent, session: Session, step: str, status: str
) -> None:
    thief = agent()
    token = played.tokens[session.pk]
    if step != "leased":
        played.start(session.pk)
    if step == "ended":
        played.fail(session.pk)
    before = written(session)
    guessed = thief.reporting(session.pk, status, fencing_token=token, seq=10**6)
    nobodys = thief.reporting(uuid4(), status, fencing_token=token, seq=1)
    assert outcome(thief, guessed) == outcome(thief, nobodys)
    assert thief.report(session.pk, status, fencing_token=token - 1) == "invalid"
    assert written(session) == before


def test_another_executor_cannot_spoil_a_result(played: Agent, session: Session) -> None:
    thief = agent()
    token = played.tokens[session.pk]
    played.start(session.pk)
    thief.report(session.pk, "ERROR", fencing_token=token, seq=10**6)
    assert played.report(session.pk, "TERMINATED") == "applied"
    assert reread(session).status == "TERMINATED"
    assert not RetryDecision.objects.exists()


def test_a_session_that_went_on_elsewhere_keeps_what_its_former_executor_says(
    played: Agent, session: Session
) -> None:
    old = played.tokens[session.pk]
    played.give_back(session.pk)
    assert played.report(session.pk, "RUNNING", fencing_token=old) == "stale"
    other = agent()
    assert other.lease() == [session.pk]
    assert played.report(session.pk, "ERROR", fencing_token=old, seq=9) == "stale"
    assert played.report(session.pk, "ERROR", fencing_token=other.tokens[session.pk]) == "invalid"
    assert event_types(session).count("report_ignored") == 2
    assert other.report(session.pk, "TERMINATED") == "applied"
    assert check_all() == []


def test_ignored_reports_leave_a_bounded_number_of_events(played: Agent, session: Session) -> None:
    played.start(session.pk)
    back = [played.reporting(session.pk, "PULLING") for _ in range(MOST_IGNORED + 5)]
    assert set(played.send(*back)) == {"stale"}
    wrong = played.tokens[session.pk] + 1
    assert played.report(session.pk, "ERROR", fencing_token=wrong) == "stale"
    assert event_types(session).count("report_ignored") == MOST_IGNORED
    assert outcome(played, back[-1])[0] == "duplicate"
    assert played.report(session.pk, "TERMINATED") == "applied"
    assert check_all() == []


def test_one_call_applies_a_bounded_number_of_reports_of_a_session(
    played: Agent, at: Project, session: Session
) -> None:
    other = submit(at)
    played.lease()
    many = [played.reporting(session.pk, "RUNNING", message=str(n)) for n in range(1200)]
    outcomes = played.send(*many[::-1], played.reporting(other.pk, "RUNNING"))
    assert outcomes[-1] == "applied"
    assert outcomes[:-1] == ["busy"] * (1200 - MOST_OF_SESSION) + ["applied"] * MOST_OF_SESSION
    assert reread(session).report_seq == MOST_OF_SESSION
    assert played.send(many[MOST_OF_SESSION]) == ["applied"]


def test_a_report_after_the_end_is_stale_or_a_duplicate(played: Agent, session: Session) -> None:
    token = played.tokens[session.pk]
    end = played.reporting(session.pk, "ERROR", termination={"exit_code": 7})
    assert outcome(played, end)[0] == "applied"
    assert outcome(played, end)[0] == "duplicate"
    late = played.reporting(session.pk, "TERMINATED", fencing_token=token)
    assert outcome(played, late) == ("stale", "the session is ERROR")
    assert (reread(session).status, reread(session).exit_code) == ("ERROR", 7)
    assert RetryDecision.objects.count() == 1
    assert check_all() == []


def test_a_report_under_the_lease_before_this_one_is_stale(played: Agent, session: Session) -> None:
    old = played.tokens[session.pk]
    played.give_back(session.pk)
    played.lease()
    assert played.tokens[session.pk] != old
    assert played.report(session.pk, "RUNNING", fencing_token=old) == "stale"
    assert played.report(session.pk, "RUNNING") == "applied"


POISON: dict[str, Any] = {
    "no object": 3, "list": [], "no uuid": {"session_id": "x"}, "no seq": {"seq": None},
    "seq 0": {"seq": 0}, "seq huge": {"seq": 10**400}, "token text": {"fencing_token": "a"},
    "token 0": {"fencing_token": 0}, "status unknown": {"status": "DONE"},
    "status of the server": {"status": "CANCELLED"}, "status back": {"status": "SCHEDULED"},
    "exit code text": {"exit_code": "one"}, "exit code huge": {"exit_code": 2**31},
    "termination text": {"termination": "died"}, "message list": {"message": []},
    "message long": {"message": "x" * 65_537}, "node long": {"node": "n" * 254},
    "at text": {"at": "noon"}, "nobody's": {"session_id": str(uuid4())},
}  # fmt: skip


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_poison_report_does_not_block_the_others(
    played: Agent, at: Project, session: Session, poison: Any
) -> None:
    other = submit(at)
    played.lease()
    good = [played.reporting(each.pk, "RUNNING") for each in (session, other)]
    bad = played.reporting(session.pk, "RUNNING") | poison if isinstance(poison, dict) else poison
    answers = played.ask("reports", {"reports": [good[0], bad, good[1]]})["outcomes"]
    assert [each["outcome"] for each in answers] == ["applied", "invalid", "applied"]
    assert answers[1]["detail"]


ODD = {
    "NUL": '"message": "a\\u0000b"', "half a pair": '"message": "\\ud800"', "NaN": '"at": NaN',
    "infinite": '"at": 1e999', "deep": '"termination": {"x": ' + "[" * 300 + "]" * 300 + "}",
    "node": '"termination": {"node": "\\u0000"}', "words": '"termination": {"reason": "\\udfff"}',
    "key": '"termination": {"\\u0000": 1}',
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_facts_are_made_fit_and_taken(played: Agent, session: Session, odd: str) -> None:
    token = played.tokens[session.pk]
    raw = (
        f'{{"incarnation": 1, "reports": [{{"session_id": "{session.pk}", "fencing_token": {token},'
        f' "seq": 1, "status": "ERROR", "exit_code": 1, {odd}}}]}}'
    )
    path = f"executors/{played.executor.name}/reports/"
    answer = played.api.post(path, raw.encode()).json()
    assert answer["outcomes"][0]["outcome"] == "applied"
    assert reread(session).retry_cause == "kernel_nonzero_exit"
    assert check_all() == []


@pytest.mark.parametrize(
    ("fields", "code", "node"),
    [
        ({"exit_code": 3, "node": "n1"}, 3, "n1"),
        ({"exit_code": 3, "termination": {"exit_code": None, "node": ""}, "node": "n1"}, 3, "n1"),
        ({"exit_code": 3, "termination": {"exit_code": "x", "node": 5}, "node": "n1"}, 3, "n1"),
        ({"exit_code": 3, "termination": {"exit_code": 4, "node": "n2"}, "node": "n1"}, 4, "n2"),
        ({"termination": {"containers": [{"name": "a", "exit_code": 9}]}}, 9, ""),
        ({}, None, ""),
    ],
)
def test_the_end_takes_what_the_termination_does_not_say_from_the_report(
    played: Agent, session: Session, fields: dict[str, Any], code: int | None, node: str
) -> None:
    played.report(session.pk, "ERROR", **fields)
    assert (reread(session).exit_code, reread(session).node) == (code, node)


def test_cancel_wins_over_a_late_success(played: Agent, session: Session) -> None:
    played.start(session.pk)
    chain_cancel(session.pk, by="ann")
    assert reread(session).status == "TERMINATING"
    assert played.report(session.pk, "TERMINATED") == "applied"
    ended = reread(session)
    assert (ended.status, ended.retry_cause) == ("CANCELLED", "user_cancelled")
    assert ended.retry_state == "cancelled"
    assert check_all() == []


def test_a_batch_of_all_kinds_is_sound(played: Agent, at: Project) -> None:
    ids = [submit(at, owner=user(superuser=True), retry_policy=policy()).pk for _ in range(5)]
    played.lease()
    reports = [played.reporting(each, step) for step in ("RUNNING", "ERROR") for each in ids]
    outcomes = played.send(*reports, {"session_id": 1, "status": "ERROR"}, *reports)
    assert outcomes == ["applied"] * 10 + ["invalid"] + ["duplicate"] * 10
    assert check_all() == []


def test_a_superseded_agent_is_told_so(played: Agent, session: Session) -> None:
    played.incarnation = 7
    played.lease()
    played.incarnation = 6
    for verb, body in (
        ("lease", {}),
        ("reports", {"reports": [played.reporting(session.pk, "RUNNING")]}),
        ("return", {"returns": []}),
        ("logs", {"chunks": []}),
    ):
        response = played.call(verb, body)
        assert response.status_code == 409, verb
        assert response.json()["current_incarnation"] == 7
    assert reread(session).status == "SCHEDULED"


def test_a_report_of_a_newer_incarnation_takes_over(played: Agent, session: Session) -> None:
    played.incarnation = 9
    assert played.report(session.pk, "RUNNING") == "applied"
    played.incarnation = 1
    assert played.call("lease", {}).status_code == 409


@pytest.mark.parametrize("status", ["RUNNING", "ERROR", "TERMINATED"])
def test_the_number_of_statements_does_not_grow_with_the_batch(
    played: Agent, at: Project, status: str
) -> None:
    owner = user(superuser=True)

    def statements(count: int) -> int:
        ids = [submit(at, owner=owner, retry_policy=policy()).pk for _ in range(count)]
        played.lease()
        played.start(*ids) if status != "RUNNING" else None
        reports = [played.reporting(each, status) for each in ids]
        with CaptureQueriesContext(connection) as captured:
            assert set(played.send(*reports)) == {"applied"}
        return len(captured)

    statements(1)  # the first use of a token is written down
    few, many = statements(1), statements(100)
    # Many events are copied, beside all other rows.
    assert few <= many <= few + 1 <= 25


def test_every_spelling_of_a_uuid_is_accepted(played: Agent, session: Session) -> None:
    report = played.reporting(session.pk, "RUNNING")
    report["session_id"] = report["session_id"].upper()
    assert outcome(played, report)[0] == "applied"
    assert UUID(report["session_id"]) == session.pk


def test_a_running_session_shows_when_it_started(played: Agent, at: Project) -> None:
    session = running(played, submit(at))
    assert session.started_at is not None
    assert session.accepted_at is not None
    assert session.accepted_at <= session.started_at
