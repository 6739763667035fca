"""Tests of faults between an executor and its cluster: no session suffers from them."""

import base64
import json
import shutil
import time
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from executor.drivers.kubernetes.pod_names import SESSION, TOKEN
from tests.executor_fake import FakeServer
from tests.kubernetes.agent import NAMESPACE, PodAgent, path_of, submit
from tests.kubernetes.apiserver import EXECUTOR, ApiServer, make_certificate
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.proxy import Fault, Proxy, event, status
from tests.kubernetes.trial import Trial
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

OUR_PODS = "/api/v1/pods?labelSelector"
PODS = f"/namespaces/{NAMESPACE}/pods"
RARELY = ("--relist-seconds", "300")
PATIENT = ("--watch-seconds", "600")
IMPATIENT = ("--answer-seconds", "3", "--watch-seconds", "2")


@pytest.fixture(scope="module")
def proxy(api: ApiServer) -> Iterator[Proxy]:
    between = Proxy(api)
    between.start()
    yield between
    between.stop()


@pytest.fixture
def trial(
    server: FakeServer, pods: PodAgent, proxy: Proxy, kubelet: Kubelet, tmp_path: Path
) -> Iterator[Trial]:
    """Its agent is not started yet."""
    pods.kubeconfig = pods.api.kubeconfig("proxied", EXECUTOR, server=proxy.url)
    pods.options += ["--max-sessions", "30"]
    under_way = Trial(server, pods, proxy, tmp_path)
    kubelet.mine = under_way.saw
    yield under_way
    proxy.reset()


def test_watches_are_cut_and_lists_come_late(trial: Trial, proxy: Proxy) -> None:
    """Every three seconds all else is cut, too: between two of these cuts a list can come."""
    trial.pods.start()
    proxy.spoil(Fault("GET", OUR_PODS, late=1.5))
    sessions = trial.some()
    stopped = trial.cancelled()
    for turn in count():
        if all(each.settled for each in (*sessions, stopped)):
            break
        proxy.cut("WATCH" if turn % 10 else "")
        time.sleep(0.3)
    trial.judge()


def test_a_cut_in_silence_leaves_no_trouble(trial: Trial, proxy: Proxy) -> None:
    """Nothing changes after the cut, and so nothing is heard."""
    trial.pods.start()
    until(lambda: proxy.count("WATCH", OUR_PODS) > 0)
    proxy.cut()
    until(lambda: proxy.count("WATCH", OUR_PODS) > 1)
    time.sleep(6.0)  # after five seconds of silence there is trouble
    session = trial.submit("true", 0)
    trial.judge()
    assert (trial.trouble(), session.leases) == ("", 1)


def test_the_api_server_is_killed(trial: Trial, proxy: Proxy, api: ApiServer) -> None:
    """A new list shows what ended meanwhile: the present position of the watch is forgotten."""
    # A server may start slowly. Three watches without an answer would make the agent list anew.
    trial.pods.start(*RARELY, *PATIENT)
    ending = [trial.until_file("go", 3), trial.until_file("go", 0, cluster_size=2)]
    stopped = trial.submit("trap 'exit 5' TERM; sleep 600 & wait", "unknown")
    trial.running(*ending, stopped)
    proxy.spoil(Fault("WATCH", unheard=True))
    api.stop_server()
    trial.release("go")
    created = [trial.submit("true", 0), trial.submit("exit 6", 6)]
    trial.server.stop_session(stopped, "cancelled", 20)
    api.start()
    until(lambda: trial.phase(ending[0]) == "Failed")
    api.compact()
    proxy.mend()
    proxy.cut()
    trial.judge(starts_may_fail=created)
    assert proxy.expired


def test_positions_are_forgotten(trial: Trial, proxy: Proxy, api: ApiServer) -> None:
    trial.pods.start()
    trial.until_file("go", 0)
    trial.running(trial.until_file("go", 7))
    gone = json.loads(status(410, "Expired")[1])
    forgotten = proxy.spoil(
        Fault("WATCH", OUR_PODS, times=2, answer=(200, event("ERROR", gone), {}))
    )
    proxy.cut()
    until(lambda: len(forgotten.met) == 2)

    def compact(verb: str, path: str) -> None:
        if verb == "GET" and "continue=" in path and not proxy.expired:
            api.namespace(f"compacted-{time.monotonic_ns()}")
            api.compact()

    proxy.page, proxy.before = 1, compact
    until(lambda: proxy.expired > 0)
    trial.release("go")
    trial.judge()


