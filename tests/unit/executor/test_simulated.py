"""The simulated driver: its time, its nodes, its dice, and what may happen to its reports."""

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reprise_client.wire import LeaseKey, Spec

from base.podspec.node_templates import NodeTemplate
from executor.drivers.protocol import UNSTARTED, Observation, Order
from executor.drivers.simulated.driver import SimulatedDriver
from executor.drivers.simulated.script import Script, ScriptError, Storm
from executor.runs import NOWHERE, RunFiles
from tests.executor_fake import FakeServer
from tests.unit.executor.conftest import AgentProcess

DAY = 86_400


def driver(
    script: Script | None = None, *, seed: int = 7, nodes: int = 10, speed: float = 0
) -> SimulatedDriver:
    return SimulatedDriver(script or Script(), seed=seed, nodes=nodes, speed=speed)


def order(
    number: int, *, attempt: int = 0, own: Any = None, avoid: str = "", **fields: Any
) -> Order:
    key = LeaseKey(f"session-{number}", number)
    spec: Any = {"name": "", "command": [], "environ": {}, **fields}
    if own is not None:
        spec["environ"]["REPRISE_SIMULATE"] = json.dumps(own)
    made: Spec = spec
    return Order(key, made, {"REPRISE_ATTEMPT": str(attempt)}, RunFiles(key, NOWHERE), avoid)


def outcome(seen: Observation) -> tuple[str, int | None, str]:
    assert seen.termination is not None
    return seen.status, seen.termination["exit_code"], seen.termination["reason"]


def ends(played: SimulatedDriver, count: int) -> list[Observation]:
    """The next `count` ends, in order."""
    found: list[Observation] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} have ended"
        found += [seen for seen in played.poll(0.1) if seen.termination is not None]
    return found


def test_each_attempt_takes_its_own_item_and_later_ones_the_last() -> None:
    played = driver()
    own = {"exit_codes": [1, 0, 9], "reasons": ["", "", "OOMKilled"], "seconds": 0}
    for attempt in range(5):
        played.start(order(attempt + 1, attempt=attempt, own=own))
    assert [outcome(seen) for seen in ends(played, 5)] == [
        ("ERROR", 1, ""),
        ("TERMINATED", 0, ""),
        ("ERROR", 9, "OOMKilled"),
        ("ERROR", 9, "OOMKilled"),
        ("ERROR", 9, "OOMKilled"),
    ]


def test_one_seed_is_one_course_of_things() -> None:
    script = Script(
        seconds={"mean": 5}, failure_rate=0.3, exit_codes=[1, 2], oom_rate=0.1, preemption_rate=0.1
    )

    def play(seed: int) -> list[tuple[str, tuple[str, int | None, str]]]:
        played = driver(script, seed=seed)
        for number in range(1, 200):
            played.start(order(number))
        return [(seen.key.session_id, outcome(seen)) for seen in ends(played, 199)]

    assert play(7) == play(7)
    assert play(7) != play(8)


def test_rates_are_shares_of_runs() -> None:
    script = Script(seconds=0.001, failure_rate=0.2, oom_rate=0.1, preemption_rate=0.05)
    played = driver(script)
    for number in range(1, 4001):
        played.start(order(number))
    found = [outcome(seen) for seen in ends(played, 4000)]
    shares = {what: found.count(what) / 4000 for what in set(found)}
    assert shares == {
        ("TERMINATED", 0, ""): pytest.approx(0.65, abs=0.03),
        ("ERROR", 1, ""): pytest.approx(0.2, abs=0.03),
        ("ERROR", 137, "OOMKilled"): pytest.approx(0.1, abs=0.02),
        ("ERROR", 143, "Preempted"): pytest.approx(0.05, abs=0.02),
    }


def test_a_storm_hits_what_begins_in_it() -> None:
    storm = Storm(at=60, seconds=30, rate=0.5, reason="Preempted", exit_code=143, run_seconds=1)
    played = driver(Script(seconds=0, storms=[storm]))
    # So that time goes on: one run ends at each of these seconds.
    found: dict[float, set[str]] = {}
    for number, moment in enumerate((59.0, 61.0, 95.0), 1):
        played.start(order(number, own={"seconds": moment - played._now()}))
        ends(played, 1)
        for each in range(100):
            played.start(order(1000 * number + each))
        found[moment] = {outcome(seen)[2] for seen in ends(played, 100)}
    assert found == {59.0: {""}, 61.0: {"", "Preempted"}, 95.0: {""}}


