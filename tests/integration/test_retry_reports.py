"""Reports of what retries were worth, against what the sessions themselves say."""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from math import ceil
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from retry.evidence.termination import Termination
from sessions_app.core.retry_worth import SHORTEST, Worth
from sessions_app.core.states import ENDED_STATES
from sessions_app.locks import database_now
from sessions_app.models import (
    FailureReader,
    FailureSignature,
    Project,
    RetryAdvice,
    RetryDay,
    Session,
)
from sessions_app.models.tenants import Role
from sessions_app.selectors import reports
from sessions_app.selectors.reports import (
    DAY,
    GROUPS,
    Report,
    ReportWanted,
    days_of_values,
    retry_report,
)
from sessions_app.services.chains.dispatch import retries_dispatch
from sessions_app.services.chains.manual_retry import session_retry
from sessions_app.services.chains.retry_advice import retries_advise
from sessions_app.services.chains.settle import End, sessions_settle
from sessions_app.services.failures import worth
from sessions_app.services.failures.count import (
    failures_rebuild,
    reports_forget,
    stretch_count,
)
from sessions_app.services.sessions import retention
from sessions_app.services.sessions.cancel import chain_cancel
from tests import factories
from tests.agent import Api
from tests.factories import policy, reread, tip
from tests.graphs import Graph
from tests.invariants import check_all
from tests.told_log import failures_count
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
RETRIED = policy(max_retries=2)


Told = dict[str, Any] | None


def ended(
    session: Session, text: str = "error: disk is full\n", told: Told = None, **facts: Any
) -> None:
    """Run a session until it ends so, with the progress that it told.

    Attempts run on nodes with the same name, of two executors in turn.
    """
    factories.start(session, "ab"[session.retry_count % 2])
    termination = Termination(**({"exit_code": 1} | facts))
    sessions_settle({session.pk: End(termination, log_tail=text, progress=told)})


def step(number: float, saved: float | None = None) -> dict[str, Any]:
    """Progress up to a step, with a checkpoint of another one."""
    found = {"step": number, "of": None, "note": "", "best": number, "rate": None}
    return found if saved is None else {**found, "checkpoint": "c", "checkpoint_step": saved}


def chain(
    at: Project,
    *failures: str,
    succeeds: bool = True,
    told: Sequence[dict[str, Any]] = (),
    **fields: Any,
) -> Session:
    """A chain that fails with these texts and this progress, and then succeeds or gives up."""
    given = {"retry_policy": RETRIED, "image": "busybox:1", **fields}
    root = factories.submit(at, **given)
    for text, progress in zip_longest(failures, told):
        ended(tip(root), text, progress)
        retries_dispatch()
    if succeeds:
        ended(tip(root), "", exit_code=0, status="terminated")
    return reread(root)


@pytest.fixture
def history(at: Project) -> list[Session]:
    """Chains of all kinds, with times of their own."""
    rule = {"name": "full", "action": "Retry", "onExitCodes": {"operator": "In", "values": [7]}}
    factories.named_policy("team", rules=[rule], project=at)
    ann = factories.user("ann", project=at)
    factories.queue(at, "gpu")
    asked = {"retry_policies": ["team"], "image": "torch:2", "queue": "gpu"}
    ruled = factories.submit(at, owner=ann, retry_policy=RETRIED, **asked)
    ended(ruled, "error: bad row\n", exit_code=7)
    retries_dispatch()
    ended(tip(ruled), "", exit_code=0, status="terminated")
    cancelled = factories.submit(at, owner=ann)
    sessions_settle({cancelled.pk: End(Termination(status="cancelled"))})
    roots = [
        chain(at),
        chain(at, "error: disk is full\n"),
        chain(
            at,
            *("error: disk is full\n", "error: bad row\n"),
            image="torch:2",
            told=[step(50, 40), step(60, 55)],
        ),
        chain(
            at,
            *["error: bad row\n"] * 3,
            succeeds=False,
            told=[step(10, 10), step(30), step(40, 40)],
        ),
        chain(at, "error: no\n", succeeds=False, retry_policy=policy(max_retries=0)),
    ]
    waiting = factories.submit(at, retry_policy=policy(retry_delay=900))
    ended(waiting)
    return [ruled, cancelled, *roots, waiting]