def test_connections_are_half_open(trial: Trial, proxy: Proxy) -> None:
    trial.pods.start(*RARELY, *IMPATIENT)
    first = trial.until_file("go", 3)
    trial.running(first)
    proxy.freeze()
    trial.release("go")
    trial.server.wait_settled(first)
    # Made, with an answer that never comes; not made; made, and whatever answers is lost.
    held = proxy.spoil(Fault("POST", PODS, times=1, held=True))
    unheard = proxy.spoil(Fault("POST", PODS, times=1, unheard=True))
    lost = proxy.spoil(Fault("POST", PODS, times=5, lost=True))
    for _ in range(4):
        trial.submit("sleep 1", 0)
    trial.judge()
    assert held.met
    assert unheard.met
    assert lost.met


def test_a_cluster_that_has_no_time_three_times(trial: Trial, proxy: Proxy) -> None:
    trial.pods.start()
    refused = proxy.spoil(Fault("POST", PODS, answer=status(429, "TooManyRequests", "not now")))
    session = trial.submit("true", "agent_transient")
    trial.judge()
    assert len(refused.met) == 3
    assert "not now" in session.final["message"]
    assert session.returned is None


def test_a_short_outage_ends_no_session(trial: Trial, api: ApiServer) -> None:
    trial.pods.start()
    trial.running(trial.submit("sleep 2", 0))
    api.stop_server()
    fresh = [trial.submit(f"exit {number % 2}", number % 2) for number in range(12)]
    trial.server.wait_for(lambda: all("PREPARING" in each.statuses for each in fresh))
    until(lambda: trial.trouble() != "")
    late = trial.submit("true", 0)
    time.sleep(6.0)
    assert late.leases == 0
    assert [each.settled for each in fresh] == [None] * len(fresh)
    messages = {each.reports[-1]["message"] for each in fresh}
    assert any("could not be made yet" in each for each in messages)
    api.start()
    # One that knows no rights yet sends some of them back, which counts for nobody.
    trial.judge()
    until(lambda: trial.trouble() == "")


def test_a_silent_api_server_ends_no_session(trial: Trial, proxy: Proxy) -> None:
    """Also one for whose pod it was asked before; that one goes back once it is known that there
    is none, and comes again."""
    trial.pods.start(*IMPATIENT)
    trial.running(trial.submit("sleep 2", 0))
    hung = proxy.spoil(Fault(unheard=True))
    held = trial.submit("true", 0)
    until(lambda: len(hung.met) > 0 and "PREPARING" in held.statuses)
    time.sleep(11.0)
    assert (held.settled, held.returned) == (None, None)
    proxy.mend()
    trial.judge()
    assert held.final["status"] == "TERMINATED"


def test_a_session_cancelled_before_its_pod_ends(trial: Trial, proxy: Proxy) -> None:
    trial.pods.start(*IMPATIENT)
    proxy.spoil(Fault("POST", PODS, answer=status(500, "InternalError", "no leader")))
    session = trial.submit("true", "unknown")
    trial.server.wait_for(lambda: session.accepted)
    until(lambda: "no leader" in trial.trouble())
    trial.server.stop_session(session, "cancelled", 1)
    trial.server.wait_settled(session)
    assert session.termination["reason"] == ""
    assert session.final["message"] == "ended before it was started"
    proxy.mend()
    until(lambda: trial.trouble() == "")
    assert not trial.pods.pods_of(session)


def test_a_quota_of_one_namespace_stops_nobody_else(trial: Trial, api: ApiServer) -> None:
    project, name = "default/full", "reprise-default--full"
    api.namespace(name)
    quotas = f"/api/v1/namespaces/{name}/resourcequotas"
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
    api.ensure(quotas, body)
    counted = {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}
    # As the controller would, which is not here.
    kind = "application/merge-patch+json"
    api.call("PATCH", f"{quotas}/few/status", counted, kind=kind)
    trial.pods.start()
    full = trial.submit("true", 0, environ={"REPRISE_PROJECT": project})
    trial.server.wait_for(lambda: full.returned is not None)
    assert "exceeded quota" in (full.returned or "")
    until(lambda: "exceeded quota" in trial.project_troubles().get(project, ""))
    other = trial.submit("exit 3", 3)
    trial.server.wait_settled(other)
    assert trial.trouble() == ""
    api.call("DELETE", f"{quotas}/few")
    trial.judge()
    until(lambda: trial.project_troubles() == {})
    assert full.leases == 2