def test_at_speed_0_days_pass_at_once_and_in_order() -> None:
    played = driver()
    for number, days in ((1, 3), (2, 1), (3, 2)):
        played.start(order(number, own={"seconds": days * DAY, "start_seconds": 60}))
    seen = played.poll(0)
    statuses = [each.status for each in seen if each.key.session_id == "session-1"]
    assert statuses == ["PULLING", "RUNNING", "TERMINATED"]
    assert [e.key.session_id for e in seen if e.termination] == [
        "session-2",
        "session-3",
        "session-1",
    ]


def test_a_speed_makes_time_pass_faster() -> None:
    played = driver(speed=36_000)
    played.start(order(1, own={"seconds": 3600}))
    played.start(order(2, own={"seconds": None}))
    assert [seen.status for seen in played.poll(0)] == ["RUNNING", "RUNNING"]
    (end,) = played.poll(5)
    assert end.key.session_id == "session-1"


def test_a_lost_node_takes_all_its_runs() -> None:
    played = driver(Script(node_down_seconds=DAY), nodes=2, speed=3600)
    played.start(order(1, own={"seconds": 600, "reasons": ["NodeLost"]}))
    for number in (2, 3, 4):
        played.start(order(number, own={"seconds": None}))
    assert [seen.status for seen in played.poll(0)] == ["RUNNING"] * 4
    lost = ends(played, 2)
    assert {outcome(seen) for seen in lost} == {("ERROR", None, "NodeLost")}
    assert {seen.key.session_id for seen in lost} == {"session-1", "session-3"}
    assert {seen.node for seen in lost} == {"sim-0"}
    assert [node["name"] for node in played.nodes([])] == ["sim-1"]


def test_a_lost_node_comes_back_in_its_time() -> None:
    played = driver(Script(node_down_seconds=60), nodes=1)
    played.start(order(1, own={"seconds": 1, "reasons": ["NodeLost"]}))
    played.start(order(2, own={"seconds": 0, "exit_codes": 3}))
    assert [outcome(seen)[2] for seen in ends(played, 2)] == ["", "NodeLost"]
    played.poll(0)
    assert len(played.nodes([])) == 1


def test_sessions_use_their_nodes_and_wait_for_room() -> None:
    played = driver(Script(node={"cpu": "2", "memory": "4Gi"}), nodes=2, speed=3600)
    wanted = {"requests": {"cpu": "1500m"}, "limits": {"memory": "1Gi"}}
    for number in (1, 2, 3):
        played.start(order(number, own={"seconds": 3600}, resources=wanted))
    assert [(seen.key.session_id, seen.node) for seen in played.poll(0)] == [
        ("session-1", "sim-0"),
        ("session-2", "sim-1"),
    ]
    free = [node["free"] for node in played.nodes([])]
    assert free == [{"cpu": "500m", "memory": str(3 * 1024**3)}] * 2
    first, _, third = ends(played, 3)
    assert first.key.session_id == "session-1"
    assert third.key.session_id == "session-3"
    assert [node["free"]["cpu"] for node in played.nodes([])] == ["2", "2"]


def test_a_thousand_that_wait_for_one_node_take_turns() -> None:
    played = driver(Script(node={"cpu": "1"}), nodes=1)
    for number in range(1, 1001):
        seconds = 60 if number % 2 else 0
        played.start(order(number, own={"seconds": seconds}, resources={"cpu": "1"}))
    found = [seen.key.session_id for seen in ends(played, 1000)]
    assert found == [f"session-{number}" for number in range(1, 1001)]
    assert [node["free"] for node in played.nodes([])] == [{"cpu": "1"}]


def test_a_run_that_is_stopped_before_it_has_a_node_never_runs() -> None:
    played = driver(Script(node={"cpu": "1"}), nodes=1, speed=3600)
    for number in (1, 2):
        played.start(order(number, own={"seconds": 3600}, resources={"cpu": "1"}))
    played.stop(LeaseKey("session-2", 2), 1800)
    stopped, done = ends(played, 2)
    assert (stopped.key.session_id, outcome(stopped)) == ("session-2", ("ERROR", None, ""))
    assert stopped.stopped
    assert outcome(done) == ("TERMINATED", 0, "")


