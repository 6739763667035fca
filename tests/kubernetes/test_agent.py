"""Agents come and go, and fail, while pods go on."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.executor_fake import FakeServer
from tests.kubernetes.agent import NAMESPACE, PodAgent, purge, submit
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.manifests import CREATE_NAMESPACES_RBAC
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

SOON = ["--answer-seconds", "3"]
"""A lost call can take effect for 6 s."""
LONG = "trap 'exit 9' TERM; echo up; sleep 4 & wait; echo down"


def test_pods_outlive_an_agent_that_is_stopped(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, LONG)
    server.wait_for(lambda: b"up" in session.log)
    assert agent.stop() == 0
    (pod,) = agent.pods_of(session)
    agent.start()
    server.wait_settled(session)

    assert session.final["status"] == "TERMINATED"
    assert session.termination["pod"]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert session.log == b"up\ndown\n"


@pytest.mark.parametrize("state_is_lost", [False, True])
def test_pods_outlive_an_agent_that_is_killed(
    server: FakeServer, agent: PodAgent, state_is_lost: bool
) -> None:
    session = submit(server, LONG)
    server.wait_for(lambda: b"up" in session.log)
    agent.kill()
    if state_is_lost:
        shutil.rmtree(agent.state)
    agent.start()
    server.wait_settled(session)

    assert session.settled == "reported"
    assert session.final["status"] == "TERMINATED"
    assert session.log == b"up\ndown\n"
    until(lambda: not agent.pods_of(session))


def _forget_answers(state: Path) -> None:
    journal = state / "reports" / "journal"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [entry[0] for entry in entries if entry[0] == "answered"], entries
    kept = [entry for entry in entries if entry[0] != "answered"]
    journal.write_text("".join(json.dumps(entry) + "\n" for entry in kept))


def _forget_place(state: Path) -> None:
    (record,) = (state / "runs").glob("*/run.json")
    record.write_text(json.dumps({**json.loads(record.read_text()), "process": None}))


def _forget_runs(state: Path) -> None:
    shutil.rmtree(state / "runs")


@pytest.mark.parametrize("lose", [_forget_answers, _forget_place, _forget_runs])
def test_pods_outlive_a_loss_of_power(
    server: FakeServer, agent: PodAgent, lose: Callable[[Path], None], tmp_path: Path
) -> None:
    """What the agent had not synced is gone: its first call names the run all the same."""
    go = tmp_path / "go"
    session = submit(server, f"echo up; while ! [ -e {go} ]; do sleep 0.1; done; echo down")
    server.wait_for(lambda: b"up" in session.log)
    server.wait_for(lambda: _last_lease(server)["runs"] != [])
    agent.kill()
    lose(agent.state)
    (agent.state / "boot").write_text("another")
    calls = len(server.calls)
    agent.start()
    server.wait_for(lambda: any(verb == "lease" for verb, _ in server.calls[calls:]))
    named = [len(body["runs"]) for verb, body in server.calls[calls:] if verb == "lease"]
    assert named[0] == 1
    go.touch()
    server.wait_settled(session)
    assert session.statuses[-1] == "TERMINATED"
    assert session.log.endswith(b"down\n")
    assert session.leases == 1
    until(lambda: not agent.pods_of(session))


def test_an_end_is_not_lost_with_the_state(server: FakeServer, agent: PodAgent) -> None:
    """The pod ends while there is no agent, and whoever comes next has no files."""
    session = submit(server, "sleep 1; exit 4")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    agent.kill()
    shutil.rmtree(agent.state)
    until(lambda: agent.pod_of(session)["status"]["phase"] == "Failed")
    agent.start()
    server.wait_settled(session)
    (container,) = session.termination["pod"]["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 4


@pytest.mark.parametrize("name", ["executor.before_pod_create", "executor.after_pod_create"])
def test_killed_around_a_creation(
    server: FakeServer, pods: PodAgent, tmp_path: Path, name: str
) -> None:
    once = {"REPRISE_FAILPOINT": name, "REPRISE_FAILPOINT_ONCE": str(tmp_path / "once")}
    pods.options += SOON
    pods.start(**once)
    session = submit(server, "sleep 1")
    pods.wait()
    pods.start(**once)
    server.wait_for(lambda: session.settled is not None or session.returned is not None)
    server.give_again()
    server.wait_settled(session)

    assert session.final["status"] == "TERMINATED"
    assert session.leases == (1 if name == "executor.after_pod_create" else 2)


@pytest.mark.parametrize("name", ["executor.before_answer_write", "executor.after_answer_write"])
def test_killed_before_an_accepted_session_was_begun(
    server: FakeServer, pods: PodAgent, tmp_path: Path, name: str
) -> None:
    """The server has the acceptance; whether the next agent knows of it or not, it says so."""
    once = {"REPRISE_FAILPOINT": name, "REPRISE_FAILPOINT_ONCE": str(tmp_path / "once")}
    pods.start(**once)
    sessions = [submit(server, "true") for _ in range(6)]
    pods.wait()
    accepted = [each for each in sessions if each.accepted]
    assert accepted
    pods.start(**once)
    server.wait_for(lambda: all(each.settled or each.returned for each in sessions))
    assert {each.returned for each in accepted} == {
        "the agent was killed before it started the session"
    }
    server.give_again()
    server.wait_settled(*sessions)
    assert {each.final["status"] for each in sessions} == {"TERMINATED"}


@pytest.mark.parametrize("ends_by", [PodAgent.kill, PodAgent.stop])
@pytest.mark.parametrize("state_is_lost", [False, True])
def test_an_agent_that_ends_while_its_cluster_is_away(
    server: FakeServer,
    agent: PodAgent,
    api: ApiServer,
    ends_by: Callable[[PodAgent], object],
    state_is_lost: bool,
) -> None:
    """A pod that was never created has not vanished. A rollout takes the state directory along."""
    if state_is_lost and ends_by is PodAgent.kill:
        pytest.skip("nobody is left who knows of these sessions")
    server.wait_settled(submit(server, "true"))
    until(lambda: not api.pods(NAMESPACE))
    api.stop_server()
    try:
        sessions = [submit(server, "true") for _ in range(6)]
        server.wait_for(lambda: all(each.accepted for each in sessions))
        ends_by(agent)
        if state_is_lost:
            shutil.rmtree(agent.state)
        agent.start(*SOON)
    finally:
        api.start()
    server.wait_for(lambda: all(each.settled or each.returned for each in sessions))
    assert [each.settled and each.final for each in sessions] == [None] * len(sessions)
    assert not agent.api.pods(NAMESPACE)
    server.give_again()
    server.wait_settled(*sessions)
    assert {each.final["status"] for each in sessions} == {"TERMINATED"}


@pytest.mark.parametrize("runs", [False, True])
def test_killed_between_two_ranks(
    server: FakeServer, pods: PodAgent, kubelet: Kubelet, tmp_path: Path, runs: bool
) -> None:
    """It goes back unless the first one has run, once no pod of it is left."""
    if not runs:
        kubelet.mine = lambda _pod: False
    once = {
        "REPRISE_FAILPOINT": "executor.after_pod_create",
        "REPRISE_FAILPOINT_ONCE": str(tmp_path / "once"),
    }
    pods.options += SOON
    pods.start(**once)
    session = submit(server, "sleep 30", cluster_size=2)
    pods.wait()
    until(lambda: pods.pod_of(session)["status"]["phase"] == ("Running" if runs else "Pending"))
    pods.start(**once)
    server.wait_for(lambda: session.settled is not None or session.returned is not None)
    if runs:
        assert session.termination["reason"] == "PodCreateFailed"
        assert "before its pods were created" in session.final["message"]
        return
    assert "before its pods were created" in str(session.returned)
    assert not pods.pods_of(session)


def test_a_pod_that_existed_and_is_gone_has_vanished(
    server: FakeServer, agent: PodAgent, api: ApiServer
) -> None:
    """Somebody has removed the finalizer while there was no agent."""
    session = submit(server, "sleep 600")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    agent.kill()
    purge(api)
    agent.start(*SOON)
    server.wait_settled(session)
    assert session.termination["reason"] == "PodVanished"


def test_killed_after_an_end_was_written_down(server: FakeServer, agent: PodAgent) -> None:
    """The next agent finds the pod, and sees its end once more while nothing can be reported."""
    session = submit(server, "sleep 2; echo done; exit 3")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    server.refusal = lambda verb, _body: 503 if verb == "reports" else None
    until(lambda: '"ERROR"' in (agent.state / "reports" / "journal").read_text())
    agent.kill()
    logged = agent.log.stat().st_size
    agent.start("--relist-seconds", "1")
    until(lambda: "sending reports" in agent.log.read_text()[logged:])
    time.sleep(3.0)
    assert agent.process.poll() is None
    server.refusal = lambda _verb, _body: None
    server.wait_settled(session)
    assert session.final["status"] == "ERROR"
    assert session.log == b"done\n"
    until(lambda: not agent.pods_of(session))
    assert "Traceback" not in agent.log.read_text()


def test_many_pods_need_few_descriptors(server: FakeServer, pods: PodAgent, tmp_path: Path) -> None:
    """Of 160 that the agent may have it would need more than one for each pod."""
    pods.wrapper = ["prlimit", "--nofile=120:160"]
    pods.start("--max-sessions", "90")
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 1; done; echo done"
    sessions = [submit(server, script) for _ in range(90)]
    server.wait_for(lambda: all("RUNNING" in each.statuses for each in sessions), 120)
    go.touch()
    server.wait_for(lambda: all(each.settled for each in sessions), 120)
    assert {each.final["status"] for each in sessions} == {"TERMINATED"}
    assert {each.log for each in sessions} == {b"done\n"}
    assert "Too many open files" not in pods.log.read_text()


def test_pods_that_the_server_let_go_of_are_deleted(server: FakeServer, agent: PodAgent) -> None:
    session = submit(server, "sleep 600")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    agent.kill()
    shutil.rmtree(agent.state)
    server.stop_session(session, "unknown", 0)
    agent.start()
    until(lambda: not agent.pods_of(session))


def test_a_lease_that_expired_fences_its_pods(server: FakeServer, agent: PodAgent) -> None:
    server.lease_ttl, server.lease_grace = 3.0, 4.0
    session = submit(server, "sleep 600")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    server.refusal = lambda verb, _body: 503 if verb == "lease" else None
    server.wait_settled(session)
    assert session.termination["lease_expired"] is True
    until(lambda: not agent.pods_of(session))


def test_an_agent_that_was_restarted_without_a_server_fences_its_pods(
    server: FakeServer, agent: PodAgent
) -> None:
    """Nobody has renewed the leases of what it found."""
    server.lease_ttl, server.lease_grace = 6.0, 24.0
    session = submit(server, "sleep 1000")
    server.wait_for(lambda: session.statuses[-1:] == ["RUNNING"])
    server.wait_for(lambda: _last_lease(server)["runs"] != [])
    agent.kill()
    server.stop()
    agent.start()
    until(lambda: "deletionTimestamp" in agent.pod_of(session)["metadata"])
    server.start()
    server.wait_settled(session)
    assert session.termination["lease_expired"] is True


def test_without_rights_nothing_is_taken(
    server: FakeServer, agent: PodAgent, api: ApiServer
) -> None:
    first = submit(server, "true")
    server.wait_settled(first)
    api.revoke_executor()
    session = submit(server, "true")
    server.wait_for(lambda: _last_lease(server)["trouble"] != "" or session.returned is not None)
    until(lambda: "cannot" in _last_lease(server)["trouble"])
    assert _last_lease(server)["limits"]["max_sessions"] == 0
    assert session.settled is None

    api.grant_executor()
    until(lambda: _last_lease(server)["trouble"] == "")
    second = submit(server, "true")
    server.wait_settled(second)
    assert second.final["status"] == "TERMINATED"


def test_a_missing_namespace_is_its_projects_trouble(
    server: FakeServer, agent: PodAgent, api: ApiServer
) -> None:
    project = {"REPRISE_PROJECT": "default/elsewhere"}
    session = submit(server, "true", environ=project)
    server.wait_for(lambda: session.returned is not None)
    for word in ("does not exist", "kubectl apply -k", "deploy/kubernetes/example/project"):
        assert word in str(session.returned)
    assert "`namespace: reprise-default--elsewhere`" in str(session.returned)
    trouble = {"default/elsewhere": session.returned}
    until(lambda: _last_lease(server)["project_troubles"] == trouble)
    probed = api.audit.stat().st_size
    until(lambda: "reprise-default--elsewhere/pods?dryRun" in api.audit.read_text()[probed:])
    calls = len(server.calls)
    server.wait_for(lambda: len(server.calls) > calls + 1)
    assert _last_lease(server)["project_troubles"] == trouble
    others, waiting = submit(server, "true"), submit(server, "true", environ=project)
    server.wait_settled(others)
    assert (_last_lease(server)["trouble"], waiting.leases) == ("", 0)

    api.namespace("reprise-default--elsewhere")
    server.wait_settled(waiting)
    until(lambda: _last_lease(server)["project_troubles"] == {})
    assert waiting.final["status"] == "TERMINATED"
    assert not agent.pods_of(session)


def test_trouble_goes_with_the_last_session_that_has_it(
    server: FakeServer, agent: PodAgent
) -> None:
    """The server says so. Nothing else would end it: the namespace never comes."""
    session = submit(server, "true", environ={"REPRISE_PROJECT": "default/never"})
    server.wait_for(lambda: session.returned is not None)
    until(lambda: "default/never" in _last_lease(server)["project_troubles"])
    server.forget_troubles = ["default/never", "default/other"]
    until(lambda: _last_lease(server)["project_troubles"] == {})
    assert _last_lease(server)["trouble"] == ""


def test_namespaces_can_be_made(server: FakeServer, pods: PodAgent, api: ApiServer) -> None:
    api.grant_executor(CREATE_NAMESPACES_RBAC)
    try:
        pods.start("--create-namespaces")
        session = submit(server, "true", environ={"REPRISE_PROJECT": "default/made"})
        server.wait_settled(session)
    finally:
        api.revoke_executor(CREATE_NAMESPACES_RBAC)
    assert session.final["status"] == "TERMINATED"


def test_a_rotated_token_is_read_again(
    server: FakeServer, pods: PodAgent, api: ApiServer, executor_token: str
) -> None:
    pods.kubeconfig = api.kubeconfig("rotated", "expired")
    pods.start()
    until(lambda: "(401)" in pods.log.read_text())
    (api.directory / "rotated.token").write_text(executor_token)
    session = submit(server, "true")
    server.wait_settled(session)
    assert session.final["status"] == "TERMINATED"


def test_a_pod_that_vanished(server: FakeServer, agent: PodAgent, api: ApiServer) -> None:
    """Somebody takes the finalizer off and deletes the pod with force while nobody looks."""
    session = submit(server, "sleep 600")
    server.wait_for(lambda: "RUNNING" in session.statuses)
    agent.kill()
    (pod,) = agent.pods_of(session)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    api.call(
        "PATCH",
        path,
        {"metadata": {"finalizers": None}},
        kind="application/merge-patch+json",
    )
    api.call("DELETE", path, {"gracePeriodSeconds": 0})
    agent.start()
    server.wait_settled(session)
    assert session.termination["reason"] == "PodVanished"


def _last_lease(server: FakeServer) -> dict[str, Any]:
    empty: dict[str, Any] = {"trouble": "", "limits": {}}
    return next((body for verb, body in reversed(server.calls) if verb == "lease"), empty)


def test_the_api_server_is_not_needed_to_stop(
    server: FakeServer, pods: PodAgent, api: ApiServer
) -> None:
    pods.kubeconfig = api.kubeconfig("nowhere", "token", server="https://127.0.0.1:9")
    pods.start()
    # Before the second one a signal ends the process as it is.
    signs = ("cannot watch the pods", "state in")
    until(lambda: all(sign in pods.log.read_text() for sign in signs))
    assert pods.stop() == 0
    assert server.calls == []