def test_storms(trial: Trial, proxy: Proxy) -> None:
    trial.pods.start()
    trial.running(*trial.some())
    proxy.spoil(Fault("POST", share=0.1, answer=status(500, "InternalError")))
    proxy.spoil(Fault("GET", share=0.3, times=12, answer=status(503, "ServiceUnavailable")))
    for verb in ("GET", "WATCH", "DELETE", "PATCH"):
        proxy.spoil(Fault(verb, share=0.3, times=12, answer=status(500, "InternalError")))
        patience = status(429, "TooManyRequests", retry_after=1)
        proxy.spoil(Fault(verb, share=0.1, times=4, answer=patience))
    late = [*trial.some(), trial.cancelled()]
    trial.judge(starts_may_fail=late)


def test_patience_is_had_by_all_calls(trial: Trial, proxy: Proxy) -> None:
    trial.pods.start()
    sessions = [trial.until_file("go", 0) for _ in range(8)]
    trial.running(*sessions)
    storm = proxy.spoil(Fault(answer=status(429, "TooManyRequests", retry_after=4)))
    proxy.cut()
    trial.release("go")
    # What was under way is refused; then nobody asks until the time is over.
    until(lambda: any(later - each > 3.5 for each, later in pairwise(storm.met)))
    quiet = next(n for n, (each, later) in enumerate(pairwise(storm.met)) if later - each > 3.5)
    assert storm.met[quiet] - storm.met[0] < 3.5
    assert quiet < 40
    proxy.mend()
    trial.judge()


def test_answers_are_garbled(trial: Trial, proxy: Proxy) -> None:
    # What may be made still is waited for twice as long as an answer.
    trial.pods.start("--answer-seconds", "3")
    sessions = trial.some()
    trial.running(*sessions[1:3])
    for answer in (b"", b"[]", b"{}", b"null", b'{"kind": "Pod", ', b"<html>busy</html>", b"\xff"):
        proxy.spoil(
            Fault(share=0.03, times=6, answer=(200, answer, {"Content-Type": "application/json"}))
        )
    for code in (400, 404, 409, 410, 422, 502):
        proxy.spoil(Fault(share=0.02, times=6, answer=(code, b"page not found", {})))
    proxy.spoil(Fault("GET", share=0.1, cut=True))
    proxy.spoil(Fault("POST", share=0.1, lost=True))
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for raw in (b"\x00\x01 what?\r\n\r\n", chunked + b"zz\r\n", chunked + b"2\r\n{}\r\n"):
        proxy.spoil(Fault(share=0.02, times=6, raw=raw))
    late = [*trial.some(), trial.cancelled()]
    trial.judge(starts_may_fail=[*sessions, *late])


def test_a_watch_talks_nonsense(trial: Trial, proxy: Proxy) -> None:
    """An object that cannot be, and is taken for one of ours, hurts nobody else."""
    trial.pods.start()
    session = trial.until_file("go", 3)
    trial.running(session)
    labels = {SESSION: session.id, TOKEN: str(session.token)}
    nonsense: list[Any] = [
        b"not JSON\n",
        b"[1]\n",
        event("MODIFIED", {"metadata": {"labels": labels}}) + b'{"type": "ADDED"}\n',
        event("DELETED", {"metadata": {"labels": labels}}),
        b'{"type": "MODIFIED", "object": {"spec": {}}}\n',
        event("ERROR", {"code": 500, "message": "etcd has no leader"}),
    ]
    statuses = [
        proxy.spoil(Fault("WATCH", OUR_PODS, times=1, answer=(200, line, {}))) for line in nonsense
    ]
    proxy.cut()
    until(lambda: all(each.met for each in statuses))
    assert session.settled is None
    trial.release("go")
    trial.server.wait_settled(session)
    until(lambda: not trial.pods.pods_of(session))


