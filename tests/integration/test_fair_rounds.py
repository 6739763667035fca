"""Lease rounds: fair among queues, in order inside them, and never more than there is."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from scheduler.allocation import waiting_lines
from scheduler.allocation.queue_usage import queue_usage_refresh
from scheduler.models import Executor, Lease, Pool, QueueUsage, Reservation
from scheduler.services.leases import lease_round
from sessions_app.models import Project, Queue, Session
from sessions_app.services.chains.dispatch import retries_dispatch
from tests.agent import Agent, admin, agent
from tests.factories import executor, policy, project, queue, submit, user
from tests.invariants import check_all
from tests.racing import race


@pytest.fixture
def at() -> Project:
    return project()


def waiting(at: Project, count: int, queue: str = "default", **fields: Any) -> list[UUID]:
    """Submit this number of sessions to one queue."""
    owner = fields.pop("owner", None) or user(superuser=True)
    return [submit(at, owner=owner, queue=queue, **fields).pk for _ in range(count)]


def by_queue(leased: Sequence[UUID]) -> Counter[str]:
    return Counter(Session.objects.filter(pk__in=leased).values_list("queue__name", flat=True))


def take(played: Agent, count: int) -> list[UUID]:
    """Up to `count` more sessions for an agent."""
    return played.lease(limits={"max_sessions": len(played.tokens) + count})


def test_queues_share_by_the_inverses_of_their_factors(at: Project, played: Agent) -> None:
    for name, factor in (("one", 1.0), ("two", 2.0), ("four", 4.0)):
        queue(at, name, priority_factor=factor)
        waiting(at, 20, name)
    assert by_queue(take(played, 14)) == {"one": 8, "two": 4, "four": 2}
    # What was leased a moment ago counts, whoever asks next.
    other = agent("other")
    assert by_queue(take(other, 14)) == {"one": 8, "two": 4, "four": 2}
    # What a queue cannot use goes to the others.
    assert by_queue(take(played, 32)) == {"one": 4, "two": 12, "four": 16}
    assert check_all() == []


def test_a_queue_that_holds_much_waits_for_the_others(at: Project, played: Agent) -> None:
    queue(at, "late")
    waiting(at, 12)
    assert len(take(played, 6)) == 6
    waiting(at, 12, "late")
    assert by_queue(take(played, 6)) == {"late": 6}
    assert by_queue(take(played, 6)) == {"default": 3, "late": 3}


def test_past_usage_of_a_queue_counts_for_a_while(
    at: Project, played: Agent, settings: Any
) -> None:
    queue(at, "late")
    held = waiting(at, 8)
    assert set(take(played, 8)) == set(held)
    assert queue_usage_refresh() == 1
    # As if a half time had gone by since.
    half_time = settings.REPRISE["priority_half_time"]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_queueusage SET computed_at = computed_at - make_interval(secs => %s)",
            [half_time],
        )
    assert queue_usage_refresh() == 1
    usage = QueueUsage.objects.get()
    assert usage.used == {"sessions": "8"}
    assert usage.cost == 1.0
    assert usage.current_priority == pytest.approx(0.5, abs=0.01)
    assert Pool.objects.get().amounts == {"sessions": "8"}
    played.start(*held)
    played.succeed(*held)
    assert queue_usage_refresh() == 1
    waiting(at, 20), waiting(at, 20, "late")
    # Far from its share, only what a queue holds counts. Near it, its past decides.
    assert by_queue(take(played, 18)) == {"default": 9, "late": 9}
    assert by_queue(take(played, 1)) == {"late": 1}


def test_leases_of_others_count_as_long_as_they_are_held(at: Project, played: Agent) -> None:
    queue(at, "late")
    other = agent("other")
    held = waiting(at, 8)
    assert set(take(other, 8)) == set(held)
    waiting(at, 20), waiting(at, 20, "late")
    assert by_queue(take(played, 8)) == {"late": 8}
    other.start(*held)
    other.succeed(*held)
    assert by_queue(take(played, 8)) == {"default": 8}


def test_memory_of_what_is_over_is_dropped(at: Project, played: Agent) -> None:
    held = waiting(at, 1)
    take(played, 1)
    queue_usage_refresh()
    played.start(*held)
    played.succeed(*held)
    QueueUsage.objects.update(current_priority=0.0)
    assert queue_usage_refresh() == 0
    assert not QueueUsage.objects.exists()
    with CaptureQueriesContext(connection) as seen:
        assert queue_usage_refresh() == 0
    assert len(seen) == 1


def test_shares_are_of_the_resource_of_which_a_queue_takes_most(at: Project, played: Agent) -> None:
    played.nodes = [{"name": "n", "allocatable": {"cpu": "100", "memory": "100Gi"}}]
    queue(at, "memory")
    waiting(at, 60, resources={"cpu": "2", "memory": "1Gi"})
    waiting(at, 60, "memory", resources={"cpu": "1", "memory": "4Gi"})
    # 2x + y = 100 and x + 4y = 100 cross where both have more than the other resource allows;
    # equal dominant shares are 2x = 4y.
    leased = by_queue(take(played, 100))
    assert 2 * leased["default"] == pytest.approx(4 * leased["memory"], abs=8)
    assert 2 * leased["default"] + leased["memory"] <= 100


def test_retries_leave_half_of_the_queue_to_fresh_sessions(at: Project, played: Agent) -> None:
    owner = user(superuser=True)
    failing = waiting(at, 8, owner=owner, retry_policy=policy())
    assert set(take(played, 8)) == set(failing)
    played.start(*failing)
    played.fail(*failing)
    fresh = waiting(at, 8, owner=owner)
    retries_dispatch()
    leased = take(played, 8)
    assert len(set(leased) & set(fresh)) == 4
    # What fresh sessions do not want is the retries'.
    assert set(fresh) < set(take(played, 8)) | set(leased)


def test_retries_of_a_bulk_call_do_not_wait_behind_the_rest_of_it(
    at: Project, played: Agent
) -> None:
    """All of a call were submitted at the same time: the later id of a retry decides nothing."""
    item = {"project": at.address, "command": ["true"], "retry_policy": policy()}
    answer = admin().post("sessions/bulk/", {"sessions": [item] * 30}).json()
    ids = [UUID(each["session_id"]) for each in answer["results"]]
    first = take(played, 10)
    assert first == ids[:10]
    failing = first[:7]
    played.start(*failing)
    # The first one of the call is the last to fail.
    for each in reversed(failing):
        played.fail(each)
        retries_dispatch()
    (ahead,) = Session.objects.filter(root=failing[0], phase="waiting")
    Session.objects.update(created_at=F("created_at") - timedelta(seconds=10))
    why = [
        admin().read(f"sessions/{each}/")["why_pending"]["ahead"] for each in (ahead.pk, ids[10])
    ]
    assert why == [0, 7]
    again = Session.objects.filter(pk__in=take(played, 7)).order_by("root_id")
    # Retries get half of what their queue holds, those of the first roots first.
    assert [each.root_id for each in again if each.retry_count] == failing[:5]
    assert [each.pk for each in again if not each.retry_count] == ids[10:12]


def test_a_queue_stays_below_its_limits(at: Project, played: Agent) -> None:
    played.nodes = [{"name": "n", "allocatable": {"cpu": "100"}}]
    queue(at, "small", resource_limits={"cpu": "5", "sessions": 9})
    queue(at, "few", resource_limits={"sessions": 3})
    waiting(at, 10, "small", resources={"cpu": "2"})
    waiting(at, 10, "few")
    leased = take(played, 20)
    assert by_queue(leased) == {"small": 2, "few": 3}
    assert take(played, 20) == []
    done = next(pk for pk in leased if Session.objects.get(pk=pk).queue.name == "small")
    played.start(done)
    played.succeed(done)
    assert by_queue(take(played, 20)) == {"small": 1}


@pytest.mark.django_db(transaction=True)
def test_rounds_at_once_share_the_sessions_and_keep_the_limit() -> None:
    at = project()
    queue(at, "limited", resource_limits={"sessions": 10})
    owner = user(superuser=True)
    for name in ("default", "limited"):
        waiting(at, 60, name, owner=owner)
    names = [executor(f"e{n}").name for n in range(4)]
    for name in names:
        Agent(executor_named(name), max_sessions=0).lease()
    executors_take(20)
    rounds = race(*(lambda name=name: lease_round(name, 1).leases for name in names))
    leased = [each.session_id for leases in rounds for each in leases]
    assert len(leased) == len(set(leased))
    counted = by_queue(leased)
    assert counted["limited"] <= 10
    # One of them had the limited queue; what is left was the next round's.
    for name in names:
        leased += [each.session_id for each in lease_round(name, 1).leases]
    assert by_queue(leased) == {"limited": 10, "default": 60}
    assert Lease.objects.count() == 70
    assert check_all() == []


def executor_named(name: str) -> Any:
    return Executor.objects.get(name=name)


def executors_take(sessions: int) -> None:
    Executor.objects.update(max_sessions=sessions)


def test_a_session_that_fits_nowhere_hides_nothing_in_any_queue(at: Project, played: Agent) -> None:
    played.nodes = [{"name": "n", "allocatable": {"cpu": "4"}}]
    owner = user(superuser=True)
    behind = []
    for number in range(3):
        name = queue(at, f"q{number}").name
        for cpus in range(5, 9):
            waiting(at, 3, name, owner=owner, resources={"cpu": str(cpus)}, priority=1)
        behind += waiting(at, 1, name, owner=owner, resources={"cpu": "1"})
    assert set(take(played, 10)) == set(behind)


def test_a_queue_of_very_different_sessions_has_them_all_leased_in_time(
    at: Project, played: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round looks at some of their kinds only, others each time."""
    monkeypatch.setattr(waiting_lines, "LINES_OF_A_QUEUE", (1, 4))
    played.nodes = [{"name": "n", "allocatable": {"memory": "1Ti"}}]
    owner = user(superuser=True)
    left = {
        waiting(at, 1, owner=owner, resources={"memory": f"{number}Mi"})[0]
        for number in range(1, 25)
    }
    for _ in range(200):
        left -= set(take(played, 30))
        if not left:
            break
    assert not left


