"""Suspect nodes: whether bad nodes are found, healthy ones are left alone, and what that saves.

The real lease rounds serve one executor over REST in this process; its runs are played by the
simulated driver, without waiting. Each turn fills all free places, lets the runs end, dispatches
their retries, and runs the sweep of nodes. Two cases:

* bad: some nodes fail 80 % of what they run, all others 2 %, with one signature and with several.
  Then all others fail 20 %, and 40 %. `found` is the smallest part of the bad nodes that is ever
  suspect, `false_suspects` the number of healthy ones that are, in the worst case. `waste_ratio` is
  what is failed beyond the 2 %, with `avoid_suspects: all` by with the feature off, in the worst
  case.
* burst: no node is bad, but a tenth of the job sets is broken, and runs on two nodes each.
  `burst_suspects` is the number of nodes that are suspect at the end.

    python -m benchmarks.bad_nodes [--quick]
"""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reprise.settings")

from benchmarks.database import benchmark_database
from benchmarks.played_cluster import PlayedExecutor, quiet
from executor.drivers.simulated.driver import SimulatedDriver
from executor.drivers.simulated.script import Script

BAD, USUAL = 0.8, 0.02
MUCH = (0.2, 0.4)
"""How often other nodes fail where much fails."""
OF_A_JOB_SET = 50
"""Chains of a job set in the burst."""
SEED = 11
AT_ONCE = 500


@dataclass(frozen=True)
class Size:
    """The size of a case: nodes, how many of them are bad, chains, and runs at once on a node."""

    nodes: int
    bad: int
    chains: int
    on_a_node: int = 2


WHOLE, SMALL = Size(200, 5, 10_000), Size(40, 1, 1_200)


@dataclass
class Counts:
    """The numbers of attempts and failures, and the nodes that were ever suspect."""

    attempts: int
    failures: int
    suspects: set[str]

    @property
    def wasted(self) -> float:
        """Return the failed attempts beyond those that healthy nodes have, too."""
        return self.failures - USUAL * self.attempts