def test_a_token_expires_and_is_rotated(trial: Trial, proxy: Proxy, api: ApiServer) -> None:
    trial.pods.kubeconfig = api.kubeconfig("renewed", "first", server=proxy.url)
    proxy.tokens = {"first": EXECUTOR}
    trial.pods.start()
    ended = trial.until_file("go", 3)
    trial.running(ended)
    proxy.tokens = {"second": EXECUTOR}
    came_back = submit(trial.server, "true")
    trial.server.wait_for(lambda: came_back.returned is not None)
    proxy.cut()
    trial.release("go")
    asked = proxy.count("WATCH", OUR_PODS)
    until(lambda: proxy.count("WATCH", OUR_PODS) > asked + 1)
    assert trial.phase(ended) == "Failed"
    assert ended.settled is None
    (api.directory / "renewed.token").write_text("second")
    trial.judge()


@pytest.mark.parametrize("inline", [True, False])
def test_the_authority_of_the_cluster_is_rotated(
    trial: Trial, proxy: Proxy, api: ApiServer, tmp_path: Path, inline: bool
) -> None:
    """Its certificate is read from the kubeconfig, or from a file that the kubeconfig names."""
    authority, fresh = tmp_path / "ca.crt", make_certificate(tmp_path, "fresh")
    shutil.copy(api.certificate, authority)
    path = trial.pods.kubeconfig
    config = json.loads(path.read_text())
    (cluster,) = config["clusters"]
    if not inline:
        del cluster["cluster"]["certificate-authority-data"]
        cluster["cluster"]["certificate-authority"] = str(authority)
        path.write_text(json.dumps(config))
    trial.pods.start()
    ended = trial.until_file("go", 3)
    trial.running(ended)
    proxy.present(fresh)
    try:
        until(lambda: "CERTIFICATE_VERIFY_FAILED" in trial.trouble())
        trial.release("go")
        if inline:
            data = base64.b64encode(fresh.read_bytes()).decode()
            cluster["cluster"]["certificate-authority-data"] = data
            path.write_text(json.dumps(config))
        else:
            shutil.copy(fresh, authority)
        trial.server.wait_settled(ended)
        trial.submit("exit 4", 4)
        trial.judge()
    finally:
        proxy.present(api.certificate)


def test_rights_are_taken_away_and_given_back(trial: Trial, proxy: Proxy, api: ApiServer) -> None:
    trial.pods.start()
    ended, stopped = trial.until_file("go", 3), trial.submit("sleep 600", "unknown")
    trial.running(ended, stopped)
    api.revoke_executor()
    proxy.cut()
    trial.release("go")
    trial.server.stop_session(stopped, "cancelled", 1)
    until(lambda: "cannot" in trial.trouble())
    until(lambda: trial.phase(ended) == "Failed")
    assert (ended.settled, stopped.settled) == (None, None)
    api.grant_executor()
    trial.judge()


def test_the_agent_is_killed_at_each_step_of_an_end(trial: Trial, tmp_path: Path) -> None:
    """Each next one goes on where the pods are, and says of them what the first one would have."""
    sessions = [trial.until_file("go", 3), trial.until_file("go", 0)]
    names = ["executor.before_pod_end", "executor.before_pod_unhold", "executor.after_pod_unhold"]
    for name in names:
        trial.pods.start(REPRISE_FAILPOINT=name)
        trial.running(*sessions)
        trial.release("go")
        trial.pods.wait()
    trial.pods.start()
    trial.judge()


def test_a_namespace_goes(trial: Trial, api: ApiServer) -> None:
    """There is nobody here who deletes what is in it and at last the namespace, as a controller
    would; the test does."""
    project, name = "default/doomed", "reprise-default--doomed"
    api.namespace(name)
    trial.pods.start()
    running = trial.submit("sleep 600", "agent_transient", environ={"REPRISE_PROJECT": project})
    trial.running(running)
    api.call("DELETE", f"/api/v1/namespaces/{name}")
    refused = trial.submit("true", 0, environ={"REPRISE_PROJECT": project})
    trial.server.wait_for(lambda: refused.returned is not None)
    assert "being terminated" in (refused.returned or "")
    until(lambda: project in trial.project_troubles())
    other = trial.submit("true", 0)
    trial.server.wait_settled(other)
    (pod,) = trial.pods.pods_of(running)
    api.call("DELETE", path_of(pod), {"gracePeriodSeconds": 1})
    trial.server.wait_settled(running)
    until(lambda: not api.pods(name))
    finished = {"metadata": {"name": name}, "spec": {"finalizers": []}}
    api.call("PUT", f"/api/v1/namespaces/{name}/finalize", finished)
    api.namespace(name)
    trial.judge()
    until(lambda: (trial.trouble(), trial.project_troubles()) == ("", {}))