def statements(played: Agent) -> int:
    with CaptureQueriesContext(connection) as seen:
        take(played, 40)
    return len(seen)


def test_a_round_is_as_many_statements_however_many_queues_and_sessions(
    at: Project, played: Agent
) -> None:
    owner = user(superuser=True)
    waiting(at, 3, owner=owner)
    take(played, 1)
    few = statements(played)
    for number in range(12):
        name = queue(at, f"q{number}").name
        for cpus in ("0", "0.0"):
            waiting(at, 3, name, owner=owner, resources={"cpu": cpus})
    take(played, 1)
    assert statements(played) <= few
    # With those of the call around it: the token, the heartbeat, savepoints.
    assert few <= 32


def test_sessions_that_ask_for_the_same_are_in_one_line(at: Project) -> None:
    spec = {"nodeSelector": {"a": "b"}, "containers": [{"name": "x"}]}
    alike = waiting(at, 2, resources={"cpu": "1", "memory": "1Gi"}, environ={"A": "1"})
    alike += waiting(at, 1, resources={"memory": "1Gi", "cpu": "1"}, priority=3, image="i")
    apart = [
        *waiting(at, 1, resources={"cpu": "2", "memory": "1Gi"}),
        *waiting(at, 1, resources={"cpu": "1", "memory": "1Gi"}, cluster_size=2),
        *waiting(at, 1, resources={"cpu": "1", "memory": "1Gi"}, pod_spec=spec),
    ]
    keys = dict(Session.objects.values_list("pk", "scheduling_key"))
    assert len({keys[each] for each in alike}) == 1
    assert len({keys[each] for each in (alike[0], *apart)}) == 4