def spread(seconds: float) -> None:
    """Give all runs and pauses lengths, in rows and log alike: as if time had passed between."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            """
            UPDATE sessions_app_session SET
                started_at = started_at - interval '1 hour' + make_interval(
                    secs => %(s)s * 100 * retry_count),
                finished_at = finished_at - interval '1 hour' + make_interval(
                    secs => %(s)s * (100 * retry_count + 7 + retry_count))
            WHERE finished_at IS NOT NULL
            """,
            {"s": seconds},
        )
        cursor.execute(
            """
            UPDATE sessions_app_sessionevent e SET data = e.data
                || CASE WHEN e.data ? 'started_at' THEN jsonb_build_object('started_at',
                    to_char(s.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US+00:00'))
                    ELSE '{}' END
                || CASE WHEN e.data ? 'finished_at' THEN jsonb_build_object('finished_at',
                    to_char(s.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US+00:00'))
                    ELSE '{}' END
            FROM sessions_app_session s WHERE s.id = e.session_id
            """
        )
        cursor.execute("SET session_replication_role = origin")


class Naive:
    """The same figures, from the rows of all sessions, one after another."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.times: dict[str, list[float]] = defaultdict(list)

    @classmethod
    def of(cls, by: str, having: dict[str, str] | None = None) -> "Naive":
        found = cls()
        for root in Session.objects.filter(parent=None):
            attempts = list(Session.objects.filter(root=root).order_by("retry_count"))
            if attempts[-1].retry_state in {state.value for state in ENDED_STATES}:
                found.add(by, attempts, having or {})
        return found

    def add(self, by: str, attempts: list[Session], having: dict[str, str]) -> None:
        last = attempts[-1]
        wanted = [
            each
            for each in attempts
            if all(
                value in {value_of(name, each, last), name == "node" and each.node}
                for name, value in having.items()
            )
        ]
        for value in {value_of(by, each, last) for each in wanted} - {""}:
            figures = self.figures[value]
            own = [each for each in wanted if value_of(by, each, last) == value]
            figures["chains"] += 1
            figures["retried"] += len(attempts) > 1
            figures["cancelled"] += last.status == "CANCELLED"
            figures["given_up"] += last.status == "ERROR"
            figures["attempts"] += len(own)
            figures["run"] += sum(map(ran, own))
            figures["wasted"] += sum(
                ran(each) * (1 - kept(each, after))
                for each, after in zip_longest(attempts, attempts[1:])
                if each in own and each.status == "ERROR"
            )
            pauses = [between(each, after) for each, after in pairwise(attempts) if each in own]
            figures["waiting"] += sum(pauses)
            if last.status == "TERMINATED" and len(attempts) > 1:
                figures["recovered"] += 1
                figures["rescued"] += sum(map(ran, attempts))
                assert last.finished_at is not None
                assert attempts[0].finished_at is not None
                took = last.finished_at - attempts[0].finished_at
                self.times[value].append(took.total_seconds())


def ran(session: Session) -> float:
    if session.started_at is None or session.finished_at is None:
        return 0.0
    return (session.finished_at - session.started_at).total_seconds()


def kept(failed: Session, following: Session | None) -> float:
    """Return what the next attempt got of its steps, from what both were handed."""
    if following is None or not failed.progress or not following.chain_progress:
        return 0.0
    begin = (failed.chain_progress or {}).get("step", 0)
    part: float = (following.chain_progress["step"] - begin) / (failed.progress["step"] - begin)
    return part


def between(failed: Session, following: Session) -> float:
    """The seconds until the next attempt ran; all of them do in these tests."""
    assert failed.finished_at is not None
    assert following.started_at is not None
    return (following.started_at - failed.finished_at).total_seconds()


def value_of(by: str, session: Session, last: Session) -> str:
    """The value of an attempt of a chain."""
    failed = session.status == "ERROR"
    if by == DAY:
        assert last.finished_at is not None
        return last.finished_at.date().isoformat()
    if by in {"rule", "policy"}:
        rule = factories.decision(session).rule if failed else ""
        return rule if by == "rule" else rule.rpartition("/")[0]
    return {
        "": "all",
        "cause": session.retry_cause if failed else "",
        "signature": session.failure_signature,
        "queue": session.queue.name,
        "owner": session.owner.username if session.owner else "",
        "image": session.spec.image,
        "node": session.node and f"{session.executor}/{session.node}",
    }[by]


def report(at: Project, by: str = "cause", **asked: Any) -> Report:
    wanted = ReportWanted.of(database_now(), by=by, **asked)
    return retry_report([at.pk], wanted)


def check_report(at: Project, **having: str) -> None:
    """Fail unless the reports by everything say what the sessions say."""
    for by in GROUPS:
        shown = {row.value: row for row in report(at, by, **having).rows if row.worth.chains}
        naive = Naive.of(by, having)
        assert shown.keys() == naive.figures.keys(), by
        for value, figures in naive.figures.items():
            check_row(shown[value], figures, naive.times[value], f"{by} {value}")
    whole = Naive.of("", having)
    check_row(report(at, **having).total, whole.figures["all"], whole.times["all"], "total")


def check_row(row: Any, figures: dict[str, float], times: list[float], where: str) -> None:
    for name in Worth.__slots__:
        if name != "recoveries":
            assert getattr(row.worth, name) == pytest.approx(figures[name], abs=0.001), where
    for share in (0.5, 0.95):
        exact = sorted(times)[ceil(share * len(times)) - 1] if times else None
        near = None if exact is None else pytest.approx(exact, rel=0.15, abs=SHORTEST)
        assert row.percentile(share) == near, where


@pytest.mark.parametrize("limit", [3, 2_000])
def test_reports_say_what_the_sessions_say(at: Project, history: list[Session], limit: int) -> None:
    spread(1.5)
    while stretch_count(limit)[1]:
        pass
    check_report(at)
    total = report(at).total.worth
    failed = Session.objects.filter(status="ERROR", root__in=[each.pk for each in history[:-1]])
    lost = sum(map(ran, failed))
    assert 0.4 * lost < total.wasted < 0.9 * lost  # checkpoints kept the rest
    assert (total.chains, total.retried, total.recovered) == (7, 4, 3)
    assert (total.given_up, total.cancelled, total.attempts) == (2, 1, 13)
    assert {row.value for row in report(at, "rule").rows} == {"team/full"}
    assert {row.value for row in report(at, "policy").rows} == {"team"}
    assert check_all() == []


@pytest.mark.parametrize(
    "having",
    [
        {"cause": "kernel_nonzero_exit"},
        {"rule": "team/full"},
        {"policy": "team"},
        {"queue": "gpu", "owner": "ann"},
        {"owner": "ann"},
        {"image": "torch:2", "node": "node-1"},
        {"image": "torch:2", "node": "b/node-1"},
        {"node": "a/node-1"},
        {"node": "c/node-1"},
        {"node": "node-2"},
        {"cause": "kernel_nonzero_exit", "image": "busybox:1"},
    ],
)
def test_filtered_reports_say_what_the_sessions_say(
    at: Project, history: list[Session], having: dict[str, str]
) -> None:
    spread(1.5)
    failures_count()
    check_report(at, **having)
    key = history[4].failure_signature
    assert key
    check_report(at, signature=key)


@pytest.mark.parametrize(
    "having", [{}, {"queue": "gpu"}, {"node": "node-1"}, {"cause": "kernel_nonzero_exit"}]
)
def test_the_days_of_a_report_add_up_to_it(
    at: Project, history: list[Session], having: dict[str, str]
) -> None:
    spread(1.5)
    failures_count()
    for by in GROUPS[:-1]:
        found = report(at, by, **having)
        whole = Worth()
        for of_day in found.days.values():
            whole.add(of_day)
        assert whole == found.total.worth
        top = [row.value for row in found.rows if row.value][:1]
        sums = {name: Worth() for name in (*top, "")}
        for (_, value), cell in days_of_values([at.pk], found, top).items():
            sums[value].add(cell)
        rows = {name: Worth() for name in sums}
        for row in found.rows:
            rows[row.value if row.value in top else ""].add(row.worth)
        for value, summed in sums.items():
            check_sums(summed, rows[value], f"{by} {value}")


def check_sums(summed: Worth, shown: Worth, where: str) -> None:
    for name in Worth.__slots__:
        if name != "recoveries":
            assert getattr(summed, name) == pytest.approx(getattr(shown, name)), (where, name)


def test_a_filtered_report_takes_as_many_statements_for_many(
    at: Project, history: list[Session], api: Api
) -> None:
    path = "reports/retries/?project=acme/work&by=image&queue=default"
    api.read(path)
    taken = []
    for number in range(2):
        for text in "abcde"[: 5 * number]:
            chain(at, f"error: {text}\n", image=f"{text}:1")
        with CaptureQueriesContext(connection) as queries:
            api.read(path)
        taken.append(len(queries))
    assert taken[0] == taken[1]


def rows() -> list[tuple[Any, ...]]:
    """All rows that say anything, without their ids."""
    fields = [each.name for each in RetryDay._meta.fields if each.name != "id"]
    found = RetryDay.objects.exclude(chains=0).values_list(*fields)
    return sorted(
        tuple(round(each, 3) if isinstance(each, float) else each for each in row) for row in found
    )


def test_a_rebuild_reads_archived_chains_from_the_log(at: Project, history: list[Session]) -> None:
    spread(1.5)
    failures_count()
    before = rows()
    roots = [root.pk for root in history]
    assert retention.chains_archive(roots, database_now() + timedelta(days=1))
    failures_rebuild()
    assert rows() == before


def test_a_chain_that_is_retried_by_hand_counts_where_it_ends_at_last(
    at: Project, history: list[Session]
) -> None:
    failures_count()
    given_up, refused = history[5], history[6]
    session_retry(tip(given_up).pk, given_up.pk, by="bob")
    failures_count()
    assert report(at).total.worth.given_up == 2  # until it ends again
    ended(tip(given_up), "", exit_code=0, status="terminated")
    session_retry(tip(refused).pk, refused.pk, by="bob")
    ended(tip(refused), "error: bad row\n")
    failures_count()
    check_report(at)
    total = report(at).total.worth
    assert (total.chains, total.retried, total.recovered, total.given_up) == (7, 5, 4, 1)
    before = rows()
    failures_rebuild()
    assert rows() == before


def test_a_chain_whose_waiting_retry_is_cancelled_counts_then(
    at: Project, history: list[Session]
) -> None:
    failures_count()
    waiting = history[-1]
    assert report(at).total.worth.chains == 7
    chain_cancel(waiting.pk, by="bob")
    failures_count()
    total = report(at).total.worth
    assert (total.chains, total.cancelled, total.given_up) == (8, 2, 2)
    assert sum(row.worth.cancelled for row in report(at, "owner").rows) == 2


def test_a_node_is_named_by_its_executor_or_by_its_name_alone(
    at: Project, history: list[Session]
) -> None:
    failures_count()
    # As counted by a release that told nodes apart by their names alone.
    RetryDay.objects.filter(dimension="node", value="b/node-1").update(value="node-1")
    nodes = {row.value: row.worth.attempts for row in report(at, "node").rows}
    assert nodes.keys() == {"a/node-1", "node-1"}
    days = report(at, "day", node="node-1").rows
    assert sum(row.worth.attempts for row in days) == sum(nodes.values()) == 12
    only = report(at, "day", node="a/node-1").rows
    assert sum(row.worth.attempts for row in only) == nodes["a/node-1"]
    given_up = history[5]
    assert tip(given_up).executor == "a"
    before = {row.value: row.worth.given_up for row in report(at, "node").rows}
    session_retry(tip(given_up).pk, given_up.pk, by="bob")
    ended(tip(given_up), "", exit_code=0, status="terminated")
    failures_count()
    after = {row.value: row.worth.given_up for row in report(at, "node").rows}
    # Its end of before is taken back where it was counted.
    assert {value: before[value] - after[value] for value in before} == {"a/node-1": 1, "node-1": 1}
    failures_rebuild()
    check_report(at)


def test_values_beyond_the_most_of_a_day_are_one_row(at: Project, monkeypatch: Any) -> None:
    monkeypatch.setattr(worth, "MOST_VALUES", 2)
    for image in ("a:1", "b:1", "a:1", "c:1", "d:1"):
        chain(at, image=image)
        failures_count()
    shown = {row.value: row.worth.chains for row in report(at, "image").rows}
    assert shown == {"a:1": 2, "b:1": 1, None: 2}
    assert report(at, "image").total.worth.chains == 5


def test_values_beyond_the_most_of_a_report_are_one_row(
    at: Project, history: list[Session], monkeypatch: Any
) -> None:
    spread(1.5)
    failures_count()
    whole = report(at, "signature").rows
    # With another exit code a bad row is another failure.
    titles = ["error: bad row", "error: bad row", "error: disk is full", "error: no"]
    assert sorted(row.title for row in whole) == titles
    monkeypatch.setattr(reports, "TOP", 1)
    first, others = report(at, "signature").rows
    assert first == whole[0]
    assert (others.value, others.title) == (None, "")
    rest = Worth()
    for row in whole[1:]:
        rest.add(row.worth)
    assert others.worth.chains == rest.chains
    assert others.worth.recoveries == rest.recoveries


def test_what_the_sweep_brings_between_two_statements_is_left_out(
    at: Project, history: list[Session], monkeypatch: Any
) -> None:
    failures_count()
    monkeypatch.setattr(reports, "_RECOVERIES", "SELECT 'has just come', 1, 1")
    assert "has just come" not in [row.value for row in report(at, "queue").rows]


def test_old_days_are_forgotten_and_a_rebuild_keeps_what_the_log_has_lost(at: Project) -> None:
    chain(at, "error: no\n")
    until(failures_count)  # autovacuum may hold up the end of the log
    today = database_now().date()
    RetryDay.objects.update(day=today - timedelta(days=500))
    chain(at)
    failures_count()
    failures_rebuild(database_now() - timedelta(days=400))
    by_day = dict(RetryDay.objects.filter(dimension="").values_list("day", "chains"))
    assert by_day == {today: 2, today - timedelta(days=500): 1}
    assert reports_forget(today - timedelta(days=499), 100) > 0
    assert set(RetryDay.objects.values_list("day", flat=True)) == {today}
    failures_rebuild(database_now())  # today is older than what the log has as a whole
    assert RetryDay.objects.get(dimension="").chains == 2


def test_a_server_of_the_release_before_left_reports_behind(
    at: Project, history: list[Session]
) -> None:
    failures_count()
    before, signatures = rows(), failure_figures()
    RetryDay.objects.all().delete()
    FailureReader.objects.filter(pk=2).delete()
    while stretch_count(5)[1]:
        pass
    assert rows() == before
    assert failure_figures() == signatures
    places = FailureReader.objects.values_list("epoch", "xid", "event_id")
    assert len(set(places)) == 1


def failure_figures() -> list[tuple[Any, ...]]:
    columns = ("key", "sessions", "chains", "recovered_chains", "lost_run_seconds")
    return sorted(FailureSignature.objects.values_list(*columns))


@pytest.fixture
def api(at: Project) -> Api:
    """A viewer's."""
    return Api(factories.token(factories.user("vic", project=at, role=Role.VIEWER)))


def test_rest_tells_it_as_json_and_as_csv(
    at: Project, history: list[Session], api: Api, graph: Graph
) -> None:
    spread(1.5)
    failures_count()
    elsewhere = factories.project("elsewhere")
    chain(elsewhere, "error: no\n", image="=cmd()")
    failures_count()
    shown = api.read("reports/retries/?project=acme/work&by=image")
    assert (shown["project"], shown["by"]) == ("acme/work", "image")
    assert (shown["total"]["chains"], shown["total"]["recovered_chains"]) == (7, 3)
    names = [row["value"] for row in shown["results"]]
    assert sorted(names) == ["busybox:1", "torch:2"]
    assert api.read("reports/retries/")["total"] == shown["total"]
    for kept in (shown["results"], [shown["total"]]):
        assert all(row["recovery_seconds_p95"] > 0 for row in kept)
    headers = {"Authorization": f"Bearer {api.token}", "Accept": "text/csv"}
    answer = api.get("reports/retries/?by=image", headers=headers)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    table = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["value"] for row in table] == names
    assert [float(row["wasted_run_seconds"]) for row in table] == [
        row["wasted_run_seconds"] for row in shown["results"]
    ]
    bad = api.get("reports/retries/?by=colour", headers=headers)
    assert (bad.status_code, [*bad.json()["errors"]]) == (400, ["by"])
    fields = "total { chains rescuedRunSeconds } results { value recoverySecondsMedian }"
    asked = f'retryReport(project: "acme/work", by: "image") {{ project {fields} }}'
    found = graph.ask(f"{{ {asked} }}")["retryReport"]
    assert found["total"] == {
        "chains": 7,
        "rescuedRunSeconds": shown["total"]["rescued_run_seconds"],
    }
    assert [row["value"] for row in found["results"]] == names
    root = Api(factories.token(factories.user(superuser=True)))
    headers["Authorization"] = f"Bearer {root.token}"
    assert "'=cmd()" in root.get("reports/retries/?by=image", headers=headers).content.decode()


def test_a_report_by_day_has_all_days(at: Project, history: list[Session], api: Api) -> None:
    failures_count()
    shown = api.read("reports/retries/?by=day")
    assert len(shown["results"]) == 30
    assert [row["chains"] for row in shown["results"]][-1] == 7
    since = database_now() - timedelta(days=365)
    shown = api.read(f"reports/retries/?by=day&since={since:%Y-%m-%d}T23:00:00Z")
    assert len(shown["results"]) == 366
    midnight = f"{database_now():%Y-%m-%d}T00:00:00Z"
    assert api.read(f"reports/retries/?until={midnight}")["total"]["chains"] == 0


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2031-01-01T00:00:00Z", "since"),
        ("since=2020-01-01T00:00:00Z", "since"),
        ("since=0001-01-01T00:00:00Z&until=0001-01-01T00:00:00Z", "since"),
        ("until=0001-01-02T00:00:00Z", "until"),
        ("until=9999-12-31T23:00:00Z", "until"),
        ("since=0001-01-01T00:00:00%2B12:00", "since"),
        ("since=2020-01-01", "since"),
        ("by=colour", "by"),
        ("project=acme/none", "project"),
        ("cause=cold", "cause"),
        ("job_set=a", "job_set"),
    ],
)
def test_a_bad_question_is_told_which_field_is_wrong(api: Api, query: str, field: str) -> None:
    answer = api.get(f"reports/retries/?{query}")
    assert answer.status_code == 400
    assert [*answer.json()["errors"]] == [field]


@pytest.mark.parametrize("by", ["cause", "signature", "day"])
def test_a_report_takes_as_many_statements_for_many(
    at: Project, history: list[Session], api: Api, by: str
) -> None:
    taken = []
    for number in range(2):
        for text in "abcde"[: 5 * number]:
            chain(at, f"error: {text}\n", image=f"{text}:1")
        failures_count()
        with CaptureQueriesContext(connection) as queries:
            api.read(f"reports/retries/?project=acme/work&by={by}")
        taken.append(len([each for each in queries if "retryday" in each["sql"]]))
        tables = ("sessions_app_session ", "sessions_app_sessionevent")
        assert not [each for each in queries if any(name in each["sql"] for name in tables)]
    assert taken[0] == taken[1] == (2 if by == "day" else 4)


def test_counting_takes_as_many_statements_for_many(at: Project) -> None:
    chain(at)
    failures_count()
    taken = []
    for number in (1, 6):
        for image in "abcdef"[:number]:
            chain(at, "error: no\n", image=f"{image}:{number}")
        with CaptureQueriesContext(connection) as queries:
            stretch_count()
        taken.append(len([each for each in queries if "retryday" in each["sql"]]))
    assert taken == [3, 3]


def test_advice_is_computed_once_a_day(at: Project, history: list[Session], api: Api) -> None:
    assert retries_advise() == 0  # no report says that anything was retried
    failures_count()
    assert api.read("reports/retries/?project=acme/work")["advice"] == []
    elsewhere = factories.project("elsewhere")
    chain(elsewhere, "error: no\n")
    quiet = factories.project("quiet")
    chain(quiet)
    failures_count()
    assert retries_advise() == 2
    assert retries_advise() == 0
    (said,) = api.read("reports/retries/?project=acme/work")["advice"]
    assert "In a replay of 8 chains" in said
    # One chain needed both of its retries; those that gave up would have another attempt.
    assert "1 of 3 recovered chains would not" in said
    root = Api(factories.token(factories.user(superuser=True)))
    assert root.read("reports/retries/")["advice"] == []
    RetryAdvice.objects.filter(project=at).update(
        computed_at=database_now() - timedelta(hours=25), facts={}
    )
    assert retries_advise() == 1
    assert api.read("reports/retries/")["advice"] == [said]
    at_once = RetryAdvice.objects.values_list("project", flat=True)
    assert set(at_once) == {at.pk, elsewhere.pk}


def test_old_advice_is_neither_shown_nor_kept(
    at: Project, history: list[Session], api: Api, graph: Graph
) -> None:
    failures_count()
    path = "reports/retries/?project=acme/work"
    assert api.read(path)["advice_computed_at"] is None
    assert retries_advise() == 1
    shown, advised = api.read(path), RetryAdvice.objects.get()
    assert shown["advice"]
    assert datetime.fromisoformat(shown["advice_computed_at"]) == advised.computed_at
    asked = 'retryReport(project: "acme/work") { advice adviceComputedAt }'
    told = graph.ask(f"{{ {asked} }}")["retryReport"]
    assert told == {"advice": shown["advice"], "adviceComputedAt": shown["advice_computed_at"]}
    factories.project("elsewhere")
    several = Api(factories.token(factories.user(superuser=True))).read("reports/retries/")
    assert (several["advice"], several["advice_computed_at"]) == ([], None)
    # Nothing is retried any more: no run computes it anew.
    RetryDay.objects.update(retried=0)
    for days, advice in ((2, shown["advice"]), (4, [])):
        RetryAdvice.objects.update(computed_at=database_now() - timedelta(days=days))
        assert api.read(path)["advice"] == advice
    assert api.read(path)["advice_computed_at"] is None
    assert RetryAdvice.objects.exists()
    assert retries_advise() == 0
    assert not RetryAdvice.objects.exists()


def test_advice_takes_as_many_statements_for_many(at: Project) -> None:
    taken = []
    for number in (1, 6):
        for image in "abcdef"[:number]:
            chain(at, "error: no\n", image=f"{image}:{number}")
        while stretch_count()[1]:
            pass
        RetryAdvice.objects.all().delete()
        with CaptureQueriesContext(connection) as queries:
            assert retries_advise() == 1
        taken.append(len(queries))
    assert taken[0] == taken[1]
