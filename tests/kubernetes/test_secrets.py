"""Secret variables of sessions on a cluster: with their pod, and nowhere else."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executor.drivers.kubernetes.pod_names import SESSION, awaits_secret
from tests.executor_fake import FakeServer, FakeSession
from tests.kubernetes.agent import NAMESPACE, PodAgent, submit
from tests.kubernetes.apiserver import EXECUTOR, ApiServer
from tests.kubernetes.proxy import Fault, Proxy, status
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes"), pytest.mark.slow]

VALUE = "hunter2 and $(HOME)"
SECRETS = f"/namespaces/{NAMESPACE}/secrets"


@pytest.fixture
def proxy(api: ApiServer) -> Iterator[Proxy]:
    between = Proxy(api)
    between.start()
    yield between
    between.stop()


def secrets_of(api: ApiServer, session: FakeSession) -> list[Any]:
    listed = api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets")["items"]
    labelled = [(each, each["metadata"].get("labels") or {}) for each in listed]
    return [each for each, labels in labelled if labels.get(SESSION) == session.id]


def test_a_run_gets_them_from_a_secret_that_its_pod_owns(
    server: FakeServer, agent: PodAgent, api: ApiServer
) -> None:
    script = 'echo "$TOKEN"; sleep 1; exit $REPRISE_RANK'
    session = submit(server, script, secrets={"TOKEN": VALUE, "EMPTY": ""}, cluster_size=2)
    server.wait_for(lambda: "RUNNING" in session.statuses)
    first, second = sorted(agent.pods_of(session), key=lambda pod: pod["metadata"]["name"])
    (secret,) = secrets_of(api, session)
    (owner,) = secret["metadata"]["ownerReferences"]
    # With a controller of a real cluster it goes when that pod does.
    assert owner["uid"] == first["metadata"]["uid"]
    for pod in (first, second):
        assert "hunter2" not in str(pod)
        assert not awaits_secret(pod)
    server.wait_settled(session)
    assert VALUE in session.log.decode()
    # Only what it prints itself is sent, with the report of its failure, too.
    for _, body in server.calls:
        for report in body.get("reports", ()):
            report.pop("log_tail", None)
    assert "hunter2" not in str(server.calls)
    kept = [path.read_bytes() for path in agent.state.rglob("*") if path.is_file()]
    assert b"hunter2" not in b"".join(each for each in kept if VALUE.encode() not in session.log)
    assert "hunter2" not in agent.log.read_text()
    until(lambda: not agent.pods_of(session))


def die_at(pods: PodAgent, place: str, directory: Path) -> dict[str, str]:
    """An agent that dies there once; the environment for the next one."""
    once = {"REPRISE_FAILPOINT": place, "REPRISE_FAILPOINT_ONCE": str(directory / "once")}
    pods.start(**once)
    return once


@pytest.mark.parametrize("state_is_lost", [False, True])
def test_a_pod_whose_secret_died_with_an_agent_is_made_anew(
    server: FakeServer, pods: PodAgent, api: ApiServer, tmp_path: Path, state_is_lost: bool
) -> None:
    once = die_at(pods, "executor.before_secret_create", tmp_path)
    session = submit(server, 'echo "$TOKEN"', secrets={"TOKEN": VALUE})
    pods.wait()
    (orphan,) = pods.pods_of(session)
    assert awaits_secret(orphan)
    if state_is_lost:
        shutil.rmtree(pods.state)
    pods.start(**once)
    # It goes back, uncounted, and comes again with what the dead agent knew.
    server.wait_for(lambda: session.returned is not None)
    assert "before its pod had its secrets" in str(session.returned)
    give_again(server, session)
    server.wait_settled(session)
    assert session.final["status"] == "TERMINATED"
    assert session.log == f"{VALUE}\n".encode()
    # Without its state the agent may be given a second lease before it sees the pod of the first.
    assert 2 <= session.leases <= (3 if state_is_lost else 2)
    (secret,) = secrets_of(api, session)
    assert secret["metadata"]["ownerReferences"][0]["uid"] != orphan["metadata"]["uid"]
    until(lambda: not pods.pods_of(session))


def test_a_pod_that_has_its_secret_goes_on_without_its_agent(
    server: FakeServer, pods: PodAgent, tmp_path: Path
) -> None:
    once = die_at(pods, "executor.after_secret_create", tmp_path)
    session = submit(server, 'echo "$TOKEN"; sleep 1', secrets={"TOKEN": VALUE})
    pods.wait()
    until(lambda: pods.pod_of(session)["status"]["phase"] in {"Running", "Succeeded"})
    pods.start(**once)
    server.wait_settled(session)
    assert session.final["status"] == "TERMINATED"
    assert (session.log, session.leases) == (f"{VALUE}\n".encode(), 1)


def give_again(server: FakeServer, session: FakeSession) -> None:
    """Let a session that came back be leased once more."""
    with server.changed:
        session.returned = None
        server.changed.notify_all()


def test_a_cluster_that_does_not_take_them_at_once_is_asked_again(
    server: FakeServer, pods: PodAgent, proxy: Proxy
) -> None:
    pods.kubeconfig = pods.api.kubeconfig("proxied", EXECUTOR, server=proxy.url)
    refused = proxy.spoil(
        Fault("POST", SECRETS, times=2, answer=status(500, "InternalError", "no leader"))
    )
    unheard = proxy.spoil(Fault("POST", SECRETS, times=1, unheard=True))
    pods.start("--answer-seconds", "3")
    session = submit(server, 'echo "$TOKEN"', secrets={"TOKEN": VALUE})
    server.wait_settled(session)
    assert session.log == f"{VALUE}\n".encode()
    assert (len(refused.met), len(unheard.met)) == (2, 1)


def test_without_the_right_to_make_them_the_lease_goes_back(
    server: FakeServer, pods: PodAgent, proxy: Proxy
) -> None:
    pods.kubeconfig = pods.api.kubeconfig("proxied", EXECUTOR, server=proxy.url)
    message = f'secrets is forbidden: User "x" cannot create resource "secrets" in "{NAMESPACE}"'
    proxy.spoil(Fault("POST", SECRETS, answer=status(403, "Forbidden", message)))
    pods.start()
    session = submit(server, "true", secrets={"TOKEN": VALUE})
    server.wait_for(lambda: session.returned is not None)
    assert "cannot create resource" in str(session.returned)
    assert session.settled is None
    until(lambda: not pods.pods_of(session))
    proxy.reset()

    def settled() -> bool:
        # A call that was under way gets it, too, and the agent has not heard yet that it may.
        if session.returned is not None:
            session.returned = None
            server.changed.notify_all()
        return session.settled is not None

    server.wait_for(settled)
    assert session.final["status"] == "TERMINATED"