def test_sessions_without_a_key_get_the_one_that_they_would_have(
    at: Project, played: Agent
) -> None:
    """Those that were handed back have none."""
    waiting(at, 2, resources={"cpu": "1"}, pod_spec={"nodeSelector": {"a": "b"}})
    retried = waiting(at, 1, retry_policy=policy())
    take(played, 1)
    played.start(*retried)
    played.fail(*retried)
    retries_dispatch()
    before = dict(Session.objects.filter(phase="waiting").values_list("pk", "scheduling_key"))
    assert len(before) == 3
    assert None not in before.values()
    Session.objects.update(scheduling_key=None)
    assert played.lease(limits={"max_sessions": 1}) == list(
        Session.objects.filter(parent__isnull=False).values_list("pk", flat=True)
    )
    after = dict(Session.objects.filter(pk__in=before).values_list("pk", "scheduling_key"))
    assert after == before


def test_all_pods_of_a_cluster_session_or_none(at: Project, played: Agent) -> None:
    played.nodes = [{"name": n, "allocatable": {"cpu": "2"}} for n in "ab"]
    (large,) = waiting(at, 1, resources={"cpu": "1"}, cluster_size=4)
    (small,) = waiting(at, 1, resources={"cpu": "1"}, priority=1)
    assert take(played, 5) == [small]
    played.start(small)
    played.succeed(small)
    assert take(played, 5) == [large]
    waiting(at, 1, resources={"cpu": "1"})
    assert take(played, 5) == []


