"""The cluster, or an operator, ends pods: what that is called, and when they come back.

The test is kubelet and controller to the pods of these sessions.
"""

import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from reprise_client import Decision, Session

from tests.kubernetes.agent import path_of
from tests.kubernetes.clusters.land import Land, Site, disruption
from tests.kubernetes.kubelet import Kubelet
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("clusters"), pytest.mark.slow]

JOB_SET = "disrupted"
DELAY, GRACE = 1000, 3000
RUNNING: dict[str, Any] = {"running": {}}

Object = dict[str, Any]


class Case:
    """A session on a site of which the test plays the node."""

    def __init__(self, land: Land, site: Site):
        self.land = land
        self.site = site
        policy = {"max_retries": 0, "max_preemption_retries": 1, "retry_delay": DELAY}
        (self.root,) = land.submit(
            "true", policy=policy, job_set=JOB_SET, termination_grace_period=GRACE
        )
        (self.pod,) = until(lambda: site.pods(self.root), "its pod is there")
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
        binding = {"metadata": {"name": self.pod["metadata"]["name"]}, "target": target}
        site.api.call("POST", f"{path_of(self.pod)}/binding", binding)
        self.say("Running", RUNNING)
        land.wait_for_status([self.root], "RUNNING")

    def say(self, phase: str, state: Object | None = None, **status: Any) -> None:
        """Write a kubelet's status of the pod; without a `state` its container has ended with
        143."""
        state = state or {"terminated": {"exitCode": 143, "reason": "Error"}}
        main = {"name": "main", "image": "any", "imageID": "sha256:0", "state": state}
        statuses = [{**main, "ready": False, "restartCount": 0, "lastState": {}}]
        self.site.set_status(self.pod, phase=phase, containerStatuses=statuses, **status)

    def disrupt(self, reason: str) -> None:
        self.site.set_status(self.pod, conditions=[disruption(reason)])

    def delete(self, grace: int = GRACE) -> None:
        self.site.api.call("DELETE", path_of(self.pod), {"gracePeriodSeconds": grace})
        self.stopping()

    def evict(self) -> None:
        """By the subresource, as `kubectl drain` does."""
        name = self.pod["metadata"]["name"]
        for version in ("policy/v1", "policy/v1beta1"):
            body = {"apiVersion": version, "kind": "Eviction", "metadata": {"name": name}}
            try:
                self.site.api.call("POST", f"{path_of(self.pod)}/eviction", body)
            except urllib.error.HTTPError as error:
                if error.code == 400:
                    continue  # a version that this server does not know
                raise
            break
        self.stopping()

    def preempt(self) -> None:
        self.land.client.preempt(self.root, reason="make room")
        until(lambda: "deletionTimestamp" in self.site.pods(self.root)[0]["metadata"], "deleted")

    def stopping(self) -> None:
        self.land.wait_for_status([self.root], "TERMINATING")

    def confirm(self) -> None:
        """The deletion has come to its end."""
        with suppress(urllib.error.HTTPError):
            self.site.api.call("DELETE", path_of(self.pod), {"gracePeriodSeconds": 0})

    def ended(self) -> "Ended":
        self.land.wait_for_status([self.root], "ERROR", "TERMINATED")
        session = self.land.client.session(self.root)
        if session.status == "TERMINATED":
            return Ended(session, None)
        decision = self.land.client.decision(self.root)
        self.land.client.cancel(self.root)
        return Ended(session, decision)


class Ended(NamedTuple):
    session: Session
    decision: Decision | None

    @property
    def cause(self) -> str | None:
        return self.decision.cause if self.decision is not None else None

    @property
    def waits(self) -> tuple[timedelta, bool]:
        """From the first sight of the preemption to the retry; was the end confirmed?"""
        assert self.decision is not None
        assert self.decision.due_at is not None
        (grace,) = (each for each in self.decision.trace if each["step"] == "grace")
        assert grace["grace_period"] == GRACE
        preempted_at = datetime.fromisoformat(grace["preempted_at"])
        return self.decision.due_at - preempted_at, grace["confirmed"]


@contextmanager
def played(kubelet: Kubelet) -> Iterator[None]:
    kubelet.mine = lambda pod: pod["metadata"]["labels"].get("reprise.dev/job-set") != JOB_SET
    yield
    kubelet.mine = lambda _pod: True


@pytest.fixture
def case(land: Land, kubelet: Kubelet) -> Iterator[Case]:
    with played(kubelet), land.open("east"):
        case = Case(land, land.sites["east"])
        yield case
        case.confirm()


def test_a_preemption_that_ends_in_its_grace_period(case: Case) -> None:
    case.disrupt("PreemptionByScheduler")
    case.delete()
    case.say("Failed")
    ended = case.ended()
    assert (ended.cause, ended.session.exit_code) == ("preempted", 143)
    assert ended.waits == (timedelta(seconds=DELAY), True)


def test_a_preemption_of_which_nobody_saw_the_end(case: Case) -> None:
    """The pod says nothing before it has failed with a container that runs: its node is gone."""
    case.say("Failed", RUNNING, conditions=[disruption("PreemptionByScheduler")])
    ended = case.ended()
    assert ended.cause == "preempted"
    assert ended.waits == (timedelta(seconds=GRACE), False)


def test_an_eviction_by_the_api(case: Case) -> None:
    case.disrupt("EvictionByEvictionAPI")
    case.evict()
    case.say("Failed")
    assert case.ended().cause == "evicted"


def test_a_taint_on_a_node_that_answers_no_more(case: Case) -> None:
    """The deletion was not ours, and nobody confirms it: in the end nobody waits for it."""
    case.disrupt("DeletionByTaintManager")
    case.delete(grace=1)
    ended = case.ended()
    assert ended.cause == "evicted"
    (end,) = (each for each in case.land.client.events(case.root) if each.type == "session.error")
    assert end.data["unfenced"] is True


def test_a_node_that_shuts_down(case: Case) -> None:
    case.say(
        "Failed",
        reason="Terminated",
        message="Pod was terminated in response to imminent node shutdown.",
        conditions=[disruption("TerminationByKubelet")],
    )
    assert case.ended().cause == "evicted"


@pytest.mark.parametrize("reason", ["Evicted", "DeadlineExceeded"])
def test_an_operators_preemption_is_one_whatever_the_pod_says(case: Case, reason: str) -> None:
    case.preempt()
    case.say("Failed", reason=reason, message="exceeds what it may")
    ended = case.ended()
    assert ended.cause == "preempted"
    assert ended.session.status_message == "preempted by admin: make room"
    assert ended.waits == (timedelta(seconds=DELAY), True)


def test_a_pod_that_succeeds_on_its_way_out_has_succeeded(case: Case) -> None:
    case.preempt()
    case.say("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}})
    assert case.ended().session.status == "TERMINATED"