def test_a_session_of_many_pods_is_placed_whole_or_not_at_all() -> None:
    played = driver(Script(node={"cpu": "1"}), nodes=4, speed=3600)
    for number in (1, 2):
        asked: Any = {"cluster_size": 3, "resources": {"cpu": "1"}}
        played.start(order(number, own={"seconds": 3600}, **asked))
    assert [seen.key.session_id for seen in played.poll(0)] == ["session-1"]
    assert sum(node["free"]["cpu"] == "0" for node in played.nodes([])) == 3


def test_pods_run_on_the_nodes_that_were_planned() -> None:
    played = driver(Script(node={"cpu": "4"}), nodes=3, speed=3600)
    asked: Any = {"cluster_size": 3, "resources": {"cpu": "2"}}
    planned = order(1, own={"seconds": 3600}, **asked)
    played.start(replace(planned, nodes=("sim-2", "sim-2", "sim-1")))
    free = {node["name"]: node["free"]["cpu"] for node in played.nodes([])}
    assert free == {"sim-0": "4", "sim-1": "2", "sim-2": "0"}


def test_a_run_whose_node_stays_full_is_not_started() -> None:
    played = driver(Script(node={"cpu": "4"}), nodes=2, speed=0)
    four: Any = {"resources": {"cpu": "4"}}
    long, short = {"seconds": 60}, {"seconds": 10}
    played.start(replace(order(1, own=long, **four), nodes=("sim-0",)))
    played.start(replace(order(2, own=short, **four), nodes=("sim-1",)))
    played.start(replace(order(3, own=long, **four), nodes=("sim-0",)))
    played.start(replace(order(4, own=None, **four), nodes=("sim-1",)))
    played.start(replace(order(5, own=long, **four), nodes=("elsewhere",)))
    seen: list[Observation] = []
    while len([each for each in seen if each.status != "RUNNING"]) < 5:
        seen += played.poll(0.1)
    ended = [(each.key.fencing_token, each.status) for each in seen if each.status != "RUNNING"]
    assert ended[0] == (2, "TERMINATED")
    refused = {e.key.fencing_token: (e.node, e.message) for e in seen if e.status == UNSTARTED}
    assert refused == {
        3: ("sim-0", "Insufficient cpu"),
        5: ("elsewhere", "node elsewhere is not there"),
    }


def test_a_node_that_is_avoided_gets_none_of_the_pods() -> None:
    played = driver(Script(node={"cpu": "4"}), nodes=3)
    asked: Any = {"cluster_size": 6, "resources": {"cpu": "1"}, "avoid": "sim-1"}
    played.start(order(1, own={"seconds": None}, **asked))
    free = {node["name"]: node["free"]["cpu"] for node in played.nodes([])}
    assert (free["sim-1"], free["sim-0"], free["sim-2"]) in {("4", "0", "2"), ("4", "2", "0")}


@pytest.mark.parametrize(
    ("nodes", "pods", "avoid", "runs_on"),
    [
        (1, 1, "sim-0", {"sim-0"}),
        (2, 1, "sim-0", {"sim-1"}),
        (2, 1, "not-here", {"sim-0"}),
        # Two fit on one node, three do not.
        (2, 2, "sim-0", {"sim-1"}),
        (2, 3, "sim-0", {"sim-0", "sim-1"}),
    ],
)
def test_avoiding_gives_way_where_the_other_nodes_could_not_hold_it(
    nodes: int, pods: int, avoid: str, runs_on: set[str]
) -> None:
    played = driver(Script(node={"cpu": "2"}), nodes=nodes)
    asked: Any = {"cluster_size": pods, "resources": {"cpu": "1"}, "avoid": avoid}
    played.start(order(1, own={"seconds": None}, **asked))
    assert {node["name"] for node in played.nodes([]) if node["free"]["cpu"] != "2"} == runs_on


def test_nodes_that_are_left_out_get_none_of_the_pods() -> None:
    played = driver(Script(node={"cpu": "4"}), nodes=3)
    asked: Any = {"cluster_size": 4, "resources": {"cpu": "1"}}
    given = order(1, own={"seconds": None}, **asked)
    played.start(replace(given, avoid_nodes=("sim-0", "sim-2", "gone")))
    free = {node["name"]: node["free"]["cpu"] for node in played.nodes([])}
    assert free == {"sim-0": "4", "sim-1": "0", "sim-2": "4"}