def test_labels_and_taints_of_nodes_are_respected(at: Project) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    plain = agent("plain", nodes=[{"name": "p", "allocatable": {"cpu": "4"}}])
    special = agent(
        "special",
        nodes=[{"name": "s", "allocatable": {"cpu": "4"}, "labels": {"gpu": "a100"},
                "taints": [taint]}],
    )  # fmt: skip
    tolerant = {"nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu", "value": "yes"}]}
    (wants,) = waiting(at, 1, resources={"cpu": "1"}, pod_spec=tolerant)
    (other,) = waiting(at, 1, resources={"cpu": "1"})
    assert take(special, 5) == [wants]
    assert take(plain, 5) == [other]


def test_a_large_session_does_not_starve(at: Project, played: Agent, settings: Any) -> None:
    """Small ones take what ends, until it has waited for too long."""
    played.nodes = [{"name": n, "allocatable": {"cpu": "2"}} for n in "ab"]
    owner = user(superuser=True)
    queue(at, "small")
    running = waiting(at, 4, "small", owner=owner, resources={"cpu": "1"})
    assert set(take(played, 9)) == set(running)
    played.start(*running)
    (large,) = waiting(at, 1, owner=owner, resources={"cpu": "2"})
    small = waiting(at, 9, "small", owner=owner, resources={"cpu": "1"})
    played.succeed(running.pop())
    assert take(played, 9) == small[:1]
    settings.REPRISE = {**settings.REPRISE, "starved_after": 0.0}
    played.succeed(running.pop())
    assert take(played, 9) == []
    played.start(small[0])
    for each in [*running, small[0]]:
        played.succeed(each)
        if large in take(played, 9):
            break
    else:
        raise AssertionError("it has never had a node")
    assert check_all() == []


def test_a_queue_that_holds_its_share_gets_nothing_by_age(
    at: Project, played: Agent, settings: Any
) -> None:
    """Where much waits, all of it has waited for too long."""
    settings.REPRISE = {**settings.REPRISE, "starved_after": 0.0}
    played.nodes = [{"name": "a", "allocatable": {"cpu": "8"}}]
    owner = user(superuser=True)
    queue(at, "late")
    running = waiting(at, 12, owner=owner, resources={"cpu": "1"})[:8]
    assert take(played, 9) == running
    waiting(at, 12, "late", owner=owner, resources={"cpu": "1"})
    played.start(*running)
    for each in running[:4]:
        played.succeed(each)
        assert by_queue(take(played, 9)) == {"late": 1}


@pytest.mark.parametrize(
    ("factors", "idle"),
    [((1, 4), 0), ((1, 4), 48), ((1, 8, 8, 8, 8), 0)],
    ids=["two queues", "two thirds of the pool for nobody", "five queues"],
)
def test_shares_hold_for_as_long_as_the_backlog_does(
    at: Project, played: Agent, settings: Any, factors: Sequence[float], idle: int
) -> None:
    """Also when all that waits has waited for too long, and where a part of the pool is idle."""
    settings.REPRISE = {**settings.REPRISE, "starved_after": 0.0}
    played.nodes = [{"name": n, "allocatable": {"cpu": "8"}} for n in "abc"]
    if idle:
        nodes = [{"name": "z", "allocatable": {"cpu": str(idle)}}]
        serving = executor("idle", projects=(project("other"),))
        Agent(serving, nodes=nodes).lease()
        queue_usage_refresh()
    owner = user(superuser=True)
    queues = [queue(at, f"q{n}", priority_factor=factor).name for n, factor in enumerate(factors)]
    for name in queues:
        waiting(at, 100 if name == "q0" else 50, name, owner=owner, resources={"cpu": "1"})
    running = take(played, 24)
    assert len(running) == 24
    held: Counter[str] = Counter()
    for _ in range(70):
        first = running.pop(0)
        played.start(first)
        played.succeed(first)
        running += take(played, 24)
        # This round finds no room, so all that waits is too large.
        running += take(played, 24)
        held += by_queue(running)
    whole = sum(1 / factor for factor in factors)
    wanted = {name: 1 / factor / whole for name, factor in zip(queues, factors, strict=True)}
    shares = {name: held[name] / held.total() for name in queues}
    assert shares == pytest.approx(wanted, abs=0.02)


