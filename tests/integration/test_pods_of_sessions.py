"""What creation says of mounts and pod specifications, and what becomes of facts of pods."""

from datetime import timedelta
from typing import Any

import pytest

from podspec.specification import refused_paths
from sessions_app.models import Project, RetryDecision, Session, SessionEvent
from tests import factories
from tests.agent import Api, agent
from tests.unit.retry.recorded import condition, recorded

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(at: Project) -> Api:
    return Api(factories.token(factories.user("ann", project=at)))


def create(api: Api, **fields: Any) -> Any:
    return api.post("sessions/", {"project": "acme/work", "command": ["true"], **fields})


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("mounts", [{"path": "/a", "claim": "c"}, {"path": "/b"}], "must have exactly one of"),
        ("mounts", [{"path": "b", "secret": "s"}], "path must be absolute"),
        ("pod_spec", {"hostNetwork": True}, "hostNetwork: is refused here"),
        (
            "pod_spec",
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
            "spec.volumes[0].hostPath: is refused here",
        ),
        ("pod_spec", {"containers": "x"}, "containers: must be a list of objects"),
    ],
)
def test_what_no_pod_may_have_names_its_field(api: Api, field: str, value: Any, said: str) -> None:
    response = create(api, **{field: value})
    assert response.status_code == 400, response.content
    ((name, (message,)),) = response.json()["errors"].items()
    assert name.startswith(field)
    assert said in message
    assert not Session.objects.exists()


def test_an_operator_says_what_is_refused(api: Api, settings: Any) -> None:
    settings.POD_FIELDS_REFUSED = refused_paths(["hostNetwork"], ["priorityClassName"])
    assert create(api, pod_spec={"hostNetwork": True}).status_code == 201
    assert create(api, pod_spec={"priorityClassName": "high"}).status_code == 400


def ended(at: Project, termination: dict[str, Any]) -> Session:
    session = factories.submit(at, retry_policy=factories.policy())
    played = agent()
    played.lease()
    played.start(session.pk)
    played.report(session.pk, "TERMINATING")
    played.report(session.pk, "ERROR", termination=termination)
    return Session.objects.get(pk=session.pk)


@pytest.mark.parametrize(("ours", "cause"), [(True, "unknown"), (False, "agent_transient")])
def test_whose_wish_a_deletion_was_makes_the_difference(
    at: Project, ours: bool, cause: str
) -> None:
    pod = recorded("running")
    pod["metadata"]["deletionTimestamp"] = "2026-11-21T00:12:00Z"
    session = ended(at, {"pod": pod, "deleted_by_us": ours})
    assert (session.retry_cause, session.node) == (cause, "lab-node")


@pytest.mark.parametrize("unfenced", [True, False])
def test_an_unfenced_end_counts_as_unconfirmed(at: Project, unfenced: bool) -> None:
    pod = recorded("node-lost")
    condition(pod, "DisruptionTarget", reason="PreemptionByScheduler")
    session = ended(at, {"pod": pod, "unfenced": unfenced})
    assert session.retry_cause == "preempted"
    event = SessionEvent.objects.get(session_id=session.pk, type="session.error")
    assert event.data.get("unfenced", False) is unfenced
    due_at = RetryDecision.objects.get(session_id=session.pk).due_at
    assert due_at is not None
    assert session.terminating_at is not None
    waits = due_at - session.terminating_at
    # The grace period outlasts the delay of the policy, unless somebody saw the end.
    assert (waits >= timedelta(seconds=30)) is unfenced


def test_a_vanished_pod_is_nobodys_fault(at: Project) -> None:
    session = ended(at, {"reason": "PodVanished", "pod": recorded("unschedulable-cpu")})
    assert session.retry_cause == "agent_transient"