def test_a_bad_node_fails_its_share_of_whatever_runs_there() -> None:
    played = driver(Script(bad_nodes={"sim-1": 0.8}, exit_codes=[7]), nodes=2, seed=3)
    failed: Counter[str] = Counter()
    for number in range(400):
        own = {"seconds": 1} if number % 4 < 2 else None
        given = order(number, own=own, resources={"cpu": "1"})
        played.start(replace(given, nodes=(f"sim-{number % 2}",)))
        (end,) = ends(played, 1)
        assert end.node == f"sim-{number % 2}"
        failed[end.node] += outcome(end)[:2] == ("ERROR", 7)
    assert failed["sim-0"] == 0
    assert 140 < failed["sim-1"] < 180


def test_a_session_that_avoids_the_free_node_lets_others_by() -> None:
    played = driver(Script(node={"cpu": "1"}), nodes=2, speed=3600)
    one_core: Any = {"resources": {"cpu": "1"}}
    played.start(order(1, own={"seconds": 3600}, **one_core))
    played.start(order(2, own={"seconds": 7200}, **one_core))
    played.start(order(3, own={"seconds": 0}, avoid="sim-0", **one_core))
    played.start(order(4, own={"seconds": 60}, **one_core))
    found = [(seen.key.session_id, seen.node) for seen in ends(played, 4)]
    assert found == [
        ("session-1", "sim-0"),
        ("session-4", "sim-0"),
        ("session-2", "sim-1"),
        ("session-3", "sim-1"),
    ]


def test_the_avoided_node_is_taken_when_the_others_go() -> None:
    played = driver(Script(node={"cpu": "1"}, node_down_seconds=DAY), nodes=2)
    one_core: Any = {"resources": {"cpu": "1"}}
    played.start(order(1, own={"seconds": 60}, **one_core))
    played.start(order(2, own={"seconds": 600, "reasons": ["NodeLost"]}, **one_core))
    played.start(order(3, own={"seconds": 0}, avoid="sim-0", **one_core))
    last = ends(played, 3)[-1]
    assert (last.key.session_id, last.node) == ("session-3", "sim-0")


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ({"cpu": "17"}, "no simulated node has so much cpu"),
        ({"nvidia.com/gpu": 1}, "no simulated node has so much nvidia.com/gpu"),
        ({"memory": "lots"}, "resources: memory: 'lots' is not a quantity"),
    ],
)
def test_sessions_that_fit_no_node_are_refused(resources: dict[str, object], text: str) -> None:
    refused: Any = order(1, resources=resources).spec
    assert text in (driver().refusal(refused) or "")
    fitting: Any = order(1, resources={"cpu": "16", "ephemeral-storage": "1Ti"}).spec
    assert driver().refusal(fitting) is None


def test_ten_thousand_nodes_and_as_many_runs() -> None:
    played = driver(nodes=10_000)
    asked = {"requests": {"cpu": "12"}}
    for number in range(1, 10_001):
        played.start(order(number, own={"seconds": 60}, resources=asked))
    assert len({node["name"] for node in played.nodes([])}) == 10_000
    assert len(ends(played, 10_000)) == 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must be a JSON object"),
        ('{"second": 1}', "no such key: second"),
        ('{"seconds": [1]}', "--script"),
        ("{", "--script"),
        ('{"bad_nodes": {"sim-0": 2}}', "bad_nodes: sim-0 must be between 0 and 1"),
        ('{"node": {"cpu": "lots"}}', "--script .* cpu: 'lots' is not a quantity"),
        ('{"storms": [{"at": 1}]}', "--script"),
        ('{"storms": [{"at": "1", "seconds": 1, "rate": 1, "reason": ""}]}', "--script"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "script").write_text(text)
    with pytest.raises(ScriptError, match=message):
        Script.load(tmp_path / "script")