def reserved() -> dict[UUID, list[str]]:
    return dict(Reservation.objects.values_list("session_id", "nodes"))


def test_a_starved_session_keeps_the_node_that_it_was_given(
    at: Project, played: Agent, settings: Any
) -> None:
    """Also if another one has more room later."""
    settings.REPRISE = {**settings.REPRISE, "starved_after": 0.0}
    played.nodes = [{"name": n, "allocatable": {"cpu": "4"}} for n in "ab"]
    owner = user(superuser=True)
    queue(at, "small")
    running = waiting(at, 8, "small", owner=owner, resources={"cpu": "1"})
    take(played, 9)
    on = {UUID(each["session_id"]): each["nodes"] for each in played.answer["leases"]}
    played.start(*running)
    (large,) = waiting(at, 1, owner=owner, resources={"cpu": "4"})
    waiting(at, 1, owner=owner, resources={"cpu": "3"})
    waiting(at, 9, "small", owner=owner, resources={"cpu": "1"})
    of_a, of_b = ([each for each in running if on[each] == [name]] for name in "ab")
    played.succeed(of_a.pop())
    assert take(played, 9) == []
    assert reserved() == {large: ["a"]}
    # Two places on the other node are more than one on this one, and small ones take them.
    played.succeed(of_b.pop(), of_b.pop())
    assert len(take(played, 9)) == 2
    assert {tuple(each["nodes"]) for each in played.answer["leases"]} == {("b",)}
    assert reserved() == {large: ["a"]}
    played.succeed(*of_a)
    assert large in take(played, 9)
    assert reserved() == {}


def test_a_session_held_by_a_limit_keeps_no_node_free(
    at: Project, played: Agent, settings: Any
) -> None:
    settings.REPRISE = {**settings.REPRISE, "starved_after": 0.0}
    played.nodes = [{"name": "a", "allocatable": {"cpu": "4"}}]
    queue(at, "limited", resource_limits={"cpu": "1"})
    (first,) = waiting(at, 1, resources={"cpu": "2"})
    assert take(played, 1) == [first]
    waiting(at, 1, "limited", resources={"cpu": "4"})
    (second,) = waiting(at, 1, resources={"cpu": "2"})
    assert take(played, 9) == [second]


def test_a_queue_can_be_deleted_with_its_usage(at: Project, played: Agent) -> None:
    made = queue(at, "gone")
    QueueUsage.objects.create(queue=made, cost=0, current_priority=1, computed_at=made.created_at)
    made.delete()
    assert not Queue.objects.filter(name="gone").exists()


def test_room_that_others_hold_is_left_to_them(at: Project, played: Agent) -> None:
    played.nodes = [{"name": "n", "allocatable": {"cpu": "8"}, "free": {"cpu": "3"}}]
    waiting(at, 8, resources={"cpu": "1"})
    first = take(played, 9)
    assert len(first) == 3
    # The runs explain three of the eight now, and the five are still somebody else's.
    played.nodes[0]["free"] = {"cpu": "0"}
    assert take(played, 9) == []
    # A run that has ended while the executor was asking is not taken for a stranger's.
    played.start(first[0])
    ended = {first[0]: played.tokens[first[0]]}
    played.succeed(first[0])
    played.tokens |= ended
    assert len(take(played, 9)) == 1
    del played.tokens[first[0]]
    played.nodes[0]["free"] = {"cpu": "4"}
    assert len(take(played, 9)) == 4