def main() -> None:
    """Print the table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one signature, and fewer chains")
    quick = parser.parse_args().quick
    with benchmark_database("reprise_bench_bad_nodes"), quiet():
        figures = measured(SMALL if quick else WHOLE, signatures=(1,) if quick else (1, 5))
    print(json.dumps(figures))


def measured(size: Size, *, signatures: Sequence[int]) -> dict[str, float]:
    """Return the figures of both cases."""
    bad = {f"sim-{node}" for node in Random(SEED).sample(range(size.nodes), size.bad)}
    found, false, waste = 1.0, 0, 0.0
    for count in signatures:
        kinds = {"exit_codes": list(range(1, count + 1)), "bad_nodes": dict.fromkeys(bad, BAD)}
        off, on = (_bad(f"{avoid}-{count}", size, kinds, avoid, USUAL) for avoid in ("off", "all"))
        print(f"{count} signatures: {off.wasted:.0f} wasted, {on.wasted:.0f} with the feature")
        found = min(found, len(bad & on.suspects) / len(bad))
        false = max(false, len(on.suspects - bad))
        waste = max(waste, on.wasted / max(off.wasted, 1.0))
    for usual in MUCH:
        kinds = {"bad_nodes": dict.fromkeys(bad, BAD)}
        on = _bad(f"all-{usual:g}", size, kinds, "all", usual)
        found = min(found, len(bad & on.suspects) / len(bad))
        false = max(false, len(on.suspects - bad))
        print(
            f"{usual:.0%} usual: {len(bad & on.suspects)} of {len(bad)} found,"
            f" {len(on.suspects - bad)} false suspects"
        )
    burst = _burst(size)
    print(f"burst: {len(burst.suspects)} suspects, {burst.failures} of {burst.attempts} failed")
    return {
        "found": found,
        "false_suspects": false,
        "waste_ratio": round(waste, 3),
        "burst_suspects": len(burst.suspects),
    }


def _bad(name: str, size: Size, kinds: Mapping[str, Any], avoid: str, usual: float) -> Counts:
    world = World(name.replace(".", "-"), size, avoid, Script(**kinds, failure_rate=usual))
    policy = {"max_retries": 20, "retry_delay": 0.001, "jitter": "none"}
    sessions = [
        {"job_set": f"set-{chain % 20}", "retry_policy": policy} for chain in range(size.chains)
    ]
    return world.play(sessions)


def _burst(size: Size) -> Counts:
    world = World("burst", size, "all", Script(failure_rate=USUAL))
    sessions: list[dict[str, Any]] = []
    for chain in range(size.chains):
        job_set = chain // OF_A_JOB_SET
        one = {"job_set": f"set-{job_set}", "retry_policy": {"max_retries": 0}}
        if job_set % 10 == 0:
            pair = {"nodeSelector": {"pair": str(job_set // 10 % (size.nodes // 2))}}
            one |= {"pod_spec": pair, "environ": {"REPRISE_SIMULATE": '{"exit_codes": [1]}'}}
        sessions.append(one)
    Random(SEED).shuffle(sessions)
    return world.play(sessions)


class _InPairs(PlayedExecutor):
    """An executor whose nodes stand in pairs, by a label."""

    def node(self, node: dict[str, Any]) -> dict[str, Any]:
        """Return the node with its label."""
        return {**node, "labels": {"pair": str(int(node["name"].partition("-")[2]) // 2)}}


class World:
    """The real scheduler with one executor, whose runs the simulated driver plays at once."""

    def __init__(self, name: str, size: Size, avoid: str, script: Script):
        from scheduler.models import Executor
        from tests import factories
        from tests.agent import Api

        Executor.objects.update(last_seen_at=None, avoid_suspects="off")
        self._project = factories.project(name)
        self._api = Api(factories.token(factories.user(superuser=True)))
        made = factories.executor(name, projects=(self._project,))
        Executor.objects.filter(pk=made.pk).update(avoid_suspects=avoid)
        driver = SimulatedDriver(script, seed=SEED, nodes=size.nodes, speed=0)
        self._played = _InPairs(made, driver, max_sessions=size.nodes * size.on_a_node)
        self._counts = Counts(0, 0, set())
        self._cpus = 16 // size.on_a_node

    def play(self, sessions: Sequence[Mapping[str, Any]]) -> Counts:
        """Submit sessions and run them with their retries until all chains have ended."""
        for first in range(0, len(sessions), AT_ONCE):
            self._submit(sessions[first : first + AT_ONCE])
        while self._turn():
            pass
        return self._counts

    def _submit(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        usual = {
            "project": self._project.address,
            "command": ["true"],
            "resources": {"cpu": str(self._cpus)},
        }
        named = [
            {**usual, **each, "creation_id": str(UUID(bytes=os.urandom(16)))} for each in sessions
        ]
        answer = self._api.post("sessions/bulk/", {"sessions": named})
        if answer.status_code != 200:
            raise SystemExit(answer.content)

    def _turn(self) -> bool:
        """Fill all free places and let the runs end. Return whether there was something to do."""
        from scheduler.models import Node
        from scheduler.services.nodes.sweep import nodes_sweep
        from sessions_app.services.chains.dispatch import next_due, retries_dispatch

        leased = self._played.lease()
        for lease in leased:
            self._played.start(lease)
        self._report()
        nodes_sweep()
        while (left := next_due()) is not None and left <= 0:
            retries_dispatch()
        out = Node.objects.filter(
            executor=self._played.agent.executor, suspected_until__isnull=False
        )
        self._counts.suspects |= set(out.values_list("name", flat=True))
        return bool(leased) or left is not None

    def _report(self) -> None:
        """Report until every run has ended."""
        while self._played.agent.tokens:
            drafts = []
            for seen in self._played.driver.poll(0):
                session = UUID(seen.key.session_id)
                if seen.termination is None:
                    continue
                self._counts.attempts += 1
                self._counts.failures += seen.status == "ERROR"
                facts: Any = dict(seen.termination)
                more = {"termination": facts, "node": seen.node}
                drafts.append(self._played.agent.reporting(session, seen.status, **more))
            self._played.send(drafts)


if __name__ == "__main__":
    main()