def test_many_nodes_are_told_once_until_one_goes(
    server: FakeServer, idle_agent: AgentProcess
) -> None:
    def node_counts() -> list[int | None]:
        nodes = [body["nodes"] for verb, body in server.calls if verb == "lease"]
        return [None if each is None else len(each) for each in nodes]

    server.lease_ttl = 1.5  # so that calls are held for half a second only
    idle_agent.start("--driver", "simulated", "--nodes", "300")
    server.wait_for(lambda: node_counts()[:3] == [300, None, None])
    lost = server.submit("true")
    lost.spec["environ"] = {"REPRISE_SIMULATE": '{"reasons": "NodeLost", "seconds": 0.1}'}
    server.wait_settled(lost)
    server.wait_for(lambda: 299 in node_counts())


def test_every_run_is_told_once_however_badly_its_reports_travel(
    server: FakeServer, idle_agent: AgentProcess, tmp_path: Path
) -> None:
    rates = dict.fromkeys(
        [f"{what}_report_rate" for what in ("lost", "unanswered", "repeated", "reordered")]
        + ["replayed_report_rate"],
        0.3,
    )
    script = {"seconds": [0, 0.3], "failure_rate": 0.3, "exit_codes": [3], **rates}
    (tmp_path / "script").write_text(json.dumps({**script, "clock_offset": 300}))
    options = ("--driver", "simulated", "--seed", "5", "--script", str(tmp_path / "script"))
    log = tmp_path / "log"
    idle_agent.start(*options, "--max-sessions", "40", "--run-log", str(log))
    kinds = {"lost", "unanswered", "repeated", "reordered", "replayed"}
    sessions, entries = [], []
    for _ in range(20):
        wave = [server.submit("true") for _ in range(10)]
        server.wait_settled(*wave)
        sessions += wave
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        if kinds == {entry[1] for entry in entries if entry[0] == "trouble"}:
            break
    else:
        raise AssertionError("not every kind of trouble came")
    truth = {entry[1]: entry[3:5] for entry in entries if entry[0] == "ended"}
    for session in sessions:
        assert [session.final["status"], session.final["exit_code"]] == truth[session.id]
    assert min(r["at"] for s in sessions for r in s.reports) > time.time() + 200


GPU: NodeTemplate = {
    "name": "gpu",
    "resources": {"cpu": "64"},
    "labels": {"pool": "gpu"},
    "taints": [],
    "max": 2,
}


def waiting_for_gpus(number: int, cpu: str, **fields: Any) -> Order:
    made = order(number, resources={"cpu": cpu}, own={"seconds": 10}, **fields)
    return replace(made, node_labels={"pool": "gpu"})


def test_nodes_of_a_template_come_for_runs_that_wait() -> None:
    played = SimulatedDriver(Script(), seed=7, nodes=1, speed=0, templates=[GPU])
    refused = [played.refusal(order(0, resources={"cpu": cpu}).spec) for cpu in ("64", "65")]
    assert refused == [None, "no simulated node has so much cpu"]
    for number, cpu in enumerate(("64", "32", "32", "64"), 1):
        played.start(waiting_for_gpus(number, cpu))
    played.start(order(5, resources={"cpu": "16"}, own={"seconds": 1}))
    # No more than two at once; the others wait, and what fits elsewhere does not.
    assert [seen.node for seen in ends(played, 5)] == ["sim-0", "gpu-0", "gpu-1", "gpu-1", "gpu-0"]
    nodes = {node["name"]: node for node in played.nodes(())}
    assert sorted(nodes) == ["gpu-0", "gpu-1", "sim-0"]
    assert (nodes["gpu-1"]["labels"], nodes["gpu-1"]["allocatable"]) == (
        {"pool": "gpu"},
        {"cpu": "64"},
    )


def test_all_pods_of_a_run_get_nodes_of_the_template() -> None:
    played = SimulatedDriver(Script(), seed=7, nodes=4, speed=0, templates=[GPU])
    played.start(waiting_for_gpus(1, "1", cluster_size=2))
    (end,) = ends(played, 1)
    assert end.node == "gpu-0"
    assert len(played.nodes(())) == 5


def test_no_node_comes_for_a_run_that_is_stopped() -> None:
    played = SimulatedDriver(Script(), seed=7, nodes=1, speed=0, templates=[GPU])
    made = waiting_for_gpus(1, "64")
    played.start(made)
    played.stop(made.key, 0)
    (end,) = ends(played, 1)
    assert (end.node, end.stopped) == ("", True)
    assert [node["name"] for node in played.nodes(())] == ["sim-0"]
